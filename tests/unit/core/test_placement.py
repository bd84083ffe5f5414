"""Who gets a slot, story by story; what holds for any sequence is in test_placement_laws.py."""

from collections.abc import Sequence

import pytest

from fencepost.core.definition import Priority
from fencepost.core.names import DagKey, RunKey
from fencepost.core.placement import Block, Demand, PoolQueue, PoolSpec
from fencepost.core.turns import Backlog, Rivals
from tests.unit.support.builders import NOW_S, a_demand


def a_pool(*workers: int, share_max: float = 1.0, ageing_period_s: float = 600) -> PoolQueue:
    """A pool whose workers w0, w1 and so on have this many slots, all free."""
    pool = PoolQueue(PoolSpec("default", share_max, ageing_period_s))
    for place, slots in enumerate(workers):
        pool.slots.set(f"w{place}", slots, slots)
    return pool


def dag_of(run: str) -> DagKey:
    """The DAG of run `etl-2` is `etl`."""
    return DagKey("ns", run.partition("-")[0])


def offer(pool: PoolQueue, run: str, *demands: Demand) -> None:
    """A run's claims; one job if nothing else is said."""
    pool.offer(dag_of(run), RunKey("ns", run), demands or [a_demand()])


def hold(pool: PoolQueue, run: str, slots: int) -> None:
    """A run holds so many slots from now on."""
    pool.hold(dag_of(run), RunKey("ns", run), slots)


def granted(pool: PoolQueue, now_s: float = NOW_S) -> list[str]:
    """The runs that get slots now, in this order."""
    return [grant.run.name for grant in pool.grants(now_s)]


def block(pool: PoolQueue, run: str) -> tuple[Block, str] | None:
    return pool.block(dag_of(run), RunKey("ns", run))


# Order.


def test_higher_priority_goes_first_and_then_whoever_has_been_ready_longer() -> None:
    pool = a_pool(9)
    for run, priority, ready_s in [
        ("a", Priority.LOW, 0),
        ("b", Priority.NORMAL, 0),
        ("c", Priority.CRITICAL, 0),
        ("d", Priority.HIGH, 0),
        ("e", Priority.NORMAL, -1),
    ]:
        offer(pool, run, a_demand(priority=priority, ready_s=NOW_S + ready_s))

    assert granted(pool) == ["c", "d", "e", "b", "a"]


def test_claims_of_the_same_moment_are_served_as_they_came() -> None:
    pool = a_pool(4)
    for run in "bdac":
        offer(pool, run)

    assert granted(pool) == ["b", "d", "a", "c"]


@pytest.mark.parametrize(
    ("old", "waited_s", "fresh", "want_first"),
    [
        (Priority.LOW, 599, Priority.NORMAL, "fresh"),
        (Priority.LOW, 600, Priority.NORMAL, "old"),
        (Priority.LOW, 1199, Priority.HIGH, "fresh"),
        (Priority.LOW, 1200, Priority.HIGH, "old"),
        (Priority.NORMAL, 600, Priority.HIGH, "old"),
        (Priority.LOW, 10**9, Priority.CRITICAL, "fresh"),
        (Priority.HIGH, 10**9, Priority.CRITICAL, "fresh"),
    ],
)
def test_each_ageing_period_waited_promotes_by_one_level_but_never_into_critical(
    old: Priority, waited_s: float, fresh: Priority, want_first: str
) -> None:
    pool = a_pool(1)
    offer(pool, "fresh", a_demand(priority=fresh))
    offer(pool, "old", a_demand(priority=old, ready_s=NOW_S - waited_s))

    assert granted(pool) == [want_first]


# The DAG's share.


@pytest.mark.parametrize(("share_max", "live", "want"), [(0.3, 10, 3), (0.3, 9, 2), (0.3, 1, 1), (0.29, 100, 29)])
def test_a_dag_may_hold_the_floor_of_its_share_and_one_slot_at_least(share_max: float, live: int, want: int) -> None:
    pool = a_pool(live, share_max=share_max)
    offer(pool, "etl-1", a_demand(count=50))
    offer(pool, "etl-2", a_demand(count=50))

    assert pool.cap() == want
    assert len(granted(pool)) == pool.held(dag_of("etl-1")) == want


