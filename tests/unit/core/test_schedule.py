"""A whole schedule: expressions, single times, the spread and the bounds together."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.cron import Cron, Gap, Overlap, parse_cron
from fencepost.core.schedule import Schedule
from fencepost.core.schedule_spec import ScheduleSpec
from fencepost.core.zones import Effect

BERLIN = ZoneInfo("Europe/Berlin")


def unix(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def a_schedule(
    *crons: str, zone: ZoneInfo = BERLIN, at: tuple[str, ...] = (), **asked: int | Gap | Overlap
) -> Schedule:
    """A schedule of these expressions and times."""
    parsed = [parse_cron(text) for text in crons]
    moments = tuple(sorted({unix(text) for text in at}))
    return Schedule(
        ScheduleSpec(**asked),  # type: ignore[arg-type]
        tuple(cron for cron in parsed if isinstance(cron, Cron)),
        zone,
        moments,
    )


def times(slots: list[float]) -> list[str]:
    return [f"{datetime.fromtimestamp(slot, UTC):%m-%dT%H:%M:%S}" for slot in slots]


START = unix("2027-03-26T12:00:00Z")


def test_expressions_and_single_times_are_one_row_of_slots_and_two_that_meet_are_one() -> None:
    schedule = a_schedule("0 3 * * *", "0 3,4 * * *", at=("2027-03-27T02:00:00Z", "2027-03-27T02:30:00Z"))

    assert times(schedule.next_slots(START, 5)) == [
        "03-27T02:00:00", "03-27T02:30:00", "03-27T03:00:00", "03-28T01:00:00", "03-28T02:00:00",
    ]  # fmt: skip


def test_a_spread_moves_every_slot_after_clock_changes_are_decided() -> None:
    schedule = a_schedule("30 2 * * *", at=("2027-03-27T12:00:00Z",), offset_s=37)

    assert times(schedule.next_slots(START, 3)) == ["03-27T01:30:37", "03-27T12:00:37", "03-28T01:00:37"]
    assert schedule.next_slot(unix("2027-03-27T01:30:36.5Z")) == unix("2027-03-27T01:30:37Z")


def test_the_rules_for_clock_changes_are_the_schedules_own() -> None:
    schedule = a_schedule("30 2 * * *", gap=Gap.SKIP, overlap=Overlap.BOTH)

    assert times(schedule.next_slots(unix("2027-03-27T12:00:00Z"), 1)) == ["03-29T00:30:00"]
    assert times(schedule.next_slots(unix("2027-10-30T12:00:00Z"), 2)) == ["10-31T00:30:00", "10-31T01:30:00"]


def test_bounds_are_slots_themselves_and_are_compared_with_the_moved_time() -> None:
    first, last = unix("2027-03-28T10:00:30Z"), unix("2027-03-30T10:00:30Z")
    schedule = a_schedule("0 12 * * *", offset_s=30, not_before_s=first, not_after_s=last)

    assert schedule.next_slots(START, 9) == [first, unix("2027-03-29T10:00:30Z"), last]
    assert schedule.latest_slot(last + 86_400, START) == last
    assert schedule.latest_slot(first, START) == first
    assert schedule.latest_slot(first - 1, START) is None
    assert a_schedule("0 12 * * *", offset_s=31, not_after_s=last).next_slot(last - 60) is None


def test_it_says_whether_there_is_anything_to_follow_and_whether_that_ends() -> None:
    nothing, daily = a_schedule(), a_schedule("0 3 * * *")
    once, bounded = a_schedule(at=("2027-03-27T12:00:00Z",)), a_schedule("0 3 * * *", not_after_s=START)

    assert [bool(each) for each in (nothing, daily, once, bounded)] == [False, True, True, True]
    assert [each.ends for each in (nothing, daily, once, bounded)] == [False, False, True, True]
    assert nothing.next_slot(START) is None
    assert nothing.latest_slot(START, 0) is None


@pytest.mark.parametrize(
    ("schedule", "want"),
    [
        (a_schedule("0 3 * * *"), "0 3 * * *"),
        (a_schedule("@daily", "0 4 * * *", at=("2027-03-27T12:00:00Z",)), "@daily (+2)"),
        (a_schedule(at=("2027-03-27T12:00:00Z",)), "at 2027-03-27T12:00:00Z"),
    ],
)
def test_it_is_told_in_a_few_words(schedule: Schedule, want: str) -> None:
    assert schedule.summary == want


def test_the_clock_changes_that_matter_are_shown_before_they_come() -> None:
    fixed = a_schedule("*/5 * * * *", "30 2 * * *", overlap=Overlap.SECOND)

    [spring, autumn] = fixed.changes(START, 2)
    assert (f"{spring[0].at:%Y-%m-%d}", spring[1]) == ("2027-03-28", Effect.RUN_AFTER)
    assert (f"{autumn[0].at:%Y-%m-%d}", autumn[1]) == ("2027-10-31", Effect.SECOND)
    assert a_schedule("*/5 * * * *", "0 12 * * *").changes(START, 2) == []
    assert fixed.changes(START, 1) == [spring]
    ended = a_schedule("30 2 * * *", not_after_s=unix("2027-06-01T00:00:00Z"))
    assert [effect for _, effect in ended.changes(START, 2)] == [Effect.RUN_AFTER]


@given(
    st.sampled_from([("30 2 * * *",), ("*/20 1-3 * * *", "30 2 * * 0"), ("0 0 1 * *",), ()]),
    st.lists(st.integers(START - 86_400, START + 5 * 86_400), max_size=4, unique=True),
    st.integers(0, 7200),
    st.sampled_from(list(Gap)),
    st.sampled_from(list(Overlap)),
    st.lists(st.floats(0, 86_400), min_size=1, max_size=8),
)
def test_no_slot_is_lost_or_doubled_wherever_time_is_cut_and_looking_back_finds_the_same(
    crons: tuple[str, ...], at: list[int], offset_s: int, gap: Gap, overlap: Overlap, pauses_s: list[float]
) -> None:
    texts = tuple(datetime.fromtimestamp(moment, UTC).isoformat() for moment in at)
    schedule = a_schedule(*crons, at=texts, offset_s=offset_s, gap=gap, overlap=overlap)
    end_s = START + sum(pauses_s)
    whole = [slot for slot in schedule.next_slots(START, 400) if slot <= end_s]

    pieces: list[float] = []
    mark_s = now_s = float(START)
    for pause_s in pauses_s:
        now_s += pause_s
        while (slot := schedule.next_slot(mark_s)) is not None and slot <= now_s:
            assert slot > mark_s
            pieces.append(slot)
            mark_s = slot
    backwards: list[float] = []
    last_s = end_s
    while (found := schedule.latest_slot(last_s, START)) is not None:
        backwards.append(found)
        last_s = found - 1

    assert pieces == whole
    assert backwards[::-1] == whole
