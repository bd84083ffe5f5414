"""The laws of one pool's queue, through any sequence of workers, claims and slots that come and go."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from fencepost.core.definition import Priority
from fencepost.core.names import DagKey, RunKey
from fencepost.core.placement import Block, Demand, PoolQueue, PoolSpec
from tests.unit.support.builders import NOW_S

PERIOD_S = 60
RUNS = [(DagKey("ns", dag), RunKey("ns", f"{dag}-{number}")) for dag in ("a", "b", "c") for number in (1, 2)]
DAG_OF = {run: dag for dag, run in RUNS}

runs = st.sampled_from(list(DAG_OF))
workers = st.sampled_from(["w0", "w1", "w2"])
demands = st.lists(
    st.builds(
        Demand,
        st.sampled_from(["t", "u"]),
        st.integers(1, 4),
        st.sampled_from(list(Priority)),
        st.integers(-200, 0).map(lambda ago_s: NOW_S + ago_s),
    ),
    max_size=2,
    unique_by=lambda demand: demand.task,
)


class AnyPool(RuleBasedStateMachine):
    """A pool, and a model that counts: what is free, what is held, and who wants what."""

    @initialize(share_max=st.sampled_from([0.2, 0.5, 1.0]))
    def begin(self, share_max: float) -> None:
        self.pool = PoolQueue(PoolSpec("default", share_max, PERIOD_S))
        self.now_s = NOW_S
        self.size: dict[str, int] = {}
        self.free: dict[str, int] = {}
        self.kept: dict[str, int] = {}
        """Of those that are free, for critical claims alone."""
        self.held: Counter[RunKey] = Counter()
        self.wanted: dict[RunKey, dict[str, Demand]] = {}

    def cap(self) -> int:
        return max(1, int(round(self.pool.spec.share_max * 10) * sum(self.size.values()) // 10))

    def held_by_dag(self, dag: DagKey) -> int:
        return sum(count for run, count in self.held.items() if DAG_OF[run] == dag)

    # What may happen.

    @rule(worker=workers, size=st.integers(1, 5), data=st.data())
    def a_worker_comes_or_changes(self, worker: str, size: int, data: st.DataObject) -> None:
        self.size[worker] = size
        self.free[worker] = data.draw(st.integers(0, size))
        self.kept[worker] = data.draw(st.integers(0, self.free[worker]))
        self.tell(worker)
        self.pool.capacity_changed()
        self.pump()

    @rule(worker=workers)
    def a_worker_goes(self, worker: str) -> None:
        self.size.pop(worker, 0)
        self.free.pop(worker, 0)
        self.kept.pop(worker, 0)
        self.pool.slots.drop(worker)
        self.pool.capacity_changed()
        self.pump()

    @rule(run=runs, asked=demands)
    def a_run_asks(self, run: RunKey, asked: list[Demand]) -> None:
        self.wanted[run] = {demand.task: demand for demand in asked}
        self.pool.offer(DAG_OF[run], run, asked)
        self.pump()

    @rule(run=runs)
    def a_run_withdraws(self, run: RunKey) -> None:
        self.wanted.pop(run, None)
        self.pool.withdraw(run)
        self.pump()

    @rule(run=runs, data=st.data(), frees_its_slot=st.booleans())
    def a_job_of_a_run_ends(self, run: RunKey, data: st.DataObject, frees_its_slot: bool) -> None:
        if not self.held[run]:
            return
        self.held[run] -= 1
        self.pool.hold(DAG_OF[run], run, self.held[run])
        if frees_its_slot and self.free:
            worker = data.draw(st.sampled_from(sorted(self.free)))
            self.free[worker] = min(self.size[worker], self.free[worker] + 1)
            self.tell(worker)
        self.pump()

    @rule(seconds=st.integers(1, 200))
    def time_passes(self, seconds: int) -> None:
        self.now_s += seconds

    # The pump, and the laws.

    def tell(self, worker: str) -> None:
        self.pool.slots.set(worker, self.size[worker], self.free[worker], self.kept[worker], self.kept[worker])

    def slots_for(self, demand: Demand) -> int:
        """Free slots that a claim may have."""
        kept = 0 if demand.priority is Priority.CRITICAL else sum(self.kept.values())
        return sum(self.free.values()) - kept

    def rank(self, demand: Demand) -> tuple[int, float]:
        """The order as the design says it: priority with one level for each period waited, then the ready time."""
        if demand.priority is Priority.CRITICAL:
            return -3, demand.ready_s
        periods = (self.now_s - demand.ready_s) // PERIOD_S
        return -min(2, int(demand.priority + periods)), demand.ready_s

    def eligible(self) -> list[tuple[RunKey, Demand]]:
        """Claims whose DAG is below its cap."""
        return [
            (run, demand)
            for run, asked in self.wanted.items()
            for demand in asked.values()
            if self.held_by_dag(DAG_OF[run]) < self.cap()
        ]

    def pump(self) -> None:
        """Each grant is of a free slot, to the best of the claims that may have one; after it nobody waits in vain."""
        for grant in self.pool.grants(self.now_s):
            best = min(self.rank(demand) for _, demand in self.eligible())
            demand = self.wanted[grant.run][grant.task]
            assert (grant.run, demand) in self.eligible(), "a grant beyond the DAG's share"
            assert self.rank(demand) == best
            assert grant.critical == (demand.priority is Priority.CRITICAL)
            assert self.free[grant.worker] > (0 if grant.critical else self.kept[grant.worker])
            assert not grant.critical or self.kept[grant.worker] or not any(self.kept.values())
            self.free[grant.worker] -= 1
            self.kept[grant.worker] -= bool(grant.critical and self.kept[grant.worker])
            self.held[grant.run] += 1
            if demand.count == 1:
                del self.wanted[grant.run][grant.task]
            else:
                self.wanted[grant.run][grant.task] = Demand(
                    demand.task, demand.count - 1, demand.priority, demand.ready_s
                )
        idle = [demand for _, demand in self.eligible() if self.slots_for(demand)]
        assert not idle, "a slot is free and a claim that may have it waits"

    @invariant()
    def the_pool_counts_as_the_model_does(self) -> None:
        if not hasattr(self, "pool"):
            return
        assert self.pool.slots.live == sum(self.size.values())
        assert self.pool.slots.free == sum(self.free.values())
        assert self.pool.slots.open == sum(self.free.values()) - sum(self.kept.values())
        assert self.pool.cap() == self.cap()
        assert {dag: self.pool.held(dag) for dag, _ in RUNS} == {dag: self.held_by_dag(dag) for dag, _ in RUNS}
        assert self.pool.waiting() == sum(d.count for asked in self.wanted.values() for d in asked.values())

    @invariant()
    def whoever_waits_is_told_why(self) -> None:
        if not hasattr(self, "pool"):
            return
        for dag, run in RUNS:
            block = self.pool.block(dag, run)
            if not self.wanted.get(run):
                assert block is None
            else:
                assert block is not None
                at_cap = self.cap() <= self.held_by_dag(dag) < sum(self.size.values())
                kept = 0 < sum(self.free.values()) == sum(self.kept.values())
                full = Block.RESERVED if kept else Block.POOL_FULL
                assert block[0] is (Block.NO_WORKER if not self.size else Block.DAG_AT_CAP if at_cap else full)

    def teardown(self) -> None:
        """Every claim is served in the end, if jobs end: nothing is forgotten in a park or behind another."""
        if not hasattr(self, "pool"):
            return
        self.a_worker_comes_or_changes_to("w0", 2)
        for _ in range(200):
            for run in [run for run, count in self.held.items() if count]:
                self.held[run] -= 1
                self.pool.hold(DAG_OF[run], run, self.held[run])
            self.a_worker_comes_or_changes_to("w0", 2)
            if not any(self.wanted.values()):
                return
        raise AssertionError(f"{self.wanted} wait for ever")

    def a_worker_comes_or_changes_to(self, worker: str, free: int) -> None:
        self.size[worker] = self.free[worker] = free
        self.kept[worker] = 0
        live_before = self.pool.slots.live
        self.pool.slots.set(worker, free, free)
        if self.pool.slots.live != live_before:
            self.pool.capacity_changed()
        self.pump()


@pytest.mark.timeout(360)  # a failure is made small first
def test_the_laws_hold_through_any_sequence_of_events() -> None:
    run_state_machine_as_test(
        AnyPool,
        settings=settings(max_examples=80, stateful_step_count=25, suppress_health_check=list(HealthCheck)),
    )
