"""How often the workers are to renew their Leases, as this replica tells them.

The number of workers decides (`core.renewals`). What it comes to stands in each Worker's spec, beside the mailbox, and
travels with the next write of it; a worker that gets no jobs is written to for its sake alone. One replica tells a
worker: the one that leads the shard of the worker's own name. Whoever else writes the mailbox leaves it as it stands.
"""

from collections.abc import Sequence

from fencepost.core.names import DagKey, shard_of
from fencepost.core.renewals import INTERVAL_STEP_S, renewal_interval_s
from fencepost.loops.shards import Shards
from fencepost.observe.workers import WorkerCache, WorkerView


class Renewals:
    """The interval of now, and who has not been told of it."""

    def __init__(self, workers: WorkerCache, shards: Shards) -> None:
        self._workers = workers
        self._shards = shards
        self._interval_s: int | None = None
        """None until the workers are counted for the first time."""

    def count_workers(self) -> Sequence[str]:
        """Take note of how many workers there are; those that are to be told of another interval by this replica."""
        if self._interval_s is None:
            # What another leader has told them is not taken back for nothing.
            told = (view.worker.renewal_interval_s for view in self._workers.all())
            self._interval_s = max(told, default=INTERVAL_STEP_S)
        wanted_s = renewal_interval_s(self._workers.count, self._interval_s)
        if wanted_s == self._interval_s:
            return ()
        self._interval_s = wanted_s
        return [view.name for view in self._workers.all() if self.untold(view)]

    def wanted_s(self, view: WorkerView) -> int:
        """The interval that the next write of this worker's mailbox is to carry."""
        stored_s = view.worker.renewal_interval_s
        if self._interval_s is None or self._interval_s == stored_s or view.worker.over:
            return stored_s
        own = shard_of(DagKey("", view.name), self._shards.count)
        return stored_s if self._shards.authority(own) is None else self._interval_s

    def untold(self, view: WorkerView) -> bool:
        """Whether the worker is to be told of another interval."""
        return self.wanted_s(view) != view.worker.renewal_interval_s
