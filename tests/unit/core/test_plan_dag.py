"""Slots: each has one fate, however the time between is cut and whoever decides."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.dag_spec import Concurrency
from fencepost.core.plan_dag import LATENESS_MAX_S, MISSED_COUNTED_MAX, Fire, NextSlot, Skip, SlotPlan, plan_slot


def every(period_s: float, until_s: float = math.inf) -> NextSlot:
    """Slots at the multiples of a period."""

    def next_slot(after_s: float) -> float | None:
        slot_s = (after_s // period_s + 1) * period_s
        return slot_s if slot_s <= until_s else None

    return next_slot


def plan(next_slot: NextSlot, mark_s: float, now_s: float, *, limit: int | None = None, active: int = 0) -> SlotPlan:
    """A plan for a DAG without a limit of runs, unless one is given."""
    policy = Concurrency.ALLOW if limit is None else Concurrency.FORBID
    return plan_slot(next_slot, mark_s, policy, limit, active, now_s)


class Keeper:
    """Decides over slots as a leader does: one at a time, oldest first, moving the mark with each."""

    def __init__(self, next_slot: NextSlot, mark_s: float) -> None:
        self.next_slot = next_slot
        self.mark_s = mark_s
        self.fates: dict[float, str] = {}
        self.uncounted = 0

    def look(self, now_s: float, *, limit: int | None = None, active: int = 0) -> SlotPlan:
        """Decide over everything that is due."""
        while True:
            found = plan(self.next_slot, self.mark_s, now_s, limit=limit, active=active)
            assert found.mark_s >= self.mark_s
            self.miss(found)
            match found.decision:
                case Fire(slot_s):
                    assert now_s - LATENESS_MAX_S <= slot_s <= now_s
                    self.settle(slot_s, "fired")
                    active += 1
                case Skip(slot_s):
                    assert now_s - LATENESS_MAX_S <= slot_s <= now_s
                    self.settle(slot_s, "skipped")
                case None:
                    assert found.next_s is None or found.next_s > now_s
                    return found

    def miss(self, found: SlotPlan) -> None:
        """What the mark has passed without a decision was missed; at most so many are counted."""
        passed = 0
        while (slot_s := self.next_slot(self.mark_s)) is not None and slot_s <= found.mark_s:
            self.settle(slot_s, "missed")
            passed += 1
        assert found.missed == min(passed, MISSED_COUNTED_MAX)
        self.mark_s = found.mark_s

    def fired(self) -> set[float]:
        """Slots whose run this leader has made, or has found made by the one before."""
        return {slot_s for slot_s, fate in self.fates.items() if fate == "fired"}

    def settle(self, slot_s: float, fate: str) -> None:
        assert slot_s not in self.fates, f"{slot_s} was {self.fates[slot_s]} and is {fate}"
        assert slot_s > self.mark_s
        self.fates[slot_s] = fate
        self.mark_s = slot_s


# Stories.


def test_the_oldest_slot_above_the_mark_is_fired() -> None:
    assert plan(every(60), mark_s=600, now_s=735) == SlotPlan(Fire(660), mark_s=600)


def test_a_slot_at_this_very_moment_is_due() -> None:
    assert plan(every(60), mark_s=600, now_s=660).decision == Fire(660)


def test_nothing_is_due_before_the_next_slot_and_it_says_when_that_is() -> None:
    assert plan(every(60), mark_s=600, now_s=659.9) == SlotPlan(None, mark_s=600, next_s=660)


def test_a_schedule_that_is_over_is_not_looked_at_again() -> None:
    assert plan(every(60, until_s=600), mark_s=600, now_s=9999) == SlotPlan(None, mark_s=600, next_s=None)


@pytest.mark.parametrize(
    ("active", "limit", "want"),
    [
        (1, 1, "1 of 1 runs is under way; raise concurrency.limit or shorten the runs"),
        (3, 2, "3 of 2 runs are under way; raise concurrency.limit or shorten the runs"),
    ],
)
def test_a_slot_is_skipped_with_the_numbers_when_too_many_runs_are_active(active: int, limit: int, want: str) -> None:
    found = plan(every(60), mark_s=600, now_s=700, limit=limit, active=active)

    assert found.decision == Skip(660, "ConcurrencyForbid", want)


def test_a_slot_fires_when_there_is_room_for_one_more_run() -> None:
    assert plan(every(60), mark_s=600, now_s=700, limit=2, active=1).decision == Fire(660)


def test_a_slot_too_late_is_missed_and_the_next_one_fires() -> None:
    now_s = 600 + LATENESS_MAX_S

    assert plan(every(60), mark_s=540, now_s=now_s) == SlotPlan(Fire(600), mark_s=540)
    assert plan(every(60), mark_s=540, now_s=now_s + 1) == SlotPlan(Fire(660), mark_s=600, missed=1)


def test_after_a_long_absence_missed_slots_are_counted_up_to_a_limit_and_the_rest_passed_over() -> None:
    asked: list[float] = []

    def next_slot(after_s: float) -> float | None:
        asked.append(after_s)
        return every(1)(after_s)

    found = plan(next_slot, mark_s=0, now_s=1_000_000)

    assert found == SlotPlan(Fire(999_700), mark_s=999_699, missed=MISSED_COUNTED_MAX)
    assert len(asked) == MISSED_COUNTED_MAX + 1


# Laws.


@given(
    st.integers(1, 400),
    st.integers(0, 2000),
    st.lists(st.tuples(st.floats(0, 1200), st.integers(0, 3)), max_size=20),
    st.sampled_from([None, 1, 2]),
)
def test_each_slot_has_one_fate_wherever_the_time_is_cut(
    period_s: int, mark_s: int, looks: list[tuple[float, int]], limit: int | None
) -> None:
    keeper = Keeper(every(period_s), mark_s)
    now_s = float(mark_s)
    for pause_s, active in looks:
        now_s += pause_s
        keeper.look(now_s, limit=limit, active=active)

    want = [slot for slot in range(0, int(now_s) + 1, period_s) if slot > mark_s]
    assert list(keeper.fates) == want


@given(st.integers(1, 90), st.lists(st.floats(0, 80), min_size=1, max_size=30), st.data())
def test_a_leader_that_dies_before_its_mark_is_stored_loses_no_slot(
    period_s: int, pauses_s: list[float], data: st.DataObject
) -> None:
    fired: set[float] = set()
    stored_mark_s = now_s = 1000.0
    keeper = Keeper(every(period_s), stored_mark_s)
    for pause_s in pauses_s:
        now_s += pause_s
        keeper.look(now_s)
        fired |= keeper.fired()
        if data.draw(st.booleans(), "the mark is stored"):
            stored_mark_s = keeper.mark_s
        if data.draw(st.booleans(), "the leader dies"):
            keeper = Keeper(every(period_s), stored_mark_s)

    keeper.look(now_s)
    fired |= keeper.fired()
    first = (1000 // period_s + 1) * period_s
    assert sorted(fired) == list(range(first, int(now_s) + 1, period_s))


@given(st.integers(1, 60), st.lists(st.floats(-500, 500), max_size=20))
def test_a_clock_that_jumps_never_moves_the_mark_back(period_s: int, jumps_s: list[float]) -> None:
    keeper = Keeper(every(period_s), 5000)
    now_s = 5000.0
    for jump_s in jumps_s:
        now_s += jump_s
        mark_s = keeper.mark_s
        keeper.look(now_s)
        assert keeper.mark_s >= mark_s
