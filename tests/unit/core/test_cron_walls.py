"""On which wall minutes an expression matches: against croniter where it is right, and against a calendar."""

# ruff: noqa: DTZ001  -- wall times have no zone
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from croniter import CroniterBadDateError, croniter
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fencepost.core.cron import Cron, parse_cron
from fencepost.core.cron_walls import first_wall, last_wall, never_fires
from tests.unit.core.cron_oracle import Oracle

EPOCH = datetime(1970, 1, 1)
MINUTE = timedelta(minutes=1)


def cron_of(text: str) -> Cron:
    cron = parse_cron(text)
    assert isinstance(cron, Cron), cron
    return cron


def wall_of(moment: datetime) -> int:
    return (moment - EPOCH) // MINUTE


def first_after(text: str, start: datetime, years: int = 60) -> datetime | None:
    wall = first_wall(cron_of(text), wall_of(start) + 1, wall_of(start) + years * 366 * 1440)
    return None if wall is None else EPOCH + wall * MINUTE


def all_days(text: str, year: int) -> list[str]:
    """The days of a year on which the expression matches, as month-day."""
    cron = cron_of(text)
    start, end = wall_of(datetime(year, 1, 1)), wall_of(datetime(year + 1, 1, 1))
    found = []
    while (wall := first_wall(cron, start, end)) is not None:
        found.append((EPOCH + wall * MINUTE).strftime("%m-%d"))
        start = (wall // 1440 + 1) * 1440
    return found


def number_field(low: int, high: int) -> st.SearchStrategy[str]:
    """A field that croniter reads as it stands: no `a-a`, no range over the whole field."""
    value = st.integers(low, high)
    ranges = st.tuples(value, value).filter(lambda pair: low < pair[0] < pair[1])
    step = st.integers(2, min(9, high - 1))
    return st.one_of(
        st.just("*"),
        value.map(str),
        st.lists(value, min_size=2, max_size=4, unique=True).map(lambda many: ",".join(map(str, many))),
        ranges.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.tuples(ranges, step).map(lambda both: f"{both[0][0]}-{both[0][1]}/{both[1]}"),
        step.map(lambda n: f"*/{n}"),
    )


EXPRESSIONS = st.tuples(
    number_field(0, 59), number_field(0, 23), number_field(1, 31), number_field(1, 12), number_field(0, 6)
).map(" ".join)
MOMENTS = st.datetimes(datetime(1975, 1, 1), datetime(2090, 1, 1)).map(lambda at: at.replace(second=0, microsecond=0))


@settings(max_examples=60, deadline=None)
@given(EXPRESSIONS, MOMENTS)
def test_croniter_agrees_on_plain_expressions_forwards_and_backwards(text: str, start: datetime) -> None:
    iterator = croniter(text, start)
    try:
        want_next = iterator.get_next(datetime)
        want_previous = croniter(text, start).get_prev(datetime)
    except CroniterBadDateError:
        assume(False)
    assert first_after(text, start) == want_next
    wall = last_wall(cron_of(text), wall_of(start) - 60 * 366 * 1440, wall_of(start))
    assert wall is not None
    assert EPOCH + wall * MINUTE == want_previous


@settings(deadline=None)
@given(EXPRESSIONS, MOMENTS, st.integers(1, 10_000))
def test_backwards_finds_what_forwards_finds(text: str, start: datetime, length: int) -> None:
    cron, low = cron_of(text), wall_of(start)
    walls: list[int] = []
    cursor = low
    while (wall := first_wall(cron, cursor, low + length)) is not None and len(walls) < 50:
        walls.append(wall)
        cursor = wall + 1
    for earlier, later in pairwise(walls):
        assert last_wall(cron, low, later) == earlier
    if walls:
        assert last_wall(cron, low, walls[0]) is None
        assert last_wall(cron, walls[-1], walls[-1] + 1) == walls[-1]


def test_a_window_of_no_minutes_holds_nothing() -> None:
    every_minute = cron_of("* * * * *")
    for start in (0, 1440, 777):
        assert first_wall(every_minute, start, start) is None
        assert last_wall(every_minute, start, start) is None
        assert first_wall(every_minute, start, start - 5000) is None
        assert last_wall(every_minute, start, start - 5000) is None


def test_the_window_cuts_a_match_off_on_its_own_day_too() -> None:
    noon = cron_of("0 12 * * *")
    assert first_wall(noon, 0, 720) is None
    assert first_wall(noon, 0, 721) == 720
    assert last_wall(noon, 721, 1440) is None
    assert last_wall(noon, 720, 1440) == 720
    new_year = cron_of("0 0 1 1 *")
    assert first_wall(new_year, 1, 1440) is None
    assert last_wall(new_year, 1441, 100 * 1440) is None


SPECIAL_DAYS = [
    "0 0 L * *",
    "0 0 LW * *",
    "0 0 31,L * *",
    "0 0 L,15 2,6 *",
    "0 0 * * 5L",
    "0 0 * * 0L,3L",
    "0 0 * * 1#1",
    "0 0 * * 7#5",
    "0 0 13 * 5#2",
    "0 0 L * 1",
    "0 0 1W,15W * *",
    *(f"0 0 {day}W * *" for day in (1, 2, 3, 28, 29, 30, 31)),
    "0 0 */5 * 1",
    "0 0 1 * *,5",
    "0 0 *,5 * 1",
    "0 0 1-31 * 1",
]


@pytest.mark.parametrize("text", SPECIAL_DAYS)
def test_days_of_every_kind_of_year_agree_with_a_look_at_each_day(text: str) -> None:
    oracle = Oracle(text)
    for year in (*range(2000, 2007), 2012, 2016, 2020, 2024, 2028, 2100):  # leap or not, from each weekday
        days = [datetime(year, 1, 1) + timedelta(days=n) for n in range(366)]
        want = [day.strftime("%m-%d") for day in days if day.year == year and oracle.matches(day)]
        assert all_days(text, year) == want, year


def test_the_working_day_nearest_to_a_weekend_day_stays_within_its_month() -> None:
    assert all_days("0 0 1W 8 *", 2026) == ["08-03"]  # 1 August 2026 is a Saturday
    assert all_days("0 0 31W 5 *", 2026) == ["05-29"]  # 31 May 2026 is a Sunday
    assert all_days("0 0 29W 2 *", 2026) == []
    assert all_days("0 0 31W 4 *", 2026) == []


def test_both_day_fields_mean_or_unless_one_is_open() -> None:
    assert len(all_days("0 0 13 * 5", 2026)) == 61
    assert all_days("0 0 */15 1 1", 2026) == ["01-01", "01-05", "01-12", "01-16", "01-19", "01-26", "01-31"]
    assert all_days("0 0 * 1 1", 2026) == ["01-05", "01-12", "01-19", "01-26"]
    assert all_days("0 0 10 1 ?", 2026) == ["01-10"]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0 0 30 2 *", True),
        ("0 0 31 2,4,6,9,11 *", True),
        ("0 0 31W 4 *", True),
        ("0 0 29 2 *", False),
        ("0 0 30 2 1", False),
        ("0 0 * 2 1#5", False),
        ("0 0 31 4,5 *", False),
        ("* * * * *", False),
    ],
)
def test_an_expression_that_can_never_fire_is_known(text: str, want: bool) -> None:
    assert never_fires(cron_of(text)) is want


def test_a_fifth_monday_in_february_comes_every_28_years_and_40_over_a_skipped_leap_day() -> None:
    assert first_after("0 0 * 2 1#5", datetime(2026, 1, 1)) == datetime(2044, 2, 29)
    assert first_after("0 0 * 2 1#5", datetime(2072, 3, 1)) == datetime(2112, 2, 29)
