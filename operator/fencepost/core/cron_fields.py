"""One field of a cron expression: text in, a set of numbers out.

The trick: a set of small numbers is an integer whose bit n says that n is in it. Then "the next hour that matches" is
a shift, and forwards and backwards cost the same.

The grammar, in any case, a list being a union:

    item  = "*" | value | value "-" value, each with "/" step   anywhere; "a/n" runs to the field's end (Saturday)
          | "?"                                                 day fields: the same as "*"
          | "L" | "LW" | n "W"                                  day of month: the last day, the last working day
                                                                (Monday to Friday), the one nearest to n in its month
          | n "L" | n "#" k                                     day of week: the last n of the month, its k-th n

`nW` in a month that has no day n is no day at all, as a plain 31 is. `5-5` is one value, and a range may end in Sunday
as `7` or `sun`. Refused, as guessing would be silently wrong for somebody: ranges that run backwards, steps of zero or
longer than the field (`*/90` minutes would be hourly), `L-3`, a bare `L` in the day of week, names with `L` or `#`,
and `H` and `R`, for which each replica would need the same dice.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fencepost.core.problems import Problem

REASON = "InvalidCron"
_QUOTED_LENGTH_MAX = 40

_NUMBER = re.compile(r"[0-9]+")
_NEAREST_WORKDAY = re.compile(r"([0-9]{1,2})w")
_LAST_WEEKDAY = re.compile(r"([0-7])l")
_NTH_WEEKDAY = re.compile(r"([0-7])#([1-5])")
_DICE = re.compile(r"[hr]([^a-z].*)?")
_LIKE_SPECIAL = re.compile(r".*#.*|(.*[^a-z])?(l|w|lw|wl)([^a-z].*)?|[a-z]{3}l")


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """What one of the five fields may hold."""

    label: str
    lowest: int
    highest: int
    written_highest: int
    """7 for days of the week, where 7 is Sunday as well; else the same as `highest`."""
    names: tuple[str, ...] = ()
    """Three-letter names in order, the first standing for `lowest`."""

    @property
    def size(self) -> int:
        """How many values the field has."""
        return self.highest - self.lowest + 1


_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

MINUTE = FieldSpec("minute", 0, 59, 59)
HOUR = FieldSpec("hour", 0, 23, 23)
DAY = FieldSpec("day-of-month", 1, 31, 31)
MONTH = FieldSpec("month", 1, 12, 12, _MONTH_NAMES)
WEEKDAY = FieldSpec("day-of-week", 0, 6, 7, _WEEKDAY_NAMES)


class SpecialKind(StrEnum):
    """Days that are no fixed number: which one it is depends on the month."""

    LAST_DAY = "L"
    """The last day of the month."""
    LAST_WORKDAY = "LW"
    """The last Monday to Friday of the month."""
    NEAREST_WORKDAY = "nW"
    """The Monday to Friday nearest to day n, within the same month; no day if the month has no day n."""
    LAST_WEEKDAY = "nL"
    """The last weekday n of the month."""
    NTH_WEEKDAY = "n#k"
    """The k-th weekday n of the month; no day if there are fewer."""


@dataclass(frozen=True, slots=True)
class Special:
    """One such day: `number` is the day or the weekday (Sunday is 0), `nth` the k of `n#k`."""

    kind: SpecialKind
    number: int = 0
    nth: int = 0


@dataclass(frozen=True, slots=True)
class Field:
    """A parsed field."""

    values: int
    """Bit n is set if the value n matches."""
    is_open: bool = False
    """An item is `*`, `?` or `*/1`: in a day field, "any day; let the other day field decide"."""
    spans_all: bool = False
    """An item runs over the whole field whatever its step (`*`, `*/5`, `0/5`, `0-59`): it follows real time."""
    specials: tuple[Special, ...] = ()


def parse_field(spec: FieldSpec, text: str) -> Field | Problem:
    """The union of the comma-separated items of `text`, or what is wrong with the first bad one."""
    items: list[Field] = []
    for item_text in text.split(","):
        item = _parse_item(spec, item_text, text)
        if isinstance(item, Problem):
            return item
        items.append(item)
    return _union(items)


def quote(text: str) -> str:
    """`text` as a person can see it: quoted, foreign and invisible characters escaped, cut if long."""
    shown = text if len(text) <= _QUOTED_LENGTH_MAX else text[:_QUOTED_LENGTH_MAX] + "..."
    return ascii(shown)


def _union(items: Sequence[Field]) -> Field:
    values = 0
    for item in items:
        values |= item.values
    return Field(
        values,
        is_open=any(item.is_open for item in items),
        spans_all=any(item.spans_all for item in items),
        specials=tuple(dict.fromkeys(special for item in items for special in item.specials)),
    )


def _parse_item(spec: FieldSpec, item: str, field_text: str) -> Field | Problem:
    if not item:
        return _refuse(f"the {spec.label} list {quote(field_text)} has an empty item", "remove the extra comma")
    special = _parse_special(spec, item)
    if special is not None:
        return Field(0, specials=(special,))
    if item == "?" and spec in (DAY, WEEKDAY):
        return Field(_bits(spec, spec.lowest, spec.highest, 1), is_open=True, spans_all=True)
    base, slash, step_text = item.partition("/")
    step = _parse_step(spec, item, step_text) if slash else 1
    if isinstance(step, Problem):
        return step
    bounds = _parse_bounds(spec, base, runs_on=bool(slash))
    if isinstance(bounds, Problem):
        return bounds
    first, last = bounds
    return Field(
        _bits(spec, first, last, step),
        is_open=base == "*" and step == 1,
        spans_all=first == spec.lowest and last >= spec.highest,
    )


def _parse_special(spec: FieldSpec, text: str) -> Special | None:
    item = text.lower()
    if spec is DAY:
        if item == "l":
            return Special(SpecialKind.LAST_DAY)
        if item == "lw":
            return Special(SpecialKind.LAST_WORKDAY)
        nearest = _NEAREST_WORKDAY.fullmatch(item)
        if nearest is not None and DAY.lowest <= int(nearest[1]) <= DAY.highest:
            return Special(SpecialKind.NEAREST_WORKDAY, int(nearest[1]))
    if spec is WEEKDAY:
        if (last := _LAST_WEEKDAY.fullmatch(item)) is not None:
            return Special(SpecialKind.LAST_WEEKDAY, int(last[1]) % 7)
        if (nth := _NTH_WEEKDAY.fullmatch(item)) is not None:
            return Special(SpecialKind.NTH_WEEKDAY, int(nth[1]) % 7, int(nth[2]))
    return None


def _parse_step(spec: FieldSpec, item: str, text: str) -> int | Problem:
    where = f"in {quote(item)} in the {spec.label} field"
    if not _NUMBER.fullmatch(text):
        fact = f"{quote(text)} {where} is not a step" if text else f"nothing follows the slash {where}"
        return _refuse(fact, _remedy(spec, item, f"write a whole number from 1 to {spec.size} after the slash"))
    step = int(text)
    if step == 0:
        return _refuse(f"the step {where} is zero", f"write a step from 1 to {spec.size}")
    if step > spec.size:
        return _refuse(
            f"the step {where} is longer than the field, which has {spec.size} values",
            f"write a step from 1 to {spec.size}, a list of values, or several schedules",
        )
    return step


def _parse_bounds(spec: FieldSpec, base: str, *, runs_on: bool) -> tuple[int, int] | Problem:
    """First and last value (7 for a Sunday that ends a range), where `runs_on` says that a step follows."""
    if base == "*":
        return spec.lowest, spec.highest
    first_text, dash, last_text = base.partition("-")
    first = _parse_value(spec, first_text, base)
    if isinstance(first, Problem):
        return first
    if not dash:
        return _single(spec, first, runs_on=runs_on)
    last = _parse_value(spec, last_text, base)
    if isinstance(last, Problem):
        return last
    if spec is WEEKDAY and last_text.lower() == "sun" and first > 0:
        last = 7
    if first > last:
        turned = f"{first}-7" if spec is WEEKDAY and last == 0 else _in_two(spec, first, last)
        return _refuse(f"the range {quote(base)} in the {spec.label} field runs backwards", f"write {turned}")
    return first, last


def _single(spec: FieldSpec, value: int, *, runs_on: bool) -> tuple[int, int] | Problem:
    if not runs_on:
        return value, value
    if value > spec.highest:
        return _refuse(f"the {spec.label} field steps on from {value}, its end", "write 0, the other Sunday")
    return value, spec.highest


def _in_two(spec: FieldSpec, first: int, last: int) -> str:
    return f"{first}-{spec.highest},{spec.lowest}-{last}"


def _parse_value(spec: FieldSpec, text: str, base: str) -> int | Problem:
    if text.lower() in spec.names:
        return spec.names.index(text.lower()) + spec.lowest
    allowed = f"{spec.lowest} to {spec.written_highest}"
    if _NUMBER.fullmatch(text):
        value = int(text)
        if spec.lowest <= value <= spec.written_highest:
            return value
        return _refuse(f"{quote(text)} in the {spec.label} field is outside {allowed}", f"write {allowed}")
    either = f"write {allowed}"
    if spec.names:
        either += f", or a three-letter name from {spec.names[0]} to {spec.names[-1]}"
    return _refuse(f"{quote(base)} in the {spec.label} field is not understood", _remedy(spec, base, either))


def _remedy(spec: FieldSpec, text: str, otherwise: str) -> str:
    """What somebody who wrote `text` probably wanted, else the given remedy."""
    if _DICE.fullmatch(text.lower()):
        return "write fixed times and let the schedule's spread move each DAG by a fixed offset of its own"
    if "?" in text:
        return "write * (? stands alone, and in the day fields only)"
    if _LIKE_SPECIAL.fullmatch(text.lower()):
        if spec is DAY:
            return "write L for the last day, LW for the last working day, 15W for the one nearest to the 15th"
        if spec is WEEKDAY:
            return "write numbers: 5L for the last Friday, 1#2 for the second Monday (2 may be 1 to 5)"
        return "L, W and # go into the day fields only; " + otherwise
    return otherwise


def _bits(spec: FieldSpec, first: int, last: int, step: int) -> int:
    bits = 0
    for value in range(first, last + 1, step):
        bits |= 1 << (0 if value > spec.highest else value)
    return bits


def _refuse(fact: str, remedy: str) -> Problem:
    return Problem(REASON, "", fact, remedy)
