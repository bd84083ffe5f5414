"""Times and durations as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api.times import format_duration, format_time, parse_duration, parse_time

MOMENTS_MS = st.integers(0, 4_102_444_800_000)
"""From 1970 to 2100."""


@given(MOMENTS_MS)
def test_a_time_reads_back_to_the_millisecond(moment_ms: int) -> None:
    assert round(parse_time(format_time(moment_ms / 1000, millis=True)) * 1000) == moment_ms


@given(MOMENTS_MS)
def test_without_milliseconds_a_time_is_cut_to_its_second(moment_ms: int) -> None:
    assert parse_time(format_time(moment_ms / 1000)) == moment_ms // 1000


@pytest.mark.parametrize(
    "text",
    ["2026-11-30T13:00:00Z", "2026-11-30T14:00:00+01:00", "2026-11-30T13:00:00.000Z", "2026-11-30T08:00:00-05:00"],
)
def test_one_moment_may_be_written_in_many_ways(text: str) -> None:
    assert parse_time(text) == 1_796_043_600


@pytest.mark.parametrize("text", ["", "noon", "2026-11-30", "2026-11-30T13:00:00", "2026-02-30T00:00:00Z"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "want_s"),
    [("90s", 90), ("10m", 600), ("1h30m", 5400), ("1h1m1s1ms", 3661.001), ("0s", 0), ("1500ms", 1.5)],
)
def test_a_duration_is_the_sum_of_its_parts(text: str, want_s: float) -> None:
    assert parse_duration(text) == want_s


@pytest.mark.parametrize("text", ["", "10", "s", "1s1h", "1h 30m", "-1s", "1.5h", "1d", "5s5s", "123456s", "1s\n"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_duration(text)


@given(st.integers(0, 99_999 * 3600))
def test_a_duration_shown_to_people_reads_back(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


def test_a_duration_shown_to_people_has_whole_seconds_and_is_never_negative() -> None:
    assert [format_duration(seconds) for seconds in (-3, 0.9, 65, 3605)] == ["0s", "0s", "1m5s", "1h0m5s"]
