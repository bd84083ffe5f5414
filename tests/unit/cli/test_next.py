"""`fencepost next`: what it prints, and what it refuses."""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from fencepost.cli import next as next_command

DATA = Path(__file__).parent.parent / "core" / "data" / "crontab-expectations.json"
EXPECTATIONS: dict[str, list[dict[str, Any]]] = json.loads(DATA.read_text())
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def call(*words: str) -> int:
    parser = argparse.ArgumentParser()
    next_command.add_parser(parser.add_subparsers())
    return next_command.run(parser.parse_args(["next", *words]), now=lambda: NOW)


@pytest.fixture
def times(capsys: pytest.CaptureFixture[str]) -> Any:
    """Call the command, expect success, and read the lines."""

    def read(*words: str) -> list[str]:
        assert call(*words) == 0
        return capsys.readouterr().out.splitlines()

    return read


@pytest.mark.parametrize("row", [row for row in EXPECTATIONS["rows"] if "fields" not in row], ids=lambda row: row["id"])
def test_the_expected_times_are_printed(row: dict[str, Any], times: Any) -> None:
    want = row["expected_if_rule_plain" if row.get("dom_dow_rule") == "vixie" else "expected"]
    for time in map(datetime.fromisoformat, want):
        if time.astimezone(ZoneInfo(row["tz"])).utcoffset() != time.utcoffset():
            pytest.skip(f"the zone data here has another offset in {row['tz']} at {time}")
    count = str(max(1, len(want)))
    lines = times("--cron", row["expr"], "--zone", row["tz"], "--from", row["start"], "--count", count)
    assert [datetime.fromisoformat(line).isoformat(timespec="minutes") for line in lines] == want
    assert all(len(line) == len("2026-11-30T12:00:00+00:00") for line in lines)


@pytest.mark.parametrize("row", EXPECTATIONS["validity"], ids=lambda row: ascii(row["expr"]))
def test_what_is_refused_says_why_on_stderr_and_exits_2(
    row: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    status = call("--cron", row["expr"], "--count", "1")
    output = capsys.readouterr()
    if row["suggested"] == "reject" and row["expr"] not in ("0 0 L * *", "0 0 LW * *", "0 0 15W * *"):
        assert status == 2
        assert output.out == ""
        assert output.err.startswith("--cron: ")
        assert output.err.count("\n") == 1
    else:
        assert status == 0


def test_rows_with_seconds_are_refused() -> None:
    assert [call("--cron", row["expr"]) for row in EXPECTATIONS["rows"] if "fields" in row] == [2, 2, 2, 2]


def test_without_from_the_clock_is_asked_and_five_times_in_utc_come(times: Any) -> None:
    assert times("--cron", "0 * * * *") == [f"2026-11-30T{hour}:00:00+00:00" for hour in range(13, 18)]


def test_several_crons_print_one_merged_list(times: Any) -> None:
    lines = times("--cron", "0 3 * * *", "--cron", "0 */3 * * *", "--count", "3", "--from", "2026-05-01T00:00:00Z")
    assert lines == ["2026-05-01T03:00:00+00:00", "2026-05-01T06:00:00+00:00", "2026-05-01T09:00:00+00:00"]


def test_gap_and_overlap_choose_the_rules(times: Any) -> None:
    nightly = ("--cron", "30 2 * * *", "--zone", "Europe/Berlin")
    spring, autumn = ("--from", "2026-03-28T12:00:00Z"), ("--from", "2026-10-24T12:00:00Z")
    assert times(*nightly, *spring, "--count", "1") == ["2026-03-29T03:00:00+02:00"]
    assert times(*nightly, *spring, "--count", "1", "--gap", "Skip") == ["2026-03-30T02:30:00+02:00"]
    assert times(*nightly, *autumn, "--count", "1", "--overlap", "Second") == ["2026-10-25T02:30:00+01:00"]
    assert times(*nightly, *autumn, "--count", "2", "--overlap", "Both") == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:30:00+01:00",
    ]


def test_what_never_fires_prints_nothing_but_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--cron", "0 0 30 2 *") == 0
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == "warning: '0 0 30 2 *' never fires, as no day matches it\n"


def test_fewer_times_than_asked_for_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    last_sunday = ("--cron", "30 2 * 3 0L", "--zone", "Europe/Berlin", "--gap", "Skip")
    assert call(*last_sunday, "--from", "2026-01-01T00:00:00Z", "--count", "3") == 0
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == "warning: no further time within 50 years\n"


def test_an_offset_with_seconds_is_printed_in_utc(times: Any) -> None:
    monrovia = ("--cron", "0 0 1 1 *", "--zone", "Africa/Monrovia", "--count", "2", "--from", "1971-06-01T00:00:00Z")
    assert times(*monrovia) == ["1972-01-01T00:44:30Z", "1973-01-01T00:00:00+00:00"]


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (("--zone", "Mars/Olympus"), "--zone: 'Mars/Olympus' is not a time zone known here; write an IANA name"),
        (("--zone", "europe/berlin"), "did you mean Europe/Berlin?"),
        (("--zone", "Europe"), "'Europe' is not a time zone"),
        (("--zone", "../etc/passwd"), "'../etc/passwd' is not a time zone"),
        (("--zone", ""), "'' is not a time zone"),
        (("--zone", "right/UTC"), "'right/UTC' is not a time zone"),
        (("--zone", "localtime"), "'localtime' is not a time zone"),
        (("--zone", "A" * 5000), "is not a time zone"),
        (("--from", "2026-01-01"), "--from: '2026-01-01' is not an RFC 3339 time with an offset"),
        (("--from", "2026-01-01T00:00:00"), "write it like 2026-12-24T18:00:00+01:00"),
        (("--from", "2026-13-01T00:00:00Z"), "is not an RFC 3339 time"),
        (("--from", "yesterday"), "'yesterday' is not an RFC 3339 time"),
        (("--count", "0"), "--count: 0 times are asked for; write a number from 1 to 10000"),
        (("--count", "10001"), "10001 times"),
        (("--cron", "0 0 32 * *"), "--cron[1]: '32' in the day-of-month field is outside 1 to 31"),
    ],
)
def test_a_bad_option_is_named_with_its_remedy(
    words: tuple[str, ...], want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("--cron", "0 0 * * *", *words) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert want in output.err


def test_an_unknown_rule_is_refused_with_the_choices(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        call("--cron", "0 0 * * *", "--gap", "Shift")
    assert stopped.value.code == 2
    assert "RunAfter" in capsys.readouterr().err


def test_the_ends_of_the_calendar_are_no_errors(times: Any) -> None:
    daily = ("--cron", "0 0 * * *", "--count", "1")
    assert times(*daily, "--from", "9999-12-31T23:59:59-23:00") == []
    assert times(*daily, "--from", "0001-01-01T00:00:00+23:00") == ["0002-01-01T00:00:00+00:00"]
