"""Who gets a slot: one pool's queue and its slots, as one replica sees them.

Claims wait in four heaps, one a priority, each ordered by the time since which its jobs are ready. Within a heap the
first has waited longest and so has aged most; the next claim is therefore the best of four heads, whatever has piled up
behind them. A claim that cannot run is parked under what blocks it and costs nothing until that changes.

A claim is for jobs of one task of one run, however wide; a slot is granted to one job at a time. The DAG's share counts
what its runs hold and what has been granted to them; both are known here, since one shard owns all runs of a DAG.

Slots of the reserve go to critical claims alone, and those take them before any other, so that what is left to the rest
is all that can be. Being critical is what the DAG says; no claim comes to it by waiting.

Other replicas have queues of their own on the same slots: whose turn a slot is, `core.turns` says. What this does not
know: slots that another replica fills at the same moment. The compare-and-swap on the worker's mailbox decides those.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from fencepost.core.definition import Priority
from fencepost.core.names import DagKey, RunKey
from fencepost.core.slots import Slots
from fencepost.core.turns import NOBODY, Backlog, Rivals, Turn, enter


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """What a WorkerPool's spec says of its slots."""

    name: str
    share_max: float = 0.3
    """Of the live slots that one DAG may hold, above 0 and up to 1."""
    ageing_period_s: float = 600.0
    namespaces: tuple[str, ...] = ("*",)
    reserved_percent: int = 0
    """Of the live slots that only critical jobs may take (`core.reserve`), 0 to 100."""

    def admits(self, namespace: str) -> bool:
        """Whether DAGs of this namespace may use the pool."""
        return "*" in self.namespaces or namespace in self.namespaces


@dataclass(frozen=True, slots=True)
class Demand:
    """Jobs of one task that could start now."""

    task: str
    count: int
    priority: Priority
    ready_s: float
    """Unix seconds since which they could."""


@dataclass(frozen=True, slots=True)
class Grant:
    """One slot for one job of a task of a run."""

    run: RunKey
    task: str
    worker: str
    critical: bool = False
    """The job is critical, and may be given a slot of the reserve."""


class Block(StrEnum):
    """Why a run's jobs wait for a slot; the reason that people read."""

    POOL_FULL = "PoolFull"
    """Every live slot is taken."""
    DAG_AT_CAP = "DAGAtCap"
    """The DAG holds its share of the pool."""
    RESERVED = "Reserved"
    """What is free is kept for critical jobs, and none of the run's is."""
    NO_POOL = "NoPool"
    """There is no pool of that name, or no longer."""
    NO_WORKER = "NoWorker"
    """The pool has no live worker."""


@dataclass(slots=True)
class _Claim:
    dag: DagKey
    run: RunKey
    task: str
    count: int
    priority: Priority
    ready_s: float


