"""Dead letters: written for jobs that have died, and deleted when they have expired.

The run's record says who is dying, so there is nothing to remember here that a new leader could not find again. All
letters of a replica go through one writer, a few at a time with a pause between: a night in which everything fails
costs the API server no more than that, and starts go on beside it.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from fencepost.api.letters import dead_job
from fencepost.api.names import DEAD_LETTERS
from fencepost.apply.executor import Answer
from fencepost.apply.writers import Next
from fencepost.core.dag_spec import LETTERS_LIMIT_DEFAULT
from fencepost.core.dead_letters import REPLAYING, letter_name, to_make_room
from fencepost.core.intents import Authority, CreateLetter, DeleteLetter
from fencepost.core.names import DagKey, JobKey, RunKey
from fencepost.core.plan_run import Report
from fencepost.core.run_state import Death, RunState
from fencepost.kube.errors import ApiError
from fencepost.loops.attempt_log import AttemptLog
from fencepost.loops.clock_check import LOOK_AGAIN_S
from fencepost.loops.deciding import Decision
from fencepost.loops.world import World
from fencepost.observe.letters import LetterView
from fencepost.observe.runs import RunView

log = logging.getLogger(__name__)

BATCH_MAX = 10
BATCH_PERIOD_S = 0.1
"""Letters written in one go, and the pause after them: 100 a second at the most."""
MOMENT_S = 0.001
"""Not worth waiting for."""
EXPIRY_LOOK_S = 3600.0
"""How often a DAG's letters are looked at, should none expire before."""
EXPIRED_BATCH_MAX = 20

Burial = tuple[JobKey, int]
"""A job and the round in which it died."""


