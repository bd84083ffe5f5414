"""Promises about wall clocks."""

from collections.abc import Iterator
from typing import Final

from fencepost.api.names import DAG_RUNS
from tests.unit.sim.checker import Checker
from tests.unit.sim.history import Written
from tests.unit.sim.scene import Scene

WRONG_S: Final = 30.0
UNSURE_S: Final = 3.0
"""What answers with whole seconds, on clocks of several speeds, cannot tell."""
REMEMBERED_S: Final = 60.0
"""So old are the answers at most by which a replica judges its clock."""
SLOW: Final = ("slow", "slow_back")


class AWrongClockFiresNothing(Checker):
    """Not held against a replica whose answers are slow, as they tell less; nor against one whose steady clock stood
    still with its machine, which finds out only after some answers."""

    promise = "no replica fires by a clock that is wrong by more than half a minute"
    kinds = (DAG_RUNS,)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._slow_at_s = -REMEMBERED_S

    def see(self, written: Written) -> Iterator[str]:
        run = written.after
        if written.before is not None or run is None or run.spec.get("trigger") != "Schedule":
            return
        error_s = written.clock_error_s
        self.scene.coverage["fired by a clock that is off"] += error_s > 2.0
        machines = [machine for machine in self.scene.machines if machine.name == written.sender]
        unsure = written.at_s - self._slow_at_s < REMEMBERED_S or any(each.clock_stopped for each in machines)
        if error_s > WRONG_S + UNSURE_S and not unsure:
            yield f"{written.sender} fires {run.name} by a clock that is wrong by {error_s:.1f} s"

    def look(self) -> Iterator[str]:
        if any(trouble.step.kind in SLOW for trouble in self.scene.troubles.active):
            self._slow_at_s = self.scene.loop.now_s
        for replica in self.scene.replicas.values():
            if replica.alive and not replica.machine.frozen and replica.clock_check.wrong:
                self.scene.coverage["clock distrusted"] += 1
        yield from ()


CLOCK_CHECKERS = (AWrongClockFiresNothing,)
