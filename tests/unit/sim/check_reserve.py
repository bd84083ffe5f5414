"""The slots that a pool keeps for critical jobs: nobody else gets one, and there are as many as was asked for."""

from collections.abc import Iterator
from typing import Any

from fencepost.api.names import CONTROLLER_REVISIONS, DAG_RUNS, WORKER_POOLS, WORKERS
from tests.unit.sim.checker import Checker
from tests.unit.sim.history import Stored, Written
from tests.unit.sim.scene import Scene

MEMORY_S = 60.0
"""For so long after an edit of the reserve a leader may go by what was asked for before."""


class ReserveIsKept(Checker):
    """By the mark of the worker, which stands in the object that was written; where it has none, by its share.

    Which jobs are critical is read from their definitions, not from the worker.
    """

    promise = "a slot that is kept for critical jobs goes to no other"
    kinds = (WORKERS, WORKER_POOLS)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._percents: list[tuple[float, int]] = []
        self._critical: dict[str, bool] = {}
        """By mailbox key, of each job that was ever delivered. One whose run is not known counts as critical."""

    def see(self, written: Written) -> Iterator[str]:
        if written.kind is WORKER_POOLS:
            self._percents.append((written.at_s, _percent(written.now)))
            return
        worker, before = written.after, written.before
        if worker is None or before is None or worker.fenced:
            return
        new = [key for key, text in worker.entries.items() if _token(before.entries.get(key, "")) != _token(text)]
        for key in new:
            self._critical[key] = self._is_critical(key)
        busy = [key for key, text in worker.entries.items() if _token(worker.results.get(key, "")) != _token(text)]
        others = [key for key in busy if not self._critical.get(key, True)]
        late = [key for key in others if key in new]
        room = worker.spec["slots"] - _kept(worker, self._least_percent(written.at_s))
        if late and len(others) > room:
            yield f"{worker.name} was given {', '.join(late)}: {len(others)} jobs are not critical, {room} may be"

    def end(self) -> Iterator[str]:
        percent = self._percents[-1][1]
        workers = self.scene.history.objects[WORKERS].values()
        live = [worker for worker in workers if not worker.fenced and not worker.status.get("draining")]
        slots = sum(worker.spec["slots"] for worker in live)
        kept = sum(_kept(worker, percent) for worker in live)
        if live and kept != max(0, min(percent * slots // 100, slots - 1)):
            yield f"{kept} of {slots} slots are kept for critical jobs, {percent}% was asked for"

    def _least_percent(self, at_s: float) -> int:
        while len(self._percents) > 1 and self._percents[1][0] < at_s - MEMORY_S:
            self._percents.pop(0)
        return min(percent for _, percent in self._percents)

    def _is_critical(self, key: str) -> bool:
        _, run_name, task_name, _ = key.split("/")
        name, _, uid_prefix = run_name.rpartition(".")
        run = self.scene.history.objects[DAG_RUNS].get(name)
        if run is None or not run.uid.startswith(uid_prefix):
            return True  # it is gone, and another may bear its name
        revision = self.scene.history.objects[CONTROLLER_REVISIONS].get(run.spec.get("revision", ""))
        if revision is None:
            return True
        data: dict[str, Any] = revision.obj["data"]
        task = next(task for task in data["tasks"] if task["name"] == task_name)
        priority = task.get("priority", data.get("priority", "normal"))
        return bool(priority == "critical" and run.spec.get("trigger") != "Backfill")


def _percent(pool: Stored) -> int:
    return int(pool.spec.get("reserved", {"critical": "0%"})["critical"].removesuffix("%"))


def _kept(worker: Stored, percent: int) -> int:
    """Slots that a worker keeps under a reserve of so much."""
    slots = int(worker.spec["slots"])
    return min(slots, worker.spec.get("reservedSlots", -(-percent * slots // 100))) if percent else 0


def _token(text: str) -> str:
    return text.partition(" ")[0]


RESERVE_CHECKERS = (ReserveIsKept,)
