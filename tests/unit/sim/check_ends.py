"""Promises about what waits, and about the end of everything."""

from collections.abc import Iterator
from typing import Final

from fencepost.api.names import DAG_RUNS, WORKERS
from tests.unit.sim.checker import Checker
from tests.unit.sim.history import Written
from tests.unit.sim.scene import Scene

SETTLED_S: Final = 90.0
"""After the last fault; from then on things are as they are meant to be."""
REASON_S: Final = 20.0
TAKEN_UP_S: Final = 15.0


class WaitingHasAReason(Checker):
    promise = "whatever waits says for what"
    kinds = (DAG_RUNS,)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._written_at_s: dict[str, float] = {}

    def see(self, written: Written) -> Iterator[str]:
        if written.after is not None:
            self._written_at_s[written.after.uid] = written.at_s
            if written.after.run.reason:
                self.scene.coverage[f"reason {written.after.run.reason}"] += 1
            for _, phase in written.ends.values():
                self.scene.coverage[f"job {phase}"] += 1
            self.scene.coverage[f"run {written.after.run.phase}"] += 1
        yield from ()

    def look(self) -> Iterator[str]:
        now_s = self.scene.loop.now_s
        if now_s < self.scene.plan.calm_from_s + SETTLED_S:
            return
        for run in self.scene.history.objects[DAG_RUNS].values():
            still_s = now_s - self._written_at_s[run.uid]
            if not run.status:
                if still_s > TAKEN_UP_S:
                    yield f"run {run.name} has not been taken up for {still_s:g} s"
                continue
            says = run.run.phase.finished or run.run.leases or run.run.waiting or run.run.reason
            if not says and still_s > REASON_S:
                yield f"run {run.name} has stood still for {still_s:g} s with nothing leased, and does not say why"


class NothingFalls(Checker):
    promise = "no part of a process that is to run for ever ends"

    def look(self) -> Iterator[str]:
        for replica in self.scene.replicas.values():
            if replica.fallen:
                ends = [task.exception() for task in replica.tasks if task.done() and not task.cancelled()]
                yield f"{replica.name}: {ends!r}"


class NothingIsLeftOver(Checker):
    promise = "what is dead is cleared away"

    def end(self) -> Iterator[str]:
        live = {worker.name for worker in self.scene.workers.values() if worker.alive}
        stored = {name for name, worker in self.scene.history.objects[WORKERS].items() if not worker.fenced}
        if live != stored:
            yield f"workers {sorted(stored)} are stored unfenced, {sorted(live)} are alive"
        for shard in range(self.scene.plan.shards):
            if len(self.scene.leads(shard)) != 1:
                yield f"shard {shard} is led by {[replica.name for replica in self.scene.leads(shard)]}"


END_CHECKERS = (WaitingHasAReason, NothingFalls, NothingIsLeftOver)
