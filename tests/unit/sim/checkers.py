"""All checkers together. Each holds one promise, and knows nothing of how the product keeps it.

A checker is told of every write, and is asked to look around once a second and at the end; whatever it yields is a
violation, and ends the simulation.
"""

from collections.abc import Iterator

from tests.unit.sim.check_attempts import ATTEMPT_CHECKERS
from tests.unit.sim.check_clocks import CLOCK_CHECKERS
from tests.unit.sim.check_ends import END_CHECKERS
from tests.unit.sim.check_graph import GRAPH_CHECKERS
from tests.unit.sim.check_leaders import LEADER_CHECKERS
from tests.unit.sim.check_leases import LEASE_CHECKERS
from tests.unit.sim.check_mailboxes import MAILBOX_CHECKERS
from tests.unit.sim.check_repair import REPAIR_CHECKERS
from tests.unit.sim.check_reserve import RESERVE_CHECKERS
from tests.unit.sim.check_slots import SLOT_CHECKERS
from tests.unit.sim.checker import Checker
from tests.unit.sim.history import KINDS, Written
from tests.unit.sim.scene import Scene
from tests.unit.sim.violation import BrokenPromiseError, Violation

ALL: tuple[type[Checker], ...] = (
    *SLOT_CHECKERS,
    *LEASE_CHECKERS,
    *GRAPH_CHECKERS,
    *ATTEMPT_CHECKERS,
    *REPAIR_CHECKERS,
    *CLOCK_CHECKERS,
    *MAILBOX_CHECKERS,
    *RESERVE_CHECKERS,
    *LEADER_CHECKERS,
    *END_CHECKERS,
)


class Checkers:
    """Of one simulation."""

    def __init__(self, scene: Scene) -> None:
        self.fingerprint = 0
        self._scene = scene
        self._checkers = [checker(scene) for checker in ALL]
        self._by_kind = {kind: [each for each in self._checkers if kind in each.kinds] for kind in KINDS}
        self._lookers = [each for each in self._checkers if type(each).look is not Checker.look]
        self._starters = [each for each in self._checkers if type(each).job_started is not Checker.job_started]
        self._jobs_seen = 0

    def see(self, written: Written) -> None:
        """A write has just been stored."""
        what = (self.fingerprint, written.at_s, written.version, written.name, written.sender)
        self.fingerprint = hash(what)
        for checker in self._by_kind[written.kind]:
            for text in checker.see(written):
                self._fail(checker, text)

    def look(self) -> None:
        """Time has passed."""
        book = self._scene.book
        for job in book[self._jobs_seen :]:
            for checker in self._starters:
                self._judge(checker, checker.job_started(job))
        self._jobs_seen = len(book)
        for checker in self._lookers:
            self._judge(checker, checker.look())

    def end(self) -> None:
        """Everything has ended."""
        self.look()
        for checker in self._checkers:
            self._judge(checker, checker.end())
        failure, self._scene.loop.failure = self._scene.loop.failure, None
        if failure is not None:
            raise failure

    def _judge(self, checker: Checker, broken: Iterator[str]) -> None:
        for text in broken:
            self._fail(checker, text)

    def _fail(self, checker: Checker, text: str) -> None:
        if self._scene.loop.failure is None:
            self._scene.loop.failure = BrokenPromiseError(Violation(checker.promise, self._scene.loop.now_s, text))