def test_what_a_capped_dag_leaves_goes_to_the_others() -> None:
    pool = a_pool(10, share_max=0.3)
    offer(pool, "wide-1", a_demand(count=50, priority=Priority.HIGH))
    offer(pool, "small-1", a_demand(priority=Priority.LOW))

    assert granted(pool) == ["wide-1"] * 3 + ["small-1"]


def test_a_parked_claim_comes_back_when_its_dag_gives_a_slot_back() -> None:
    pool = a_pool(10, share_max=0.1)
    offer(pool, "etl-1")
    offer(pool, "etl-2")
    assert granted(pool) == ["etl-1"]

    hold(pool, "etl-1", 0)

    assert granted(pool) == ["etl-2"]


def test_a_parked_claim_comes_back_when_the_pool_grows() -> None:
    pool = a_pool(10, share_max=0.1)
    offer(pool, "etl-1", a_demand(count=2))
    assert granted(pool) == ["etl-1"]

    pool.slots.set("w1", 10, 10)
    pool.capacity_changed()

    assert granted(pool) == ["etl-1"]


def test_a_parked_claim_that_was_withdrawn_does_not_come_back() -> None:
    pool = a_pool(10, share_max=0.1)
    offer(pool, "etl-1", a_demand(count=2))
    assert granted(pool) == ["etl-1"]

    pool.withdraw(RunKey("ns", "etl-1"))
    hold(pool, "etl-1", 0)

    assert granted(pool) == []


# The reserve.


def reserve(pool: PoolQueue, worker: str, slots: int, *, kept: int, free: int | None = None) -> None:
    """A worker with so many slots, `kept` of them for critical jobs, as many free as is said, or all."""
    pool.slots.set(worker, slots, slots if free is None else free, kept, kept if free is None else min(free, kept))


def test_what_is_kept_goes_to_critical_jobs_alone() -> None:
    pool = a_pool()
    reserve(pool, "w0", 4, kept=1)
    offer(pool, "low-1", a_demand(count=9, priority=Priority.HIGH))

    assert granted(pool) == ["low-1"] * 3
    assert (pool.slots.free, pool.slots.open, pool.slots.reserved) == (1, 0, 1)

    offer(pool, "urgent-1", a_demand(priority=Priority.CRITICAL))
    assert granted(pool) == ["urgent-1"]


def test_waiting_however_long_makes_no_job_critical() -> None:
    pool = a_pool()
    reserve(pool, "w0", 1, kept=1)
    offer(pool, "old-1", a_demand(priority=Priority.HIGH, ready_s=NOW_S - 10**9))

    assert granted(pool) == []


def test_critical_jobs_take_what_is_kept_first_and_leave_the_rest_to_others() -> None:
    pool = a_pool()
    reserve(pool, "w0", 4, kept=0)
    reserve(pool, "w1", 4, kept=2)
    offer(pool, "urgent-1", a_demand(count=3, priority=Priority.CRITICAL))
    offer(pool, "other-1", a_demand(count=9))

    grants = list(pool.grants(NOW_S))

    assert [(grant.worker, grant.critical) for grant in grants[:3]] == [("w1", True), ("w1", True), ("w0", True)]
    assert [grant.critical for grant in grants[3:]] == [False] * 5


def test_critical_jobs_compete_for_open_slots_when_the_reserve_is_used_up() -> None:
    pool = a_pool()
    reserve(pool, "w0", 2, kept=1)
    offer(pool, "other-1")
    offer(pool, "urgent-1", a_demand(count=3, priority=Priority.CRITICAL))

    assert granted(pool) == ["urgent-1", "urgent-1"]


def test_the_share_of_a_dag_is_of_all_slots_and_holds_for_its_critical_jobs_too() -> None:
    pool = a_pool(share_max=0.3)
    reserve(pool, "w0", 10, kept=5)
    offer(pool, "urgent-1", a_demand(count=9, priority=Priority.CRITICAL))

    assert granted(pool) == ["urgent-1"] * 3
    assert block(pool, "urgent-1") == (
        Block.DAG_AT_CAP,
        "3 of 3 slots used; raise maxSharePerDAG of pool 'default' or wait",
    )


