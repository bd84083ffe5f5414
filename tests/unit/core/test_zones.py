"""When a schedule fires: the expectation rows, and the stories of clock changes."""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import process_time
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from fencepost.core import zone_changes
from fencepost.core.cron import Cron, Gap, Overlap, parse_cron
from fencepost.core.zone_changes import upcoming_changes
from fencepost.core.zones import Effect, effect_of, latest_of, latest_time, next_of, next_time

ROWS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "crontab-expectations.json").read_text())[
    "rows"
]
FIVE_FIELD_ROWS = [row for row in ROWS if "fields" not in row]
BERLIN = ZoneInfo("Europe/Berlin")


def cron_of(text: str) -> Cron:
    cron = parse_cron(text)
    assert isinstance(cron, Cron), cron
    return cron


def local_times(
    text: str,
    zone_name: str,
    start: str,
    count: int,
    gap: Gap = Gap.RUN_AFTER,
    overlap: Overlap = Overlap.FIRST,
) -> list[str]:
    """The next `count` times as the rows write them."""
    zone, after = ZoneInfo(zone_name), datetime.fromisoformat(start)
    found: list[str] = []
    while len(found) < count and (fire := next_time(cron_of(text), zone, after, gap, overlap)) is not None:
        assert fire.tzinfo is UTC
        found.append(fire.astimezone(zone).isoformat(timespec="minutes"))
        after = fire
    return found


def expected_of(row: dict[str, Any]) -> list[str]:
    """What holds under our rule for two day fields, which the rows call plain."""
    times: list[str] = row["expected_if_rule_plain" if row.get("dom_dow_rule") == "vixie" else "expected"]
    return times


def skip_unless_the_law_is_the_same(row: dict[str, Any], want: list[str]) -> None:
    """Governments change their minds: a row holds only where the installed zone data has the offsets it names."""
    for time in map(datetime.fromisoformat, want):
        if time.astimezone(ZoneInfo(row["tz"])).utcoffset() != time.utcoffset():
            pytest.skip(f"the zone data here has another offset in {row['tz']} at {time}")


@pytest.mark.parametrize("row", FIVE_FIELD_ROWS, ids=lambda row: row["id"])
def test_the_expected_times_come_out(row: dict[str, Any]) -> None:
    want = expected_of(row)
    skip_unless_the_law_is_the_same(row, want)
    assert local_times(row["expr"], row["tz"], row["start"], max(1, len(want))) == want


@pytest.mark.parametrize(
    ("policy", "gap", "overlap"), [("literal", Gap.SKIP, Overlap.BOTH), ("skip", Gap.SKIP, Overlap.FIRST)]
)
@pytest.mark.parametrize("row", FIVE_FIELD_ROWS, ids=lambda row: row["id"])
def test_the_times_of_other_schedulers_come_out_under_their_policy(
    row: dict[str, Any], policy: str, gap: Gap, overlap: Overlap
) -> None:
    want = row.get("clock_change", {}).get(policy, expected_of(row))
    skip_unless_the_law_is_the_same(row, want)
    assert local_times(row["expr"], row["tz"], row["start"], max(1, len(want)), gap, overlap) == want


@pytest.mark.parametrize("row", FIVE_FIELD_ROWS, ids=lambda row: row["id"])
def test_the_expected_times_come_out_backwards(row: dict[str, Any]) -> None:
    zone, start = ZoneInfo(row["tz"]), datetime.fromisoformat(row["start"])
    want = expected_of(row)
    skip_unless_the_law_is_the_same(row, want)
    found: list[str] = []
    end = datetime.fromisoformat(want[-1]) if want else start + timedelta(days=40_000)
    while (fire := latest_time(cron_of(row["expr"]), zone, end, start)) is not None:
        found.insert(0, fire.astimezone(zone).isoformat(timespec="minutes"))
        end = fire - timedelta(microseconds=1)
    assert found == want


def test_rows_with_seconds_are_refused_because_a_cron_has_five_fields() -> None:
    rows = [row for row in ROWS if "fields" in row]
    assert len(rows) == 4
    assert not any(isinstance(parse_cron(row["expr"]), Cron) for row in rows)


SPRING, AUTUMN = "2026-03-29T00:00:00+01:00", "2026-10-25T00:00:00+02:00"


