"""The laws of firing: against a look at every minute, and over windows that are cut anywhere."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.core.cron import Cron, Gap, Overlap, parse_cron
from fencepost.core.zones import latest_of, latest_time, next_of, next_time
from tests.unit.core.cron_oracle import Oracle, fires, minute_table

POLICIES = list(product(Gap, Overlap))
YEARS = [
    ("Europe/Berlin", 2026),
    ("Europe/Dublin", 2026),
    ("America/New_York", 2026),
    ("America/Havana", 2026),
    ("America/St_Johns", 2010),
    ("America/Caracas", 2016),
    ("Asia/Kathmandu", 1985),
    ("Asia/Pyongyang", 2018),
    ("Africa/Casablanca", 2026),
    ("Africa/Cairo", 2026),
    ("Australia/Lord_Howe", 2026),
    ("Antarctica/Troll", 2026),
    ("Antarctica/Casey", 2010),
    ("Pacific/Apia", 2011),
    ("Pacific/Chatham", 2026),
]
EXPRESSIONS = [
    "* * * * *",
    "*/7 2 * * *",
    "30 * * * *",
    "0 */2 * * *",
    "0 0 * * *",
    "30 2 * * *",
    "15,45 0,1,2,3 * * *",
    "3-58/5 0-22 * * *",
    "1 0 * * 0",
    "59 23 L * 6L",
    "30 1 1W * 0",
    "0 9 30 12 *",
]
AROUND = timedelta(hours=26)


def cron_of(text: str) -> Cron:
    cron = parse_cron(text)
    assert isinstance(cron, Cron), cron
    return cron


def changes_of(zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """Roughly when the zone's offset changes, by the hour."""
    hour = timedelta(hours=1)
    while start < end:
        if start.astimezone(zone).utcoffset() != (start + hour).astimezone(zone).utcoffset():
            yield start
        start += hour


def forwards(cron: Cron, zone: ZoneInfo, start: datetime, end: datetime, gap: Gap, overlap: Overlap) -> list[datetime]:
    """All firings with start < t <= end, one after the other."""
    found: list[datetime] = []
    while (fire := next_time(cron, zone, found[-1] if found else start, gap, overlap)) is not None and fire <= end:
        found.append(fire)
    return found


def backwards(cron: Cron, zone: ZoneInfo, start: datetime, end: datetime, gap: Gap, overlap: Overlap) -> list[datetime]:
    """The same, from the end."""
    found: list[datetime] = []
    while (fire := latest_time(cron, zone, end, start, gap, overlap)) is not None:
        found.insert(0, fire)
        end = fire - timedelta(seconds=1)
    return found


@pytest.mark.parametrize(("name", "year"), YEARS)
def test_a_look_at_every_minute_around_every_change_of_a_year_agrees(name: str, year: int) -> None:
    zone = ZoneInfo(name)
    changes = list(changes_of(zone, datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)))
    assert changes
    for change in changes:
        start, end = change - AROUND, change + AROUND
        table = minute_table(zone, start, end)
        for text in EXPRESSIONS:
            want = fires(Oracle(text), table, start, end, POLICIES)
            for gap, overlap in POLICIES if Oracle(text).is_fixed else POLICIES[:1]:
                assert forwards(cron_of(text), zone, start, end, gap, overlap) == want[gap, overlap], (text, change)


def test_a_look_at_every_minute_of_a_whole_year_agrees() -> None:
    zone, start, end = ZoneInfo("Pacific/Apia"), datetime(2011, 1, 1, tzinfo=UTC), datetime(2012, 1, 1, tzinfo=UTC)
    table = minute_table(zone, start, end)
    for text in ("30 2 * * *", "15 */6 L,13 * 1"):
        want = fires(Oracle(text), table, start, end, [(Gap.RUN_AFTER, Overlap.FIRST)])
        found = forwards(cron_of(text), zone, start, end, Gap.RUN_AFTER, Overlap.FIRST)
        assert found == want[Gap.RUN_AFTER, Overlap.FIRST]


def fields(low: int, high: int, *more: str) -> st.SearchStrategy[str]:
    value = st.integers(low, high)
    pair = st.tuples(value, value).map(sorted)
    step = st.integers(1, high - low + 1)
    item = st.one_of(
        value.map(str),
        pair.map(lambda both: f"{both[0]}-{both[1]}"),
        st.tuples(pair, step).map(lambda both: f"{both[0][0]}-{both[0][1]}/{both[1]}"),
        st.tuples(value, step).map(lambda both: f"{both[0]}/{both[1]}"),
        step.map(lambda n: f"*/{n}"),
        st.sampled_from(("*", *more)),
    )
    return st.lists(item, min_size=1, max_size=3).map(",".join)


