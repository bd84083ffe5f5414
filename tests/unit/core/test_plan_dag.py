"""Slots: each has one fate, however the time between is cut and whoever decides."""

import math
from collections import Counter
from dataclasses import dataclass
from dataclasses import field as dataclass_field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.concurrency import Concurrency, Limits
from fencepost.core.plan_dag import (
    LATE_AFTER_S,
    LATENESS_MAX_S,
    MISSED_COUNTED_MAX,
    Fate,
    Fire,
    Missed,
    Skip,
    SlotPlan,
    Slots,
    floor_s,
    plan_slot,
    untold_between,
)
from fencepost.core.schedule_spec import CATCH_UP_MAX, CatchUp, ScheduleSpec

NO_LIMIT = Limits(Concurrency.ALLOW, None)
ONE = Limits(Concurrency.FORBID, 1)
PLAIN = ScheduleSpec()


@dataclass
class Every:
    """Slots at the multiples of a period."""

    period_s: float
    until_s: float = math.inf
    asked: int = 0
    """How often it has been asked for one."""

    def next_slot(self, after_s: float) -> float | None:
        self.asked += 1
        slot_s = (after_s // self.period_s + 1) * self.period_s
        return slot_s if slot_s <= self.until_s else None

    def latest_slot(self, at_or_before_s: float, after_s: float) -> float | None:
        self.asked += 1
        slot_s = min(at_or_before_s, self.until_s) // self.period_s * self.period_s
        return slot_s if slot_s > after_s else None


def catching_up(policy: CatchUp, limit: int = 10, deadline_s: float | None = None) -> ScheduleSpec:
    return ScheduleSpec(catch_up=policy, catch_up_limit=limit, starting_deadline_s=deadline_s)


@dataclass
class Keeper:
    """Decides over slots as a leader does: one at a time, oldest first, moving the mark with each."""

    slots: Slots
    mark_s: float
    asked: ScheduleSpec = PLAIN
    limits: Limits = NO_LIMIT
    fates: dict[float, Fate] = dataclass_field(default_factory=dict)

    def look(self, now_s: float, active: int = 0) -> SlotPlan:
        """Decide over everything that is due; what is fired is active from then on."""
        while True:
            found = plan_slot(self.slots, self.asked, self.limits, self.mark_s, active, now_s)
            self.miss(found.missed)
            match found.decision:
                case Fire(slot_s):
                    assert slot_s <= now_s
                    self.settle(slot_s, Fate.of_run(slot_s, now_s))
                    active += 1
                case Skip(slot_s):
                    assert slot_s <= now_s
                    self.settle(slot_s, Fate.SKIPPED)
                case None:
                    assert found.next_s is None or found.next_s > now_s
                    return found

    def miss(self, missed: Missed | None) -> None:
        """What the mark passes without a decision was missed."""
        if missed is None:
            return
        passed = 0
        while (slot_s := self.slots.next_slot(self.mark_s)) is not None and slot_s <= missed.last_s:
            self.settle(slot_s, Fate.MISSED)
            passed += 1
        assert self.mark_s == missed.last_s, "it names the last one"
        assert missed.count == passed or (missed.count < passed and missed.count >= MISSED_COUNTED_MAX)

    def made(self) -> list[float]:
        """Slots whose run this leader has made."""
        return [slot_s for slot_s, fate in self.fates.items() if fate in (Fate.FIRED, Fate.LATE)]

    def settle(self, slot_s: float, fate: Fate) -> None:
        assert slot_s not in self.fates, f"{slot_s} was {self.fates[slot_s]} and is {fate}"
        assert slot_s > self.mark_s
        self.fates[slot_s] = fate
        self.mark_s = slot_s


def plan(slots: Slots, mark_s: float, now_s: float, limits: Limits = NO_LIMIT, active: int = 0) -> SlotPlan:
    return plan_slot(slots, PLAIN, limits, mark_s, active, now_s)


# Stories.


def test_the_oldest_slot_above_the_mark_is_fired() -> None:
    assert plan(Every(60), mark_s=600, now_s=735) == SlotPlan(Fire(660))


def test_a_slot_at_this_very_moment_is_due() -> None:
    assert plan(Every(60), mark_s=600, now_s=660).decision == Fire(660)


def test_nothing_is_due_before_the_next_slot_and_it_says_when_that_is() -> None:
    assert plan(Every(60), mark_s=600, now_s=659.9) == SlotPlan(None, next_s=660)


def test_a_schedule_that_is_over_is_not_looked_at_again() -> None:
    assert plan(Every(60, until_s=600), mark_s=600, now_s=9999) == SlotPlan(None)


def test_a_slot_that_finds_no_room_is_skipped() -> None:
    found = plan(Every(60), mark_s=600, now_s=700, limits=ONE, active=1)

    assert found.decision == Skip(
        660, "ConcurrencyForbid", "1 of 1 runs is under way; raise concurrency.limit or shorten the runs"
    )


def test_a_run_made_within_the_minute_has_fired_and_later_it_is_late() -> None:
    assert Fate.of_run(600, 600 + LATE_AFTER_S) is Fate.FIRED
    assert Fate.of_run(600, 601 + LATE_AFTER_S) is Fate.LATE


def test_a_slot_too_late_is_missed_and_the_next_one_fires() -> None:
    now_s = 600 + LATENESS_MAX_S

    assert plan(Every(60), mark_s=540, now_s=now_s) == SlotPlan(Fire(600))
    found = plan(Every(60), mark_s=540, now_s=now_s + 1)
    assert found.decision == Fire(660)
    assert found.missed == Missed(
        1,
        600,
        "TooLate",
        "no run could be made within 300 s; raise schedule.startingDeadline or set schedule.catchUp",
    )


def test_what_is_missed_last_leaves_nothing_to_run() -> None:
    asked = ScheduleSpec(starting_deadline_s=10)

    found = plan_slot(Every(60), asked, NO_LIMIT, 600, 0, 731)
    assert (found.decision, found.next_s) == (None, 780)
    assert found.missed is not None
    assert (found.missed.count, found.missed.last_s) == (2, 720)


@pytest.mark.parametrize("policy", list(CatchUp))
def test_a_year_of_a_minute_schedule_is_not_looked_at_minute_by_minute(policy: CatchUp) -> None:
    slots, year_s = Every(60), 366 * 86_400.0
    found = plan_slot(slots, catching_up(policy), NO_LIMIT, 0, 0, year_s)

    want = {CatchUp.NONE: year_s - 300, CatchUp.LATEST: year_s, CatchUp.ALL: year_s - 9 * 60}[policy]
    assert found.decision == Fire(want)
    assert found.missed is not None
    assert found.missed.count >= MISSED_COUNTED_MAX
    assert found.missed.last_s == want - 60
    assert slots.asked < 400


def test_after_a_year_beyond_its_deadline_nothing_is_run_and_all_is_missed() -> None:
    found = plan_slot(Every(60), ScheduleSpec(starting_deadline_s=1), NO_LIMIT, 0, 0, 1_000_010)

    assert (found.decision, found.next_s) == (None, 1_000_020)
    assert found.missed is not None
    assert (found.missed.last_s, found.missed.reason) == (999_960, "TooLate")


def test_latest_runs_the_latest_of_what_is_due_and_misses_the_rest() -> None:
    found = plan_slot(Every(60), catching_up(CatchUp.LATEST), NO_LIMIT, 0, 0, 3605)

    assert found.decision == Fire(3600)
    assert found.missed is not None
    assert (found.missed.count, found.missed.reason) == (59, "NotLatest")


def test_all_runs_as_many_as_its_limit_says_oldest_first() -> None:
    keeper = Keeper(Every(60), 0, catching_up(CatchUp.ALL, limit=3))
    keeper.look(7205)

    assert keeper.made() == [7080, 7140, 7200]
    assert Counter(keeper.fates.values()) == {Fate.MISSED: 117, Fate.LATE: 2, Fate.FIRED: 1}
    found = plan_slot(Every(60), catching_up(CatchUp.ALL, limit=3), NO_LIMIT, 0, 0, 7205)
    assert found.missed is not None
    assert found.missed.reason == "OverLimit"


def test_what_all_makes_up_for_waits_for_room_instead_of_being_skipped() -> None:
    asked = catching_up(CatchUp.ALL)

    assert plan_slot(Every(60), asked, ONE, 0, 1, 185) == SlotPlan(None, next_s=240, waiting=3)
    assert plan_slot(Every(60), asked, ONE, 0, 0, 185) == SlotPlan(Fire(60))


def test_a_deadline_binds_what_is_made_up_for_too() -> None:
    keeper = Keeper(Every(60), 0, catching_up(CatchUp.ALL, deadline_s=130))
    keeper.look(605)

    assert keeper.made() == [480, 540, 600]


def test_under_replace_only_the_latest_is_run_as_it_would_replace_the_others() -> None:
    keeper = Keeper(Every(60), 600, catching_up(CatchUp.ALL), Limits(Concurrency.REPLACE, 1))
    keeper.look(800)

    assert keeper.made() == [780]


def test_a_new_schedule_has_no_past_unless_catch_up_asks_for_it() -> None:
    created_s, now_s = 1000.0, 5000.0
    with_past = ScheduleSpec(catch_up=CatchUp.ALL, not_before_s=500)
    without = ScheduleSpec(not_before_s=500)

    assert floor_s(without, created_s, None, now_s) == created_s
    assert floor_s(with_past, created_s, None, now_s) == 499
    assert floor_s(ScheduleSpec(catch_up=CatchUp.ALL, not_before_s=2000), created_s, None, now_s) == created_s
    assert floor_s(catching_up(CatchUp.LATEST), created_s, None, now_s) == created_s


def test_an_edited_schedule_has_no_past_unless_catch_up_asks_for_it() -> None:
    assert floor_s(PLAIN, 1000, 2000, 5000) == 5000
    assert floor_s(catching_up(CatchUp.ALL), 1000, 2000, 5000) == 2000


# Laws.

SPECS = st.builds(
    catching_up,
    st.sampled_from(CatchUp),
    st.integers(1, 12),
    st.one_of(st.none(), st.integers(1, 900)),
)
LIMITS = st.sampled_from(
    [NO_LIMIT, ONE, Limits(Concurrency.FORBID, 2), Limits(Concurrency.QUEUE, 1, 2), Limits(Concurrency.REPLACE, 1)]
)


@given(
    st.integers(1, 400),
    st.integers(0, 2000),
    st.lists(st.tuples(st.floats(0, 1200), st.integers(0, 3)), max_size=20),
    SPECS,
    LIMITS,
)
def test_each_slot_has_one_fate_wherever_the_time_is_cut(
    period_s: int, mark_s: int, looks: list[tuple[float, int]], asked: ScheduleSpec, limits: Limits
) -> None:
    keeper = Keeper(Every(period_s), mark_s, asked, limits)
    now_s, found = float(mark_s), SlotPlan(None)
    for pause_s, active in looks:
        now_s += pause_s
        found = keeper.look(now_s, active)

    due = [slot for slot in range(0, int(now_s) + 1, period_s) if slot > mark_s]
    assert list(keeper.fates) == due[: len(due) - found.waiting]
    assert not found.waiting or asked.catch_up is CatchUp.ALL


@given(st.integers(1, 90), st.lists(st.floats(0, 80), min_size=1, max_size=30), SPECS, st.data())
def test_a_leader_that_dies_before_its_mark_is_stored_loses_no_slot_and_doubles_none(
    period_s: int, pauses_s: list[float], asked: ScheduleSpec, data: st.DataObject
) -> None:
    """A new leader goes on from the stored mark, or from the latest run that is there."""
    made: list[float] = []
    missed: set[float] = set()
    stored_mark_s = now_s = 1000.0
    keeper = Keeper(Every(period_s), stored_mark_s, asked)
    for pause_s in pauses_s:
        now_s += pause_s
        keeper.look(now_s)
        made += [slot for slot in keeper.made() if slot not in made]
        missed |= {slot for slot, fate in keeper.fates.items() if fate is Fate.MISSED}
        if data.draw(st.booleans(), "the mark is stored"):
            stored_mark_s = keeper.mark_s
        if data.draw(st.booleans(), "the leader dies"):
            keeper = Keeper(Every(period_s), max([stored_mark_s, *made]), asked)

    keeper.look(now_s)
    made += [slot for slot in keeper.made() if slot not in made]
    missed |= {slot for slot, fate in keeper.fates.items() if fate is Fate.MISSED}
    first = (1000 // period_s + 1) * period_s
    assert made == sorted(set(made))
    assert missed.isdisjoint(made)
    assert sorted({*made, *missed}) == list(range(first, int(now_s) + 1, period_s))


@given(st.integers(1, 60), st.lists(st.floats(-500, 500), max_size=20), SPECS)
def test_a_clock_that_jumps_never_moves_the_mark_back(period_s: int, jumps_s: list[float], asked: ScheduleSpec) -> None:
    keeper = Keeper(Every(period_s), 5000, asked)
    now_s = 5000.0
    for jump_s in jumps_s:
        now_s += jump_s
        mark_s = keeper.mark_s
        keeper.look(now_s)
        assert keeper.mark_s >= mark_s


@given(st.integers(1, 100), st.floats(1000, 10_000_000), SPECS, LIMITS)
def test_no_more_is_run_at_once_than_the_limit_of_catch_up(
    period_s: int, away_s: float, asked: ScheduleSpec, limits: Limits
) -> None:
    slots = Every(period_s)
    due = 0
    mark_s = 0.0
    while (found := plan_slot(slots, asked, limits, mark_s, 0, away_s)).decision is not None:
        due += 1
        mark_s = found.decision.slot_s
    limit = {CatchUp.NONE: CATCH_UP_MAX, CatchUp.LATEST: 1, CatchUp.ALL: asked.catch_up_limit}[asked.catch_up]
    assert due <= limit


def test_slots_before_one_whose_run_exists_have_been_missed() -> None:
    found = untold_between(Every(60), 120, 360)
    assert found is not None
    assert (found.count, found.last_s, found.reason) == (3, 300, "Untold")
    assert untold_between(Every(60), 120, 180) is None
    assert untold_between(Every(60, until_s=100), 120, 360) is None
