"""Reading cron expressions: what is accepted, what is refused, and in which words."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.cron import CRON_LENGTH_MAX, Cron, parse_cron
from fencepost.core.cron_fields import SpecialKind
from fencepost.core.problems import Problem

DATA = Path(__file__).parent / "data"
VALIDITY: list[dict[str, Any]] = json.loads((DATA / "crontab-expectations.json").read_text())["validity"]
REAL: list[dict[str, Any]] = json.loads((DATA / "real-crontabs.json").read_text())["items"]
SUPPORTED_BY_CHOICE = {"0 0 L * *", "0 0 LW * *", "0 0 15W * *"}
"""The list suggests to refuse these "as a product choice: if accepted must be right". We chose to accept."""


def accepted(text: str) -> Cron:
    cron = parse_cron(text)
    assert isinstance(cron, Cron), cron
    return cron


def refused(text: str) -> Problem:
    problem = parse_cron(text)
    assert isinstance(problem, Problem), f"{text!r} was accepted"
    assert problem.reason == "InvalidCron"
    assert problem.path == ""
    assert problem.fact
    assert problem.remedy
    return problem


def numbers(bits: int) -> set[int]:
    return {number for number in range(64) if bits >> number & 1}


@pytest.mark.parametrize("row", VALIDITY, ids=lambda row: ascii(row["expr"]))
def test_expressions_of_the_validity_list_are_accepted_or_refused_as_it_says(row: dict[str, Any]) -> None:
    if row["suggested"] == "reject" and row["expr"] not in SUPPORTED_BY_CHOICE:
        refused(row["expr"])
    else:
        accepted(row["expr"])


@pytest.mark.parametrize("expr", [item["expr"] for item in REAL if item["expr"] != "@once"])
def test_schedules_of_public_repositories_are_accepted(expr: str) -> None:
    assert accepted(expr).text == expr


def test_airflows_once_is_refused_because_it_is_no_cron_and_the_remedy_names_at() -> None:
    assert "`at`" in refused("@once").remedy


def test_a_parsed_expression_keeps_its_text_and_can_be_a_key() -> None:
    cron = accepted(" 5 4 * * * ")
    assert cron.text == " 5 4 * * * "
    assert str(cron) == cron.text
    assert {cron: 1}[accepted(" 5 4 * * * ")] == 1


@pytest.mark.parametrize(
    ("expr", "want_minutes"),
    [
        ("5-5 * * * *", {5}),
        ("59-59/15 * * * *", {59}),
        ("5/20 * * * *", {5, 25, 45}),
        ("59/15 * * * *", {59}),
        ("*/60 * * * *", {0}),
        ("0-10/5,30,30 * * * *", {0, 5, 10, 30}),
        ("007 * * * *", {7}),
    ],
)
def test_minutes_are_the_union_of_values_ranges_and_steps(expr: str, want_minutes: set[int]) -> None:
    assert numbers(accepted(expr).minutes) == want_minutes


@pytest.mark.parametrize(
    ("text", "want_weekdays"),
    [
        ("7", {0}),
        ("0,7", {0}),
        ("7-7", {0}),
        ("5-7", {5, 6, 0}),
        ("SAT-Sun", {6, 0}),
        ("sun-sat", {0, 1, 2, 3, 4, 5, 6}),
        ("sun-sun", {0}),
        ("mon-sun/2", {1, 3, 5, 0}),
        ("Mon/2", {1, 3, 5}),
        ("6/1", {6}),
        ("*/3", {0, 3, 6}),
    ],
)
def test_sunday_is_0_and_7_and_may_end_a_range(text: str, want_weekdays: set[int]) -> None:
    assert numbers(accepted(f"0 0 * * {text}").weekdays.values) == want_weekdays


def test_month_names_count_from_january_in_any_case() -> None:
    assert numbers(accepted("0 0 1 jan,MAR-May,Dec *").months) == {1, 3, 4, 5, 12}


def test_special_days_are_read_in_any_case_and_beside_plain_ones() -> None:
    cron = accepted("0 0 l,15W,lw,31,L * 5L,0#2,7l,3")
    assert [(special.kind, special.number) for special in cron.days.specials] == [
        (SpecialKind.LAST_DAY, 0),
        (SpecialKind.NEAREST_WORKDAY, 15),
        (SpecialKind.LAST_WORKDAY, 0),
    ]
    assert numbers(cron.days.values) == {31}
    assert [(special.kind, special.number, special.nth) for special in cron.weekdays.specials] == [
        (SpecialKind.LAST_WEEKDAY, 5, 0),
        (SpecialKind.NTH_WEEKDAY, 0, 2),
        (SpecialKind.LAST_WEEKDAY, 0, 0),
    ]


@pytest.mark.parametrize("hours", ["*", "*/2", "0-23", "0-23/2", "0/2", "3,*/12", "*,5"])
def test_an_item_over_the_whole_field_makes_a_schedule_follow_real_time_however_it_is_spelled(hours: str) -> None:
    assert accepted(f"30 {hours} * * *").follows_real_time
    assert accepted("0/15 2 * * *").follows_real_time


@pytest.mark.parametrize("hours", ["2", "0,12", "1-23", "1/2", "0-22", "0,1,2,3,4,5"])
def test_any_other_schedule_has_fixed_times(hours: str) -> None:
    assert not accepted(f"0,30 {hours} * * *").follows_real_time


@pytest.mark.parametrize(
    ("text", "want_open"), [("*", True), ("?", True), ("*/1", True), ("*,5", True), ("*/2", False)]
)
def test_a_day_field_is_open_if_an_item_of_it_is_a_plain_star(text: str, want_open: bool) -> None:
    assert accepted(f"0 0 {text} * 1").days.is_open is want_open
    assert accepted(f"0 0 1 * {text}").weekdays.is_open is want_open


@pytest.mark.parametrize(
    ("macro", "want"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@Midnight", "0 0 * * *"),
        ("@HOURLY", "0 * * * *"),
    ],
)
def test_macros_are_their_five_fields_in_any_case(macro: str, want: str) -> None:
    left, right = accepted(macro), accepted(want)
    assert (left.minutes, left.hours, left.days, left.months, left.weekdays, left.follows_real_time) == (
        right.minutes,
        right.hours,
        right.days,
        right.months,
        right.weekdays,
        right.follows_real_time,
    )


@pytest.mark.parametrize(
    ("expr", "want_quoted", "want_remedy"),
    [
        ("0 0 * *", "'0 0 * *' has 4 of five", "minute, hour, day of month, month and day of week"),
        ("0 0 1 1 * 2026", "'2026'", "seconds, years and commands"),
        ("0 0 * * * # nightly", "'# nightly'", "remove the comment"),
        ("1 , 2 * * * *", "'1 , 2 * * * *' contains a blank", "lists without blanks"),
        ("0\u00a00 * * *", r"'\xa0' (U+00A0)", "type it again"),
        ("0 0 * * *\n0 1 * * *", r"'\n' (U+000A)", "on one line"),
        ("tz=UTC 0 0 * * *", "'tz=UTC'", "timeZone"),
        ("CRON_TZ=Europe/Berlin 0 0 * * *", "'CRON_TZ=Europe/Berlin'", "timeZone"),
        ("@every 5m", "'@every 5m'", "*/5 * * * *"),
        ("@reboot", "'@reboot'", "by hand"),
        ("@fortnightly", "'@fortnightly'", "@hourly"),
        ("@", "'@'", "@hourly"),
        ("1,,2 * * * *", "'1,,2'", "extra comma"),
        ("*/0 * * * *", "'*/0' in the minute field is zero", "1 to 60"),
        ("*/90 * * * *", "'*/90'", "several schedules"),
        ("*/x * * * *", "'x' in '*/x'", "after the slash"),
        ("5/ * * * *", "nothing follows the slash in '5/'", "after the slash"),
        ("1/2/3 * * * *", "'2/3' in '1/2/3'", "after the slash"),
        ("H/15 * * * *", "'H'", "spread"),
        ("* h(0-7) * * *", "'h(0-7)'", "spread"),
        ("R * * * *", "'R'", "spread"),
        ("60 * * * *", "'60' in the minute field", "0 to 59"),
        ("0 0 0 * *", "'0' in the day-of-month field", "1 to 31"),
        ("0 0 1 13 *", "'13' in the month field", "1 to 12"),
        ("0 0 1 January *", "'January'", "three-letter name from jan to dec"),
        ("0 0 * * Wednesday", "'Wednesday'", "three-letter name from sun to sat"),
        ("0 0 * * 1-x", "'1-x'", "0 to 7"),
        ("0 0 * * FRI-MON", "'FRI-MON'", "write 5-6,0-1"),
        ("0 0 * * 5-0", "'5-0'", "write 5-7"),
        ("0 22-2 * * *", "'22-2'", "write 22-23,0-2"),
        ("0 0 * * 7/2", "from 7", "write 0"),
        ("? * * * *", "'?'", "day fields only"),
        ("0 0 ?/2 * *", "'?'", "? stands alone"),
        ("0 0 L-3 * *", "'L-3'", "L for the last day"),
        ("0 0 32W * *", "'32W'", "15W"),
        ("0 0 0w * *", "'0w'", "15W"),
        ("0 0 1-5W * *", "'1-5W'", "15W"),
        ("0 0 L/2 * *", "'L'", "L for the last day"),
        ("0 0 * * L", "'L'", "5L for the last Friday"),
        ("0 0 * * FRIL", "'FRIL'", "5L for the last Friday"),
        ("0 0 * * mon#2", "'mon#2'", "1#2 for the second Monday"),
        ("0 0 * * 1#6", "'1#6'", "1 to 5"),
        ("0 L * * *", "'L'", "day fields only"),
        ("0 0 * 5L *", "'5L'", "day fields only"),
    ],
)
def test_a_refusal_quotes_the_offending_part_and_says_what_to_write(
    expr: str, want_quoted: str, want_remedy: str
) -> None:
    problem = refused(expr)
    assert want_quoted in problem.fact
    assert want_remedy in problem.remedy


def test_an_expression_may_have_256_characters_and_no_more() -> None:
    longest = "0,1" + ",1" * 122 + " * * * *"
    assert len(longest) < CRON_LENGTH_MAX
    accepted(longest.ljust(CRON_LENGTH_MAX))
    problem = refused(longest.ljust(CRON_LENGTH_MAX + 1))
    assert "257 characters" in problem.fact
    assert len(problem.fact) < 100


@given(st.text(max_size=300))
def test_no_text_raises(text: str) -> None:
    assert isinstance(parse_cron(text), Cron | Problem)


@given(st.lists(st.text(alphabet="0123456789*/-,?LWlw#H@suntejab", min_size=1, max_size=9), min_size=5, max_size=5))
def test_no_five_fields_raise_and_what_is_accepted_has_values_in_range(parts: list[str]) -> None:
    cron = parse_cron(" ".join(parts))
    if isinstance(cron, Problem):
        assert cron.fact
        assert cron.remedy
        return
    assert numbers(cron.minutes) <= set(range(60))
    assert cron.minutes
    assert numbers(cron.hours) <= set(range(24))
    assert cron.hours
    assert numbers(cron.months) <= set(range(1, 13))
    assert cron.months
    assert numbers(cron.days.values) <= set(range(1, 32))
    assert cron.days.values or cron.days.specials
    assert numbers(cron.weekdays.values) <= set(range(7))
    assert cron.weekdays.values or cron.weekdays.specials
