"""The pools: specs, queues and slots, and the grants on their way from a free slot into a lease.

A grant is a promise of one slot to one run. It lives here from the moment it is given until the run's writer has turned
it into a lease or given it back; so long it counts as taken, on the worker and for the DAG's share.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from fencepost.apply.writers import Next, Writers
from fencepost.base.clock import Clock
from fencepost.base.metrics import PoolSizes
from fencepost.core.names import DagKey, RunKey
from fencepost.core.placement import Block, Demand, Grant, PoolQueue, PoolSpec
from fencepost.core.turns import Backlog, Rivals
from fencepost.loops.mailboxes import Mailboxes
from fencepost.observe.workers import WorkerCache, WorkerView

YIELD_WINDOWS = 10
"""A slot is left alone for so many of the writers' windows for each replica that goes before us: what it takes to see
the slot, lease the job and deliver it."""
YIELD_MAX_S = 3.0


class PoolDesk:
    """All pools by name."""

    def __init__(
        self,
        workers: WorkerCache,
        clock: Clock,
        writers: Writers,
        rivals: Callable[[str], Rivals],
        on_grant: Callable[[RunKey], None],
        on_critical: Callable[[], None],
    ) -> None:
        """`rivals`: what other replicas tell of this pool. `on_critical`: a critical job waits for a slot."""
        self._workers = workers
        self._clock = clock
        self._writers = writers
        self._rivals = rivals
        self._on_grant = on_grant
        self._on_critical = on_critical
        self._pools: dict[str, PoolQueue] = {}
        self._pool_of_worker: dict[str, str] = {}
        self._pool_of_run: dict[RunKey, str] = {}
        self._grants: dict[RunKey, list[Grant]] = {}
        self.mailboxes: Mailboxes | None = None
        """Set once by whoever builds both: each needs the other."""

    def set_spec(self, spec: PoolSpec) -> bool:
        """A pool is there, or has this spec now; whether that is news."""
        pool = self._pools.get(spec.name)
        if pool is not None and pool.spec == spec:
            return False
        reserved_before = 0 if pool is None else pool.spec.reserved_percent
        if pool is None:
            pool = self._pools[spec.name] = PoolQueue(spec, self._rivals(spec.name).me)
        pool.spec = spec
        if not len(pool.slots) or spec.reserved_percent != reserved_before:
            for view in list(self._workers.all()):
                self.slots_changed(view.name)
        pool.capacity_changed()
        self._pump(spec.name, None)
        return True

    def drop(self, name: str) -> None:
        """A pool is gone; its workers' jobs go on, nothing new is leased."""
        self._pools.pop(name, None)
        for worker in [worker for worker, pool in self._pool_of_worker.items() if pool == name]:
            del self._pool_of_worker[worker]

    def get(self, name: str) -> PoolQueue | None:
        """The queue of the pool of this name."""
        return self._pools.get(name)

    def reserved_percent(self, name: str) -> int:
        """How much of a pool's slots is kept for critical jobs; 0 of one that is not there."""
        pool = self._pools.get(name)
        return pool.spec.reserved_percent if pool is not None else 0

    def backlogs(self) -> Mapping[str, Backlog]:
        """Of each pool the best job that waits for a slot, where one does: what other replicas are told."""
        now_s = self._clock.now_s()
        waiting = {name: pool.backlog(now_s) for name, pool in self._pools.items()}
        return {name: backlog for name, backlog in waiting.items() if backlog is not None}

    def sizes(self) -> Iterable[PoolSizes]:
        """Of each pool. Walks the claims: for a scrape."""
        for name, pool in self._pools.items():
            slots = pool.slots
            yield PoolSizes(name, pool.waiting(), slots.live, slots.live - slots.free, slots.reserved)

    def slots_changed(self, worker: str) -> str:
        """A worker may have another number of free slots, or be gone; the pool's name, empty if there is none."""
        assert self.mailboxes is not None
        view = self._workers.get(worker)
        name = view.worker.pool if view is not None else self._pool_of_worker.get(worker, "")
        pool = self._pools.get(name)
        if pool is None:
            return ""
        live_before = pool.slots.live
        if view is None or not takes_jobs(view):
            pool.slots.drop(worker)
            self._pool_of_worker.pop(worker, None)
        else:
            self._pool_of_worker[worker] = name
            pool.slots.set(worker, view.worker.slots, *self.mailboxes.room(view), self._clock.steady_s())
        if pool.slots.live != live_before:
            pool.capacity_changed()
        self._pump(name, None)
        return name

    def adopt(self, pool_name: str, dag: DagKey, run: RunKey, leases: int) -> None:
        """A run that has not been planned here yet holds this many leases by its record: they count for its DAG's share
        before any other run of the DAG asks for more."""
        if pool_name in self._pools:
            self._move(pool_name, dag, run)
            self.hold(dag, run, leases)

    def ask(self, pool_name: str, dag: DagKey, run: RunKey, leases: int, demands: Sequence[Demand]) -> list[Grant]:
        """Put in a run's claims, whose record holds so many leases, and take every grant that it has by now."""
        pool = self._pools.get(pool_name)
        if pool is not None:
            self._move(pool_name, dag, run)
            granted = self._grants.get(run, ())
            pool.hold(dag, run, leases + len(granted))
            pool.offer(dag, run, _without(demands, granted))
            self._pump(pool_name, run)
        return self._grants.pop(run, [])

    def close(self, grants: Sequence[Grant]) -> None:
        """These grants have become leases, or never will: their reservations end."""
        assert self.mailboxes is not None
        for grant in grants:
            self.mailboxes.close(grant.worker, critical=grant.critical)

    def hold(self, dag: DagKey, run: RunKey, leases: int) -> None:
        """The run's record holds this many leases."""
        pool = self._pools.get(self._pool_of_run.get(run, ""))
        if pool is not None:
            pool.hold(dag, run, leases + len(self._grants.get(run, ())))
            self._pump(pool.spec.name, None)

    def perhaps(self, dag: DagKey, run: RunKey, leases: int) -> None:
        """A write with so many leases of the run has had no clear answer: they count, and nothing more is granted to
        it, until its record has been read."""
        pool = self._pools.get(self._pool_of_run.get(run, ""))
        grants = self._grants.pop(run, [])
        if pool is not None:
            pool.withdraw(run)
            pool.hold(dag, run, leases)
        self.close(grants)
        if pool is not None:
            self._pump(pool.spec.name, None)

    def leave(self, dag: DagKey, run: RunKey) -> None:
        """The run wants and holds nothing any more (ended, gone, or another replica's)."""
        pool = self._pools.get(self._pool_of_run.pop(run, ""))
        grants = self._grants.pop(run, [])
        if pool is not None:
            pool.withdraw(run)  # before its slots come free, or it would be granted one of them
            pool.hold(dag, run, 0)
        self.close(grants)
        if pool is not None:
            self._pump(pool.spec.name, None)

    def block(self, pool_name: str, dag: DagKey, run: RunKey) -> tuple[Block, str] | None:
        """Why the run's jobs wait for a slot."""
        pool = self._pools.get(pool_name)
        if pool is None:
            return Block.NO_POOL, f"there is no WorkerPool {pool_name!r}; create it, or cancel the run"
        return pool.block(dag, run)

    def _move(self, pool_name: str, dag: DagKey, run: RunKey) -> None:
        """The run is of this pool from now on, and of no other."""
        before = self._pools.get(self._pool_of_run.get(run, ""))
        if before is not None and before.spec.name != pool_name:
            before.withdraw(run)
            before.hold(dag, run, 0)
        self._pool_of_run[run] = pool_name

    def _pump(self, name: str, asking: RunKey | None) -> None:
        """Turn free slots into grants; every run that gets one is told, but for the one that is asking."""
        pool = self._pools.get(name)
        assert self.mailboxes is not None
        if pool is None or not pool.wanted:  # with no claim nothing is set aside either that is not looked at again
            return
        now_s = self._clock.now_s()
        if pool.slots.free:
            yield_s = min(YIELD_MAX_S, YIELD_WINDOWS * self._writers.window_s())
            for grant in pool.grants(now_s, self._rivals(name), self._clock.steady_s(), yield_s):
                self.mailboxes.grant(grant.worker, critical=grant.critical)
                self._grants.setdefault(grant.run, []).append(grant)
                if grant.run != asking:
                    self._on_grant(grant.run)
            if pool.slots.aside:
                self._writers.touch(("turns", name), lambda: self._look_again(name), after_s=yield_s)
        if pool.critical_waits(now_s):
            self._on_critical()

    async def _look_again(self, name: str) -> Next:
        """Slots that were left alone for other replicas may have been left alone for long enough."""
        pool = self._pools.get(name)
        if pool is not None:
            pool.slots.look_again()
            self._pump(name, None)
        return Next.REST


def _without(demands: Sequence[Demand], grants: Sequence[Grant]) -> list[Demand]:
    """What is asked for beyond the slots that have been granted already."""
    granted = Counter(grant.task for grant in grants)
    left = ((demand, demand.count - granted[demand.task]) for demand in demands)
    return [replace(demand, count=count) for demand, count in left if count > 0]


def takes_jobs(view: WorkerView) -> bool:
    """Whether a worker is alive and takes new jobs."""
    return view.worker.slots_offered > 0