TEXTS = st.tuples(
    fields(0, 59),
    fields(0, 23),
    st.just("*") | fields(1, 31, "L", "LW", "1W", "15W", "31W"),
    st.just("*") | fields(1, 12),
    st.just("*") | fields(0, 6, "7", "5L", "0L", "1#1", "3#5"),
).map(" ".join)
FREQUENT = st.tuples(fields(0, 59), fields(0, 23), st.just("*"), st.just("*"), st.just("*")).map(" ".join)
ZONES = st.sampled_from([name for name, _ in YEARS] + ["UTC"]).map(ZoneInfo)
NEAR_A_CHANGE = st.sampled_from(
    [
        (name, change)
        for name, year in YEARS
        for change in changes_of(ZoneInfo(name), datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC))
    ]
)
MOMENTS = st.datetimes(datetime(1975, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
GAPS, OVERLAPS = st.sampled_from(Gap), st.sampled_from(Overlap)


def is_explained(text: str, zone: ZoneInfo, fire: datetime) -> bool:
    """The wall clock matches, or it has just jumped over a minute that does."""
    oracle, wall = Oracle(text), fire.astimezone(zone).replace(tzinfo=None)
    before = (fire - timedelta(minutes=1)).astimezone(zone).replace(tzinfo=None) + timedelta(minutes=1)
    if wall.second == 0 and oracle.matches(wall):
        return True
    missing = [before + timedelta(minutes=n) for n in range((wall - before) // timedelta(minutes=1))]
    return oracle.is_fixed and any(oracle.matches(minute) for minute in missing)


@settings(deadline=None)
@given(TEXTS, ZONES, MOMENTS, GAPS, OVERLAPS)
def test_the_next_time_is_later_and_matches_the_wall_clock_or_a_rule(
    text: str, zone: ZoneInfo, after: datetime, gap: Gap, overlap: Overlap
) -> None:
    fire = next_time(cron_of(text), zone, after, gap, overlap)
    if fire is not None:
        assert fire > after
        assert is_explained(text, zone, fire)
        assert latest_time(cron_of(text), zone, fire, after, gap, overlap) == fire


@settings(deadline=None)
@given(FREQUENT, NEAR_A_CHANGE, st.integers(-2000, 2000), st.integers(1, 1500), GAPS, OVERLAPS)
def test_any_expression_in_any_window_near_a_change_agrees_with_a_look_at_every_minute(
    text: str, near: tuple[str, datetime], offset: int, length: int, gap: Gap, overlap: Overlap
) -> None:
    zone, start = ZoneInfo(near[0]), near[1] + timedelta(minutes=offset)
    end = start + timedelta(minutes=length)
    want = fires(Oracle(text), minute_table(zone, start, end), start, end, [(gap, overlap)])[gap, overlap]
    assert forwards(cron_of(text), zone, start, end, gap, overlap) == want
    assert backwards(cron_of(text), zone, start, end, gap, overlap) == want


@settings(deadline=None)
@given(FREQUENT, NEAR_A_CHANGE, st.lists(st.integers(-250_000, 250_000), min_size=2, max_size=6), GAPS, OVERLAPS)
def test_a_window_cut_into_pieces_loses_and_doubles_nothing(
    text: str, near: tuple[str, datetime], cuts: list[int], gap: Gap, overlap: Overlap
) -> None:
    zone, cron = ZoneInfo(near[0]), cron_of(text)
    edges = [near[1] + timedelta(seconds=cut) for cut in sorted(cuts)]
    pieces = [fire for start, end in pairwise(edges) for fire in forwards(cron, zone, start, end, gap, overlap)]
    assert pieces == forwards(cron, zone, edges[0], edges[-1], gap, overlap)
    for start, end in pairwise(edges):
        inside = [fire for fire in pieces if start < fire <= end]
        assert latest_time(cron, zone, end, start, gap, overlap) == (inside[-1] if inside else None)


@settings(deadline=None)
@given(TEXTS, ZONES, MOMENTS, GAPS, OVERLAPS)
def test_the_latest_time_is_the_last_that_iterating_finds(
    text: str, zone: ZoneInfo, start: datetime, gap: Gap, overlap: Overlap
) -> None:
    cron, fire = cron_of(text), start
    found: list[datetime] = []
    while len(found) < 8 and (following := next_time(cron, zone, fire, gap, overlap)) is not None:
        found.append(following)
        fire = following
    for earlier, later in pairwise(found):
        assert latest_time(cron, zone, later, start, gap, overlap) == later
        assert latest_time(cron, zone, later - timedelta(microseconds=1), start, gap, overlap) == earlier


@settings(deadline=None, max_examples=50)
@given(st.lists(TEXTS, min_size=1, max_size=3), ZONES, MOMENTS)
def test_several_crons_fire_as_the_union_of_each(texts: list[str], zone: ZoneInfo, start: datetime) -> None:
    crons, end = [cron_of(text) for text in texts], start + timedelta(hours=7)
    rules = (Gap.RUN_AFTER, Overlap.FIRST)
    want = sorted({fire for cron in crons for fire in forwards(cron, zone, start, end, *rules)})
    found: list[datetime] = []
    after = start
    while (fire := next_of(crons, zone, after)) is not None and fire <= end:
        found.append(fire)
        after = fire
    assert found == want
    assert latest_of(crons, zone, end, start) == (want[-1] if want else None)
