"""The reserve of each pool as marks on its workers: which worker is to keep how many slots for critical jobs.

Decided by `core.reserve`; by one replica for each pool, the one that leads the shard of the pool's own name, anew
whenever a worker comes or goes. A mark travels with the next write of the worker's mailbox, or with one for its sake
alone. Whoever else writes the mailbox leaves the mark as it stands, and keeps to it.
"""

from collections.abc import Callable

from fencepost.apply.writers import Next, Writers
from fencepost.core.names import DagKey, shard_of
from fencepost.core.reserve import Marked, kept_slots, plan_marks
from fencepost.loops.shards import Shards
from fencepost.observe.workers import WorkerCache, WorkerView


class Reserves:
    """What each worker keeps, and what it is to keep."""

    def __init__(
        self,
        workers: WorkerCache,
        shards: Shards,
        writers: Writers,
        percent_of: Callable[[str], int],
        on_mark: Callable[[str], None],
    ) -> None:
        """`percent_of` a pool: its reserve. `on_mark`: this worker's mailbox is to be written."""
        self._workers = workers
        self._shards = shards
        self._writers = writers
        self._percent_of = percent_of
        self._on_mark = on_mark
        self._marks: dict[str, int] = {}
        """By worker: what it is to be marked with, until it is."""

    def kept(self, view: WorkerView) -> int:
        """How many slots of a worker only critical jobs may take: by the mark that its next write carries."""
        marked = Marked(view.worker.slots, self.wanted(view))
        return kept_slots(self._percent_of(view.worker.pool), marked)

    def wanted(self, view: WorkerView) -> int | None:
        """The mark that the next write of this worker's mailbox is to carry."""
        mark = self._marks.get(view.name)
        return view.worker.reserved_slots if mark is None or not self._decides(view.worker.pool) else mark

    def worker_changed(self, view: WorkerView, old: WorkerView | None) -> None:
        """A worker has come, takes no jobs any more, or has another mark: the others' may have to change."""
        before = None if old is None else (old.worker.slots_offered, old.worker.reserved_slots)
        if before != (view.worker.slots_offered, view.worker.reserved_slots):
            self.look(view.worker.pool)

    def worker_gone(self, view: WorkerView) -> None:
        """A worker's object is gone."""
        self._marks.pop(view.name, None)
        self.look(view.worker.pool)

    def take_up(self) -> None:
        """Whoever has decided before may not have come to mark the workers after the last changes."""
        for pool in {view.worker.pool for view in self._workers.all()}:
            self.look(pool)

    def look(self, pool: str) -> None:
        """The pool's workers may have to be marked anew."""
        if self._percent_of(pool) and self._decides(pool):
            self._writers.touch(("reserve", pool), lambda: self._turn(pool))

    def _decides(self, pool: str) -> bool:
        return self._shards.authority(shard_of(DagKey("", pool), self._shards.count)) is not None

    async def _turn(self, pool: str) -> Next:
        """Decide for all workers of a pool. Costs as much as it has workers, for all that have come or gone since."""
        views = [view for view in self._workers.all() if view.worker.pool == pool]
        workers = {view.name: view.worker for view in views if view.worker.slots_offered}
        live = {name: Marked(worker.slots, worker.reserved_slots) for name, worker in workers.items()}
        changes = plan_marks(self._percent_of(pool), live) if self._decides(pool) else {}
        for view in views:
            self._marks.pop(view.name, None)
        self._marks.update(changes)
        for worker in changes:
            self._on_mark(worker)
        return Next.REST