def test_a_nightly_job_runs_right_after_the_gap_or_not_at_all() -> None:
    assert local_times("30 2 * * *", "Europe/Berlin", SPRING, 2) == ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]
    assert local_times("30 2 * * *", "Europe/Berlin", SPRING, 1, Gap.SKIP) == ["2026-03-30T02:30+02:00"]


def test_several_slots_in_one_gap_run_once_and_merge_with_the_one_at_its_end() -> None:
    assert local_times("0,20,40 2,3 * * *", "Europe/Berlin", SPRING, 2) == [
        "2026-03-29T03:00+02:00",
        "2026-03-29T03:20+02:00",
    ]


def test_the_made_up_run_is_found_from_either_side_and_only_there() -> None:
    nightly = cron_of("30 2 * * *")
    gap_end = datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert next_time(nightly, BERLIN, gap_end - timedelta(microseconds=1)) == gap_end
    assert next_time(nightly, BERLIN, gap_end) == datetime(2026, 3, 30, 0, 30, tzinfo=UTC)
    assert latest_time(nightly, BERLIN, gap_end, gap_end - timedelta(seconds=1)) == gap_end
    assert latest_time(nightly, BERLIN, gap_end, gap_end) is None
    assert latest_time(nightly, BERLIN, gap_end - timedelta(seconds=1), gap_end - timedelta(hours=20)) is None
    assert latest_time(nightly, BERLIN, gap_end, gap_end - timedelta(hours=20), Gap.SKIP) is None


@pytest.mark.parametrize(
    ("overlap", "want"),
    [
        (Overlap.FIRST, ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]),
        (Overlap.SECOND, ["2026-10-25T02:30+01:00", "2026-10-26T02:30+01:00"]),
        (Overlap.BOTH, ["2026-10-25T02:30+02:00", "2026-10-25T02:30+01:00"]),
    ],
)
def test_a_nightly_job_runs_on_the_chosen_pass_of_an_hour_that_comes_twice(overlap: Overlap, want: list[str]) -> None:
    assert local_times("30 2 * * *", "Europe/Berlin", AUTUMN, 2, overlap=overlap) == want


@pytest.mark.parametrize("gap", Gap)
@pytest.mark.parametrize("overlap", Overlap)
def test_a_schedule_over_all_hours_follows_real_time_whatever_the_rules(gap: Gap, overlap: Overlap) -> None:
    for hours in ("*", "0-23"):
        spring = local_times(f"30 {hours} * * *", "Europe/Berlin", SPRING, 3, gap, overlap)
        assert spring == ["2026-03-29T00:30+01:00", "2026-03-29T01:30+01:00", "2026-03-29T03:30+02:00"]
        autumn = local_times(f"30 {hours} * * *", "Europe/Berlin", AUTUMN, 4, gap, overlap)
        assert autumn[1:] == ["2026-10-25T01:30+02:00", "2026-10-25T02:30+02:00", "2026-10-25T02:30+01:00"]


def test_an_overlap_over_midnight_keeps_the_day_before_to_one_run() -> None:
    # St. John's went back from 00:01 to 23:01: part of Saturday came twice, with a minute of Sunday between
    start = "2010-11-06T12:00:00-02:30"
    late = "30 23 * * *"
    assert local_times(late, "America/St_Johns", start, 2) == ["2010-11-06T23:30-02:30", "2010-11-07T23:30-03:30"]
    assert local_times(late, "America/St_Johns", start, 2, overlap=Overlap.BOTH) == [
        "2010-11-06T23:30-02:30",
        "2010-11-06T23:30-03:30",
    ]
    assert local_times("0 0 * * *", "America/St_Johns", start, 2) == [
        "2010-11-07T00:00-02:30",
        "2010-11-08T00:00-03:30",
    ]
    assert local_times("0 0 * * *", "America/St_Johns", start, 1, overlap=Overlap.SECOND) == ["2010-11-07T00:00-03:30"]


def test_nothing_is_made_up_for_a_day_that_did_not_exist() -> None:
    assert local_times("0 9 30 12 *", "Pacific/Apia", "2011-12-28T12:00:00-10:00", 1) == ["2012-12-30T09:00+14:00"]
    assert local_times("0 9 * * *", "Pacific/Apia", "2011-12-29T08:00:00-10:00", 2) == [
        "2011-12-29T09:00-10:00",
        "2011-12-31T09:00+14:00",
    ]