class Letters:
    """The dead letters of the shards that this replica plans for."""

    def __init__(
        self, world: World, on_written: Callable[[RunKey], None], on_missed: Callable[[DagKey, int, str], None]
    ) -> None:
        """`on_written`: a run's letters are written, so that it may forget of them. `on_missed`: how many of a DAG's
        jobs leave no letter for want of room, and why as a sentence."""
        self._world = world
        self._letters = world.letters
        self._on_written = on_written
        self._on_missed = on_missed
        self._waiting: dict[RunKey, None] = {}
        """Runs with dying jobs, first come first served."""
        self._buried: dict[str, set[Burial]] = {}
        """By a run's UID: dying jobs whose letter is known to be stored, or will never be."""
        self._rested_s = 0.0
        """When the next batch may be written, on the steady clock."""
        self._attempts = AttemptLog()

    def room(self, dag: DagKey) -> int:
        """How many letters more the DAG can take."""
        return max(0, self._limit(dag) - self._letters.waiting_count(dag))

    def lettered(self, uid: str, dying: Mapping[JobKey, Death]) -> frozenset[JobKey]:
        """The dying jobs of a run that it may forget."""
        buried = self._buried.get(uid, ())
        return frozenset(job for job, death in dying.items() if (job, death.round) in buried)

    def stored(self, view: RunView, state: RunState, unlettered: int = 0) -> None:
        """This is a run's stored state: what dies in it gets its letters, but for so many that find no room."""
        if unlettered:
            self._miss(view, unlettered)
        if state.dying:
            self._waiting[view.key] = None
            self._touch()
        else:
            self._buried.pop(view.uid, None)

    def owed(self, view: RunView, state: RunState) -> bool:
        """Whether letters of a run's dying jobs are still to be written. They will be, and the run is told."""
        owed = len(self.lettered(view.uid, state.dying)) < len(state.dying)
        if owed:
            self.stored(view, state)
        return owed

    def note_attempts(self, view: RunView, reports: Sequence[Report], before: RunState, decision: Decision) -> None:
        """These results were folded into a run: what a letter may have to tell of them some day."""
        uid = view.uid
        after = decision.state
        for report in reports:
            lease = before.leases.get(report.job)
            if lease is None or (lease.worker, lease.token) != (report.worker, report.result.token):
                continue
            if report.job in after.waiting or report.job in after.dying:
                self._attempts.note(uid, report.job, lease.attempt, report.result)
            else:
                self._attempts.drop(uid, report.job)

    def leave(self, view: RunView) -> None:
        """The run has ended, is gone, or is another replica's."""
        self._waiting.pop(view.key, None)
        self._buried.pop(view.uid, None)
        self._attempts.forget(view.uid)

    def letter_changed(self, view: LetterView, old: LetterView | None) -> None:
        """A letter is there, or says something else."""
        if old is None:
            self.take_up(view.dag)

    def take_up(self, dag: DagKey) -> None:
        """See to the expiry of a DAG's letters, if they are ours."""
        view = self._world.dags.get(dag)
        if view is None or self._world.shards.authority(view.shard) is None or not self._of(dag):
            return
        self._world.writers.touch(("dead-letters", dag), lambda: self._expire(dag))

    def depth(self) -> Mapping[str, int]:
        """Letters of the shards that are led here, by what they tell of their last replay."""
        ours = set(self._world.shards.ready())
        counts = Counter(view.letter.replayed.phase or "None" for view in self._letters.all() if view.shard in ours)
        return {"None": 0, **counts}

    def _of(self, dag: DagKey) -> list[LetterView]:
        return list(self._letters.of_dag(dag))

    def _limit(self, dag: DagKey) -> int:
        view = self._world.dags.get(dag)
        if view is None:
            return 0
        return LETTERS_LIMIT_DEFAULT if view.checked is None else view.checked.spec.letters_limit

    def _touch(self) -> None:
        self._world.writers.touch(("letters",), self._turn)

    async def _turn(self) -> Next | float:
        """Write a few letters, of the runs that have waited longest."""
        early_s = self._rested_s - self._world.clock.steady_s()
        if early_s > MOMENT_S:
            return early_s
        left = BATCH_MAX
        for key in list(self._waiting):
            view = self._world.runs.get(key)
            authority = None if view is None else self._world.shards.authority(view.shard)
            if view is None or view.state is None or authority is None:
                self._waiting.pop(key, None)  # unless it has left under a write
                continue
            buried = self._buried.setdefault(view.uid, set())
            todo = [(job, death) for job, death in view.state.dying.items() if (job, death.round) not in buried]
            for job, death in todo[:left]:
                self._rested_s = self._world.clock.steady_s() + BATCH_PERIOD_S
                if not await self._write(view, authority, job, death):
                    return Next.RETRY
                buried.add((job, death.round))
            self._on_written(key)
            left -= len(todo)
            if left < 0:
                return BATCH_PERIOD_S
            self._waiting.pop(key, None)
        return Next.REST

    async def _write(self, view: RunView, authority: Authority, job: JobKey, death: Death) -> bool:
        """One letter; False where it is to be tried again."""
        assert view.spec is not None
        assert view.state is not None
        world = self._world
        name = letter_name(view.dag.name, view.uid, job, death.round)
        if self._letters.get((view.dag.namespace, name)) is not None:
            return True
        dag = world.dags.get(view.dag)
        dag_uid = "" if dag is None else dag.uid
        leaving = to_make_room([each.stored for each in self._of(view.dag)], self._limit(view.dag))
        if dag_uid != view.spec.dag_uid:  # it is gone, or another one has its name: nobody would look for a letter
            world.metrics.dead_letters("unwritten")
            return True
        if leaving is None:
            self._miss(view, 1)
            return True
        for old in leaving:
            if not await self._delete(authority, self._letters.get((view.dag.namespace, old))):
                return False
        attempts = self._attempts.of(view.uid, job)
        message = attempts[-1].result.message if attempts else view.state.failures.get(job, "")
        told = dead_job(view.key, view.uid, view.spec, job, death, attempts, message, world.clock.now_s())
        written = await world.executor.execute(CreateLetter(authority, view.dag, dag_uid, name, told))
        match written.answer:
            case Answer.DONE:
                assert written.object is not None
                self._letters.upsert(written.object)
                world.metrics.dead_letters("written")
                return True
            case Answer.EXISTS:
                return await self._take_in(view.dag.namespace, name)
            case Answer.REFUSED | Answer.GONE:  # its namespace is going, or the right to write letters is missing
                log.error("no dead letter for job %s of run %s: %s", job, view.key, written.error)
                world.metrics.dead_letters("unwritten")
                return True
            case _:
                return False

    async def _take_in(self, namespace: str, name: str) -> bool:
        """A letter that is said to be there; whether it is."""
        try:
            self._letters.upsert(await self._world.api.get(DEAD_LETTERS, namespace, name))
        except ApiError:
            return False
        return True

    def _miss(self, view: RunView, count: int) -> None:
        """So many jobs of a run leave no letter; nobody who wants none at all is told of it."""
        self._world.metrics.dead_letters("unwritten", count)
        if limit := self._limit(view.dag):
            jobs = "1 job" if count == 1 else f"{count} jobs"
            fact = f"{jobs} of run {view.key} failed for good and left no dead letter"
            limited = f"DAG {view.dag} keeps {limit} (spec.deadLetters.limit)"
            self._on_missed(view.dag, count, f"{fact}: {limited}; replay or delete some, or raise the limit")

    async def _expire(self, dag: DagKey) -> Next | float:
        view = self._world.dags.get(dag)
        authority = None if view is None else self._world.shards.authority(view.shard)
        if view is None or authority is None or view.checked is None:
            return Next.REST
        if self._world.clock_check.wrong:
            return LOOK_AGAIN_S
        letters = sorted(self._of(dag), key=lambda each: each.created_s)
        ends_before_s = self._world.clock.now_s() - view.checked.spec.letters_ttl_s
        expired = [each for each in letters if each.created_s <= ends_before_s and not _in_use(each)]
        for letter in expired[:EXPIRED_BATCH_MAX]:
            if not await self._delete(authority, letter):
                return Next.RETRY
            self._world.metrics.dead_letters("expired")
        if len(expired) > EXPIRED_BATCH_MAX:
            return Next.AGAIN
        left_s = [each.created_s - ends_before_s for each in letters if each.created_s > ends_before_s]
        return min([EXPIRY_LOOK_S, *left_s]) + 1.0 if len(letters) > len(expired) else Next.REST

    async def _delete(self, authority: Authority, letter: LetterView | None) -> bool:
        if letter is None:
            return True
        written = await self._world.executor.execute(DeleteLetter(authority, *letter.name, letter.uid))
        if written.answer in (Answer.DONE, Answer.GONE, Answer.CONFLICT):
            self._letters.remove(letter.name, letter.version)
            return True
        return False


def _in_use(view: LetterView) -> bool:
    """A replay of it is wanted, or under way."""
    return view.letter.pending or view.letter.replayed.phase == REPLAYING