class PoolQueue:
    """The claims on one pool, its slots, and what each DAG holds."""

    def __init__(self, spec: PoolSpec, replica: str = "") -> None:
        """`replica`: whose queue it is."""
        self.spec = spec
        self.slots = Slots(replica)
        self._claims: dict[RunKey, dict[str, _Claim]] = {}
        self._heaps: dict[Priority, list[tuple[float, int, _Claim]]] = {priority: [] for priority in Priority}
        self._pushed = 0
        self._parked: dict[DagKey, list[_Claim]] = {}
        self._held: Counter[DagKey] = Counter()
        self._held_by_run: dict[RunKey, int] = {}

    def offer(self, dag: DagKey, run: RunKey, demands: Iterable[Demand]) -> None:
        """These are the run's claims now; earlier ones that are not among them are withdrawn."""
        old = self._claims.pop(run, {})
        new: dict[str, _Claim] = {}
        for demand in demands:
            claim = old.pop(demand.task, None)
            if claim and (claim.priority, claim.ready_s) == (demand.priority, demand.ready_s) and claim.count > 0:
                claim.count = demand.count
            else:
                if claim:
                    claim.count = 0
                claim = _Claim(dag, run, demand.task, demand.count, demand.priority, demand.ready_s)
                self._push(claim)
            new[demand.task] = claim
        for claim in old.values():
            claim.count = 0
        if new:
            self._claims[run] = new

    def withdraw(self, run: RunKey) -> None:
        """The run wants nothing any more."""
        for claim in self._claims.pop(run, {}).values():
            claim.count = 0

    def hold(self, dag: DagKey, run: RunKey, slots: int) -> None:
        """The run holds this many slots (leases recorded, and grants on their way into one)."""
        before = self._held_by_run.pop(run, 0)
        if slots:
            self._held_by_run[run] = slots
        self._held[dag] += slots - before
        if not self._held[dag]:
            del self._held[dag]
        if slots < before:
            self._unpark(dag)

    def cap(self) -> int:
        """Slots that one DAG may hold: at least one, else the floor of its share of the live slots."""
        return max(1, int(self.spec.share_max * self.slots.live + 1e-9))

    def grants(
        self, now_s: float, rivals: Rivals = NOBODY, steady_s: float = 0.0, yield_s: float = 0.0
    ) -> Iterator[Grant]:
        """Give free slots to claims, best first, until either runs out. Each grant counts as held from here on. A slot
        is left alone for `yield_s` for each of the rivals that goes before us."""
        while self.slots.free and (claim := self._runnable(now_s)) is not None:
            critical = claim.priority is Priority.CRITICAL
            contest = enter(self._backlog(claim, now_s), rivals)
            worker = self.slots.take(Turn(contest, steady_s, yield_s), critical=critical)
            if worker is None:
                return  # what is free is another's turn, or kept for critical claims, which would have come before
            claim.count -= 1
            self.hold(claim.dag, claim.run, self._held_by_run.get(claim.run, 0) + 1)
            yield Grant(claim.run, claim.task, worker, critical)

    @property
    def wanted(self) -> bool:
        """Whether a claim may wait for a slot; if not, then none does that could run."""
        return any(self._heaps.values())

    def backlog(self, now_s: float) -> Backlog | None:
        """The best claim that waits and could run, as other replicas are told of it. One whose DAG may hold the whole
        pool, and does, could: it waits for a slot and not for its DAG."""
        claim = self._runnable(now_s) if self.cap() < self.slots.live else self._best(now_s)
        return None if claim is None else self._backlog(claim, now_s)

    def critical_waits(self, now_s: float) -> bool:
        """Whether a critical claim waits that could run."""
        if not self._heaps[Priority.CRITICAL]:
            return False
        claim = self._runnable(now_s)
        return claim is not None and claim.priority is Priority.CRITICAL

    def capacity_changed(self) -> None:
        """The number of live slots is another, and so every DAG's cap: look again at what was parked."""
        for dag in list(self._parked):
            self._unpark(dag)

    def block(self, dag: DagKey, run: RunKey) -> tuple[Block, str] | None:
        """Why the run's jobs wait, with numbers; None when none of them waits."""
        if not any(claim.count for claim in self._claims.get(run, {}).values()):
            return None
        pool = self.spec.name
        if not len(self.slots):
            return Block.NO_WORKER, f"pool {pool!r} has no live worker; start one, or look at why none registers"
        held, cap, live = self._held[dag], self.cap(), self.slots.live
        if cap <= held < live:
            return Block.DAG_AT_CAP, f"{held} of {cap} slots used; raise maxSharePerDAG of pool {pool!r} or wait"
        if self.slots.free and not self.slots.open:
            kept = f"{self.slots.reserved} of {live} slots of pool {pool!r} are kept for critical jobs"
            return Block.RESERVED, f"{kept}, and the others are taken; add workers or wait"
        return Block.POOL_FULL, f"all {live} slots of pool {pool!r} are taken; add workers or wait"

    def waiting(self) -> int:
        """Jobs that wait for a slot; walks all claims, so for a metric's scrape and no oftener."""
        return sum(claim.count for claims in self._claims.values() for claim in claims.values())

    def held(self, dag: DagKey) -> int:
        """Slots that the DAG holds."""
        return self._held[dag]

    def _push(self, claim: _Claim) -> None:
        self._pushed += 1
        heapq.heappush(self._heaps[claim.priority], (claim.ready_s, self._pushed, claim))

    def _runnable(self, now_s: float) -> _Claim | None:
        """The best claim whose DAG is below its cap; those that come before it are parked."""
        while (claim := self._best(now_s)) is not None and self._held[claim.dag] >= self.cap():
            self._park(claim)
        return claim

    def _backlog(self, claim: _Claim, now_s: float) -> Backlog:
        return Backlog(self._aged(claim.priority, now_s - claim.ready_s), claim.ready_s)

    def _best(self, now_s: float) -> _Claim | None:
        """The best of the four heads, by aged priority, then by how long it has waited."""
        best: tuple[tuple[int, float], _Claim] | None = None
        for priority, heap in self._heaps.items():
            while heap and not heap[0][-1].count:
                heapq.heappop(heap)
            if heap:
                claim = heap[0][-1]
                rank = (-self._aged(priority, now_s - claim.ready_s), claim.ready_s)
                if best is None or rank < best[0]:
                    best = (rank, claim)
        return best[1] if best else None

    def _aged(self, priority: Priority, waited_s: float) -> int:
        """One level up for each ageing period waited, never into critical."""
        if priority is Priority.CRITICAL:
            return int(priority)
        return min(int(Priority.HIGH), int(priority) + int(max(0.0, waited_s) // self.spec.ageing_period_s))

    def _park(self, claim: _Claim) -> None:
        heapq.heappop(self._heaps[claim.priority])
        self._parked.setdefault(claim.dag, []).append(claim)

    def _unpark(self, dag: DagKey) -> None:
        for claim in self._parked.pop(dag, []):
            if claim.count:
                self._push(claim)