def test_a_gap_of_three_hours_is_a_correction_and_one_of_two_is_not() -> None:
    assert local_times("0 3 * * *", "Antarctica/Casey", "2009-10-18T00:00:00+08:00", 1) == ["2009-10-19T03:00+11:00"]
    assert local_times("30 1 * * *", "Antarctica/Troll", "2026-03-29T00:00:00+00:00", 1) == ["2026-03-29T03:00+02:00"]


def test_kathmandu_lost_a_quarter_of_an_hour_in_1986() -> None:
    start = "1985-12-31T12:00:00+05:30"
    assert local_times("5 0 * * *", "Asia/Kathmandu", start, 2) == ["1986-01-01T00:15+05:45", "1986-01-02T00:05+05:45"]
    assert local_times("*/5 0 * * *", "Asia/Kathmandu", start, 1) == ["1986-01-01T00:15+05:45"]


def test_a_change_that_is_not_on_a_minute_fires_on_the_walls_next_whole_minute() -> None:
    # Monrovia went from -00:44:30 to UTC at 00:44:30 UTC
    zone, midnight = ZoneInfo("Africa/Monrovia"), cron_of("20 0 * * *")
    made_up = datetime(1972, 1, 7, 0, 45, tzinfo=UTC)
    assert next_time(midnight, zone, datetime(1972, 1, 7, tzinfo=UTC)) == made_up
    assert latest_time(midnight, zone, made_up, datetime(1972, 1, 7, tzinfo=UTC)) == made_up
    assert latest_time(midnight, zone, made_up - timedelta(seconds=1), datetime(1972, 1, 7, tzinfo=UTC)) is None
    assert next_time(midnight, zone, datetime(1972, 1, 5, 12, tzinfo=UTC)) == datetime(1972, 1, 6, 1, 4, 30, tzinfo=UTC)


def test_parts_of_a_second_are_neither_lost_nor_fired_twice() -> None:
    noon, zone = cron_of("0 12 * * *"), ZoneInfo("UTC")
    at, tick = datetime(2026, 5, 1, 12, tzinfo=UTC), timedelta(microseconds=1)
    assert next_time(noon, zone, at - tick) == at
    assert next_time(noon, zone, at) == at + timedelta(days=1)
    assert next_time(noon, zone, at + tick) == at + timedelta(days=1)
    assert latest_time(noon, zone, at + tick, at - tick) == at
    assert latest_time(noon, zone, at - tick, at - timedelta(hours=1)) is None
    assert latest_time(noon, zone, at + tick, at) is None


def test_a_yearly_job_waiting_in_an_overlap_still_gets_its_second_pass() -> None:
    yearly, first_pass = cron_of("30 2 25 10 *"), datetime(2026, 10, 25, 0, 45, tzinfo=UTC)
    assert next_time(yearly, BERLIN, first_pass, overlap=Overlap.BOTH) == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    assert next_time(yearly, BERLIN, first_pass) == datetime(2027, 10, 25, 0, 30, tzinfo=UTC)


def test_a_job_whose_every_time_is_left_out_never_fires_under_skip() -> None:
    last_sunday_of_march, now = cron_of("30 2 * 3 0L"), datetime(2026, 1, 1, tzinfo=UTC)
    assert next_time(last_sunday_of_march, BERLIN, now, Gap.SKIP) is None
    assert latest_time(last_sunday_of_march, BERLIN, now, datetime(1999, 1, 1, tzinfo=UTC), Gap.SKIP) is None
    assert next_time(last_sunday_of_march, BERLIN, now) == datetime(2026, 3, 29, 1, tzinfo=UTC)


def test_the_ends_of_the_calendar_are_ends_and_no_errors() -> None:
    daily = cron_of("0 0 * * *")
    last, first = datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)
    for name in ("Pacific/Kiritimati", "Etc/GMT+12"):
        zone = ZoneInfo(name)
        assert next_time(daily, zone, last) is None
        assert next_time(daily, zone, last - timedelta(days=366)) is not None
        assert latest_time(daily, zone, first, first) is None
        assert next_time(daily, zone, first) is not None
        assert latest_time(daily, zone, last, first) is not None
        assert latest_time(cron_of("0 0 30 2 *"), zone, last, first) is None


