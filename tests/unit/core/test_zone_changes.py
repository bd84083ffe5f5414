"""When the clocks of a zone change, as found by looking at offsets only."""

import struct
from datetime import UTC, datetime, timedelta
from importlib import resources
from itertools import pairwise
from pathlib import Path
from zoneinfo import TZPATH, ZoneInfo

import pytest

from fencepost.core.zone_changes import (
    PREVIEW_COUNT_MAX,
    STRETCH_S,
    ClockChange,
    changes_between,
    moment,
    offset_at,
    unix_s,
    upcoming_changes,
)

LARGEST_OFFSET_S = 86400


def at(text: str) -> int:
    return unix_s(datetime.fromisoformat(text))


def test_the_next_two_changes_of_berlin() -> None:
    changes = upcoming_changes(ZoneInfo("Europe/Berlin"), datetime(2026, 1, 1, tzinfo=UTC), 2)
    assert [change.at.isoformat() for change in changes] == ["2026-03-29T01:00:00+00:00", "2026-10-25T01:00:00+00:00"]
    assert [change.size_s for change in changes] == [3600, -3600]
    assert [str(change) for change in changes] == [
        "2026-03-29T01:00:00Z: clocks go forward from 2026-03-29T02:00+01:00 to 2026-03-29T03:00+02:00",
        "2026-10-25T01:00:00Z: clocks go back from 2026-10-25T03:00+02:00 to 2026-10-25T02:00+01:00",
    ]


def test_lord_howe_changes_by_half_an_hour() -> None:
    changes = upcoming_changes(ZoneInfo("Australia/Lord_Howe"), datetime(2026, 1, 1, tzinfo=UTC), 2)
    assert [change.size_s for change in changes] == [-1800, 1800]


def test_apia_skips_a_day_and_casey_goes_back_three_hours() -> None:
    apia = changes_between(ZoneInfo("Pacific/Apia"), at("2011-12-01T00:00:00Z"), at("2012-01-31T00:00:00Z"))
    assert apia == [ClockChange(at("2011-12-30T10:00:00Z"), -36000, 50400)]
    casey = changes_between(ZoneInfo("Antarctica/Casey"), at("2010-03-01T00:00:00Z"), at("2010-03-10T00:00:00Z"))
    assert casey == [ClockChange(at("2010-03-04T15:00:00Z"), 39600, 28800)]


def test_a_change_by_law_is_a_change_without_summer_time() -> None:
    almaty = changes_between(ZoneInfo("Asia/Almaty"), at("2024-01-01T00:00:00Z"), at("2025-01-01T00:00:00Z"))
    assert almaty == [ClockChange(at("2024-02-29T18:00:00Z"), 21600, 18000)]


@pytest.mark.parametrize("name", ["UTC", "Asia/Kathmandu", "Asia/Tehran"])
def test_a_zone_that_no_longer_changes_has_nothing_to_preview(name: str) -> None:
    assert upcoming_changes(ZoneInfo(name), datetime(2026, 1, 1, tzinfo=UTC), 3) == ()


def test_a_preview_is_bounded_in_count_and_in_time() -> None:
    casablanca, start = ZoneInfo("Africa/Casablanca"), datetime(2026, 1, 1, tzinfo=UTC)
    assert upcoming_changes(casablanca, start, 0) == ()
    changes = upcoming_changes(casablanca, start, 1000)
    assert len(changes) <= PREVIEW_COUNT_MAX
    assert changes[-1].at <= start + timedelta(days=732)
    assert upcoming_changes(casablanca, datetime(9999, 12, 31, tzinfo=UTC), 3) == ()
    assert upcoming_changes(casablanca, datetime(1, 1, 1, tzinfo=UTC), 3) == ()


def test_the_window_is_open_at_its_start_and_closed_at_its_end() -> None:
    berlin, change_s = ZoneInfo("Europe/Berlin"), at("2026-03-29T01:00:00Z")
    assert changes_between(berlin, change_s, change_s + 86400) == []
    assert changes_between(berlin, change_s - 86400, change_s - 1) == []
    assert [change.at_s for change in changes_between(berlin, change_s - 1, change_s)] == [change_s]


def test_seconds_since_1970_are_rounded_down_and_back() -> None:
    assert unix_s(datetime(1970, 1, 1, 0, 0, 1, 999_999, tzinfo=UTC)) == 1
    assert unix_s(datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC)) == -1
    assert moment(-1) == datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)


def test_a_time_without_an_offset_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError):
        unix_s(datetime(2026, 1, 1))  # noqa: DTZ001


def offset_changes(data: bytes) -> list[tuple[int, int, int]]:
    """(moment, offset before, offset after) from a compiled zone file, version 2 and later."""
    if data[:4] != b"TZif" or data[4:5] < b"2":
        return []
    counts = struct.unpack(">6l", data[20:44])
    start = 44 + counts[3] * 5 + counts[4] * 6 + counts[5] + counts[2] * 8 + counts[1] + counts[0]
    _, _, _, time_count, type_count, _ = struct.unpack(">6l", data[start + 20 : start + 44])
    body = data[start + 44 :]
    times = struct.unpack(f">{time_count}q", body[: time_count * 8])
    kinds = body[time_count * 8 : time_count * 9]
    types = [struct.unpack(">l", body[time_count * 9 + 6 * n :][:4])[0] for n in range(type_count)]
    offsets = [types[0], *(types[kind] for kind in kinds)]
    return [(time, old, new) for time, old, new in zip(times, offsets, offsets[1:], strict=False) if old != new]


def zone_files() -> list[Path]:
    roots = [Path(root) for root in TZPATH if Path(root).is_dir()][:1]
    roots.append(Path(str(resources.files("tzdata"))) / "zoneinfo")
    return [path for root in roots for path in sorted(root.rglob("*")) if path.is_file() and "right" not in path.parts]


def test_no_zone_on_this_machine_changes_twice_within_a_stretch_or_by_more_than_a_day() -> None:
    files_read = 0
    for path in zone_files():
        changes = offset_changes(path.read_bytes())
        files_read += bool(changes)
        for _, before, after in changes:
            assert abs(after - before) <= LARGEST_OFFSET_S, path
        for (earlier, _, _), (later, _, _) in pairwise(changes):
            assert later - earlier > STRETCH_S, (path, earlier)
    assert files_read > 500


@pytest.mark.parametrize("name", ["Africa/Casablanca", "America/Boa_Vista", "Asia/Gaza", "Antarctica/Casey"])
def test_every_change_in_the_data_is_found_and_none_else(name: str) -> None:
    path = next(path for path in zone_files() if str(path).endswith(name))
    start_s, end_s = at("1980-01-01T00:00:00Z"), at("2037-01-01T00:00:00Z")
    want = [ClockChange(*change) for change in offset_changes(path.read_bytes()) if start_s < change[0] <= end_s]
    assert changes_between(ZoneInfo(name), start_s, end_s) == want


def test_a_change_on_the_edge_of_two_stretches_is_found_once() -> None:
    name = "Asia/Gaza"
    path = next(path for path in zone_files() if str(path).endswith(name))
    edge = next(change for change in offset_changes(path.read_bytes()) if change[0] > 0 and change[0] % STRETCH_S == 0)
    zone, change = ZoneInfo(name), ClockChange(*edge)
    assert offset_at(zone, change.at_s - 1) == change.before_s
    assert changes_between(zone, change.at_s - STRETCH_S, change.at_s + STRETCH_S) == [change]
    assert changes_between(zone, change.at_s - 1, change.at_s) == [change]
    assert changes_between(zone, change.at_s, change.at_s + STRETCH_S) == []