def test_a_run_is_told_that_what_is_free_is_kept_for_others() -> None:
    pool = a_pool()
    reserve(pool, "w0", 30, kept=3)
    offer(pool, "etl-1", a_demand(count=40))
    offer(pool, "low-1")
    assert len(granted(pool)) == 27

    assert block(pool, "low-1") == (
        Block.RESERVED,
        "3 of 30 slots of pool 'default' are kept for critical jobs, and the others are taken; add workers or wait",
    )


def test_a_worker_that_has_more_jobs_than_its_open_slots_still_keeps_what_is_free() -> None:
    """Its mark was raised while it was full: one job has ended since."""
    pool = a_pool()
    reserve(pool, "w0", 4, kept=2, free=1)
    offer(pool, "other-1")

    assert granted(pool) == []
    assert (pool.slots.free, pool.slots.open) == (1, 0)


# Offers.


def test_an_offer_takes_the_place_of_the_one_before() -> None:
    pool = a_pool(9)
    offer(pool, "etl-1", a_demand("a", 3), a_demand("b", 2), a_demand("c"))

    offer(pool, "etl-1", a_demand("a", 1), a_demand("c", ready_s=NOW_S - 1))

    assert pool.waiting() == 2
    assert [grant.task for grant in pool.grants(NOW_S)] == ["c", "a"]


def test_an_offer_repeated_keeps_its_place_in_the_queue() -> None:
    pool = a_pool(2)
    offer(pool, "a")
    offer(pool, "b")

    offer(pool, "a", a_demand(count=2))

    assert granted(pool) == ["a", "a"]


def test_a_claim_that_has_been_served_can_be_made_again() -> None:
    pool = a_pool(2)
    offer(pool, "a")
    assert granted(pool) == ["a"]

    offer(pool, "a")

    assert granted(pool) == ["a"]


def test_a_served_claim_that_comes_back_otherwise_is_served_once() -> None:
    pool = a_pool(1)
    offer(pool, "a", a_demand(ready_s=NOW_S - 1))
    offer(pool, "a", a_demand(ready_s=NOW_S))
    pool.slots.set("w1", 5, 5)

    assert granted(pool) == ["a"]


def test_a_run_that_withdraws_gets_nothing() -> None:
    pool = a_pool(9)
    offer(pool, "a")
    pool.withdraw(RunKey("ns", "a"))
    pool.withdraw(RunKey("ns", "never-seen"))

    assert granted(pool) == []
    assert pool.waiting() == 0


def test_a_run_that_offers_nothing_holds_what_it_holds() -> None:
    pool = a_pool(2)
    offer(pool, "a", a_demand(count=2))
    assert granted(pool) == ["a", "a"]

    pool.offer(dag_of("a"), RunKey("ns", "a"), [])

    assert pool.held(dag_of("a")) == 2


# Why a run waits.


def test_a_slot_is_wanted_while_a_job_waits_that_could_run() -> None:
    pool = a_pool(4, share_max=0.5)
    assert not pool.wanted

    offer(pool, "etl-1", a_demand(count=3))
    assert pool.wanted
    assert granted(pool) == ["etl-1", "etl-1"]
    assert not pool.wanted, "its DAG holds its share, and has to give something back first"

    hold(pool, "etl-1", 1)
    assert pool.wanted
    assert granted(pool) == ["etl-1"]
    hold(pool, "etl-1", 0)
    assert not pool.wanted, "nothing waits any more"


def test_a_run_is_told_why_its_jobs_wait_with_numbers() -> None:
    pool = a_pool(share_max=0.5)
    offer(pool, "etl-1", a_demand(count=3))
    assert block(pool, "etl-1") == (
        Block.NO_WORKER,
        "pool 'default' has no live worker; start one, or look at why none registers",
    )

    pool.slots.set("w0", 4, 4)
    assert granted(pool) == ["etl-1", "etl-1"]
    assert block(pool, "etl-1") == (
        Block.DAG_AT_CAP,
        "2 of 2 slots used; raise maxSharePerDAG of pool 'default' or wait",
    )

    offer(pool, "other-1", a_demand(count=2))
    offer(pool, "third-1")
    assert granted(pool) == ["other-1", "other-1"]
    assert block(pool, "third-1") == (
        Block.POOL_FULL,
        "all 4 slots of pool 'default' are taken; add workers or wait",
    )