def test_of_several_crons_the_earliest_counts_and_two_that_meet_are_one() -> None:
    crons = [cron_of("0 3 * * *"), cron_of("0 */3 * * *"), cron_of("0 0 30 2 *")]
    zone, start = ZoneInfo("UTC"), datetime(2026, 5, 1, 1, tzinfo=UTC)
    three, six = datetime(2026, 5, 1, 3, tzinfo=UTC), datetime(2026, 5, 1, 6, tzinfo=UTC)
    assert next_of(crons, zone, start) == three
    assert next_of(crons, zone, three) == six
    assert latest_of(crons, zone, six, start) == six
    assert latest_of(crons, zone, three, start) == three
    assert next_of(crons[2:], zone, start) is None
    assert latest_of([], zone, six, start) is None


@pytest.mark.parametrize(
    ("text", "want_spring", "want_autumn"),
    [
        ("30 2 * * *", Effect.RUN_AFTER, Effect.FIRST),
        ("30 4 * * *", Effect.NONE, Effect.NONE),
        ("0 3 * * *", Effect.NONE, Effect.NONE),
        ("*/5 * * * *", Effect.REAL_TIME, Effect.REAL_TIME),
    ],
)
def test_a_preview_says_what_the_next_changes_do_to_a_schedule(
    text: str, want_spring: Effect, want_autumn: Effect
) -> None:
    spring, autumn = upcoming_changes(BERLIN, datetime(2026, 1, 1, tzinfo=UTC), 2)
    assert effect_of(cron_of(text), spring) is want_spring
    assert effect_of(cron_of(text), autumn) is want_autumn


def test_a_preview_follows_the_chosen_rules() -> None:
    nightly = cron_of("30 2 * * *")
    spring, autumn = upcoming_changes(BERLIN, datetime(2026, 1, 1, tzinfo=UTC), 2)
    assert effect_of(nightly, spring, gap=Gap.SKIP) is Effect.SKIPPED
    assert effect_of(nightly, autumn, overlap=Overlap.SECOND) is Effect.SECOND
    assert effect_of(nightly, autumn, overlap=Overlap.BOTH) is Effect.BOTH
    (apia,) = upcoming_changes(ZoneInfo("Pacific/Apia"), datetime(2011, 12, 1, tzinfo=UTC), 1)
    assert effect_of(nightly, apia) is Effect.SKIPPED


TRACER_FACTOR = 5


def best_ms(text: str, zone: ZoneInfo, gap: Gap, *, backwards: bool) -> float:
    """The best of five cold calls, so that a busy machine does not fail the test; a tracer's share is taken off."""
    cron, now = cron_of(text), datetime(2026, 3, 1, 12, tzinfo=UTC)
    times = []
    for _ in range(5):
        zone_changes._change_in.cache_clear()
        zone_changes._offset_at_edge.cache_clear()
        start = process_time()
        if backwards:
            latest_time(cron, zone, now, now - timedelta(days=36_500), gap)
        else:
            next_time(cron, zone, now, gap)
        times.append((process_time() - start) * 1000)
    return min(times) / (TRACER_FACTOR if sys.gettrace() is not None else 1)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("text", ["* * * * *", "*/5 * * * *", "0 3 * * *", "30 2 * * 1-5", "0 0 1 * *", "0 0 29 2 *"])
def test_an_ordinary_answer_takes_less_than_a_millisecond(text: str, backwards: bool) -> None:
    assert best_ms(text, BERLIN, Gap.RUN_AFTER, backwards=backwards) < 1


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "0 0 30 2 *",
        "0 0 29 2 1",
        "0 0 31W 2,4,6,9,11 *",
        "0 0 * 2 1#5",
        "30 2 * 3 0L",
        "*/30 2 * 3 0L",
        "0-58 2 * 3 0L",
    ],
)
def test_the_worst_answer_takes_less_than_20_milliseconds(text: str, backwards: bool) -> None:
    assert best_ms(text, BERLIN, Gap.SKIP, backwards=backwards) < 20
