"""Cron expressions: five fields, read strictly.

Three rules that differ between schedulers, and what holds here:

- *Day of month and day of week both given* mean OR, as in Kubernetes: `0 0 13 * 5` is every 13th and every Friday. A
  day field is "not given" if an item of it is `*`, `?` or `*/1`. `*/2` is given, so `0 0 */5 * 1` is OR as well; Vixie
  cron and its heirs look at the leading star only and take AND there. `L`, `W` and `#` follow the same OR.
- *Fixed or real time.* A schedule whose minute or hour field has an item over the whole field, with whatever step
  (`*`, `*/15`, `0/15`, `0-23`), follows real time when clocks change. Any other has fixed times, to which the gap and
  overlap rules apply. Debian's cron looks for a leading star; the spelling should not decide, so `0-23` is `*`.
- *`a/n`* runs to the field's end, which is Saturday for days of the week.

The fields' grammar stands in `cron_fields.py`; on which wall times an expression matches, in `cron_walls.py`; how wall
times become moments, in `zones.py`. Not promised: that an expression ever fires. `0 0 30 2 *` is fine, and means never.
"""

from dataclasses import dataclass
from enum import StrEnum

from fencepost.core.cron_fields import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    REASON,
    WEEKDAY,
    Field,
    parse_field,
    quote,
)
from fencepost.core.problems import Problem

CRON_LENGTH_MAX = 256
_BLANKS = " \t\r\n"

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MACRO_REMEDIES = {
    "@reboot": "a cluster has no boot: write a time, or leave the schedule out and start runs by hand",
    "@once": "write `at` with a time instead of `cron`, or leave the schedule out and start the run by hand",
    "@every": "write a step, such as */5 * * * * for every five minutes",
}


class Gap(StrEnum):
    """What becomes of a fixed-time slot in the hour that is left out when clocks go forward."""

    RUN_AFTER = "RunAfter"
    """It fires at the first minute after the gap; several slots in one gap fire once."""
    SKIP = "Skip"
    """It does not fire."""


class Overlap(StrEnum):
    """What becomes of a fixed-time slot in the hour that comes twice when clocks go back."""

    FIRST = "First"
    """It fires on the first pass only."""
    SECOND = "Second"
    """It fires on the second pass only."""
    BOTH = "Both"
    """It fires twice."""


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed expression. Sets are integers: bit n says that n matches."""

    text: str
    """As the user wrote it."""
    minutes: int
    hours: int
    days: Field
    months: int
    weekdays: Field
    """Sunday is 0."""
    follows_real_time: bool
    """Minutes or hours run over the whole field: the gap and overlap rules do not apply."""

    def __str__(self) -> str:
        return self.text


def parse_cron(text: str) -> Cron | Problem:
    """The expression, or the first thing that is wrong with it; the caller adds the path."""
    if len(text) > CRON_LENGTH_MAX:
        fact = f"the expression {quote(text)} has {len(text)} characters"
        return _refuse(fact, f"write at most {CRON_LENGTH_MAX}, or several schedules")
    body = text.strip(_BLANKS)
    problem = _refuse_shape(body)
    if problem is not None:
        return problem
    expanded = _MACROS.get(body.lower(), body)
    if expanded.startswith("@"):
        return _refuse_macro(body)
    parts = expanded.split()
    if len(parts) != 5:
        return _refuse_count(body, parts)
    fields: list[Field] = []
    for spec, part in zip((MINUTE, HOUR, DAY, MONTH, WEEKDAY), parts, strict=True):
        field = parse_field(spec, part)
        if isinstance(field, Problem):
            return field
        fields.append(field)
    minute, hour, day, month, weekday = fields
    real_time = minute.spans_all or hour.spans_all
    return Cron(text, minute.values, hour.values, day, month.values, weekday, real_time)


def _refuse_shape(body: str) -> Problem | None:
    if not body:
        return _refuse("the expression is blank", "write five fields, or leave the schedule out")
    for character in body:
        if not (character == "\t" or " " <= character <= "~"):
            fact = f"the character {quote(character)} (U+{ord(character):04X}) in {quote(body)} is not plain ASCII"
            return _refuse(fact, "type it again with plain digits, letters and blanks, on one line")
    if body.upper().startswith(("TZ=", "CRON_TZ=")):
        fact = f"{quote(body.split(maxsplit=1)[0])} sets a time zone inside the expression"
        return _refuse(fact, "remove it and set the schedule's timeZone")
    return None


def _refuse_macro(body: str) -> Problem:
    known = "write five fields, or one of " + ", ".join(_MACROS)
    remedy = _MACRO_REMEDIES.get(body.lower().split(maxsplit=1)[0], known)
    return _refuse(f"{quote(body)} is not supported", remedy)


def _refuse_count(body: str, parts: list[str]) -> Problem:
    if len(parts) < 5:
        fact = f"{quote(body)} has {len(parts)} of five fields"
        return _refuse(fact, "write minute, hour, day of month, month and day of week")
    if any(part.startswith(",") or part.endswith(",") for part in parts):
        return _refuse(f"a list in {quote(body)} contains a blank", "write lists without blanks, such as 1,2")
    extra = " ".join(parts[5:])
    fact = f"the expression has {len(parts)} fields where five are meant, {quote(extra)} being too much"
    if extra.startswith("#"):
        return _refuse(fact, "remove the comment")
    remedy = "write minute, hour, day of month, month and day of week; seconds, years and commands are not supported"
    return _refuse(fact, remedy)


def _refuse(fact: str, remedy: str) -> Problem:
    return Problem(REASON, "", fact, remedy)