def test_a_run_of_which_no_job_waits_is_not_blocked() -> None:
    pool = a_pool(1)
    offer(pool, "a")
    assert granted(pool) == ["a"]

    assert block(pool, "a") is None
    assert block(pool, "never-seen") is None


@pytest.mark.parametrize(("namespaces", "want"), [(("*",), True), (("ns", "b"), True), (("b",), False), ((), False)])
def test_a_pool_admits_the_namespaces_it_names(namespaces: Sequence[str], want: bool) -> None:
    assert PoolSpec("default", namespaces=tuple(namespaces)).admits("ns") is want


# Slots.


def test_jobs_spread_over_the_workers_with_the_most_free_slots() -> None:
    pool = a_pool(3, 2, 1)
    offer(pool, "a", a_demand(count=9))

    workers = [grant.worker for grant in pool.grants(NOW_S)]

    assert sorted(workers) == ["w0", "w0", "w0", "w1", "w1", "w2"]
    assert workers[0] == "w0"
    assert set(workers[3:]) == {"w0", "w1", "w2"}


# Other replicas.


def others(**told: tuple[Priority, float]) -> Rivals:
    """What other replicas tell: of each the priority of its best job, and how many seconds ago that was ready."""
    return Rivals("me", {name: Backlog(int(level), NOW_S - ago_s) for name, (level, ago_s) in told.items()})


def test_a_slot_is_left_alone_while_another_replica_has_a_higher_job_and_taken_after_a_while() -> None:
    pool = a_pool(2)
    offer(pool, "low-1", a_demand(count=2, priority=Priority.LOW))
    rivals = others(ann=(Priority.CRITICAL, 0))

    assert list(pool.grants(NOW_S, rivals, 0.4, 0.5)) == []
    assert (pool.slots.free, pool.slots.aside) == (2, 2)
    assert block(pool, "low-1") == (Block.POOL_FULL, "all 2 slots of pool 'default' are taken; add workers or wait")

    pool.slots.look_again()
    assert len(list(pool.grants(NOW_S, rivals, 0.5, 0.5))) == 2


def test_a_higher_job_of_ours_waits_for_nobody() -> None:
    pool = a_pool(2)
    offer(pool, "urgent-1", a_demand(priority=Priority.CRITICAL))
    offer(pool, "low-1", a_demand(priority=Priority.LOW))

    grants = list(pool.grants(NOW_S, others(ann=(Priority.HIGH, 999)), 0.0, 0.5))

    assert [grant.run.name for grant in grants] == ["urgent-1"], "and the other one lets Ann go first"


def test_a_dag_that_may_hold_the_whole_pool_and_does_waits_for_a_slot_all_the_same() -> None:
    pool = a_pool(2)
    offer(pool, "etl-1", a_demand(count=3))
    assert granted(pool) == ["etl-1", "etl-1"]

    assert pool.backlog(NOW_S) == Backlog(int(Priority.NORMAL), NOW_S)


def test_others_are_told_of_the_best_job_that_could_run() -> None:
    pool = a_pool(10, share_max=0.1)
    assert pool.backlog(NOW_S) is None

    offer(pool, "etl-1", a_demand(priority=Priority.HIGH))
    offer(pool, "etl-2", a_demand(priority=Priority.CRITICAL))
    assert (pool.backlog(NOW_S), pool.critical_waits(NOW_S)) == (Backlog(int(Priority.CRITICAL), NOW_S), True)

    hold(pool, "etl-0", 1)
    assert (pool.backlog(NOW_S), pool.critical_waits(NOW_S)) == (None, False)

    offer(pool, "old-1", a_demand(priority=Priority.LOW, ready_s=NOW_S - 700))
    assert pool.backlog(NOW_S) == Backlog(int(Priority.NORMAL), NOW_S - 700)
    assert not pool.critical_waits(NOW_S)

    offer(pool, "urgent-1", a_demand(priority=Priority.CRITICAL))
    pool.withdraw(RunKey("ns", "urgent-1"))
    assert not pool.critical_waits(NOW_S)
