"""On which minutes of a wall clock an expression matches, forwards and backwards.

Nothing here knows zones: a wall time is a count of minutes since 1970-01-01 00:00 on some clock on some wall. Days are
found month by month: the days of a month are one integer, so the next match is a shift.

Why not croniter: it reads `5-5` as the whole field, wraps backward ranges, and takes half a millisecond for
`0 3 * * *` and four for `0 0 30 2 *`; this takes microseconds, and is shorter than the guards would be. croniter serves
the tests as an oracle, where it is right.

The search is bounded by the caller's `end` and `start`; a call looks at each month between them once at most.
"""

from calendar import monthrange
from datetime import date
from typing import assert_never

from fencepost.core.cron import Cron
from fencepost.core.cron_fields import Special, SpecialKind

_MINUTES_A_DAY = 1440
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_ALL_KINDS_OF_YEAR = (date(2001, 1, 1), date(2028, 12, 31))
"""28 years without a skipped leap day hold every pair of (leap or not, weekday of 1 January)."""
_EVERY_WEEK = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28
"""A set of seven days times this is the same set in five weeks."""


def never_fires(cron: Cron) -> bool:
    """True if no day of any year matches, as for 30 February; then say so to the user."""
    first, last = (moment.toordinal() - _EPOCH_ORDINAL for moment in _ALL_KINDS_OF_YEAR)
    return _first_day(cron, first, last) is None


def first_wall(cron: Cron, start: int, end: int) -> int | None:
    """The first wall minute that matches, with start <= minute < end."""
    day, minute = divmod(start, _MINUTES_A_DAY)
    last_day = (end - 1) // _MINUTES_A_DAY
    while (found := _first_day(cron, day, last_day)) is not None:
        time = _first_time(cron, minute if found == day else 0)
        if time is not None:
            wall = found * _MINUTES_A_DAY + time
            return wall if wall < end else None
        day, minute = found + 1, 0
    return None


def last_wall(cron: Cron, start: int, end: int) -> int | None:
    """The last wall minute that matches, with start <= minute < end."""
    day, minute = divmod(end - 1, _MINUTES_A_DAY)
    first_day = start // _MINUTES_A_DAY
    while (found := _last_day(cron, first_day, day)) is not None:
        time = _last_time(cron, minute if found == day else _MINUTES_A_DAY - 1)
        if time is not None:
            wall = found * _MINUTES_A_DAY + time
            return wall if wall >= start else None
        day, minute = found - 1, _MINUTES_A_DAY - 1
    return None


def _first_day(cron: Cron, day: int, last_day: int) -> int | None:
    """The first day that matches, with day <= result <= last_day, in days since 1970."""
    if day > last_day:
        return None
    start, last = date.fromordinal(day + _EPOCH_ORDINAL), date.fromordinal(last_day + _EPOCH_ORDINAL)
    year, month, not_before = start.year, start.month, start.day
    while (year, month) <= (last.year, last.month):
        if cron.months >> month & 1:
            number = _bit_from(_days_of_month(cron, year, month), not_before)
            if number is not None:
                found = date(year, month, number).toordinal() - _EPOCH_ORDINAL
                return found if found <= last_day else None
        year, month, not_before = (year, month + 1, 1) if month < 12 else (year + 1, 1, 1)
    return None


def _last_day(cron: Cron, first_day: int, day: int) -> int | None:
    """The last day that matches, with first_day <= result <= day, in days since 1970."""
    if day < first_day:
        return None
    start, first = date.fromordinal(day + _EPOCH_ORDINAL), date.fromordinal(first_day + _EPOCH_ORDINAL)
    year, month, not_after = start.year, start.month, start.day
    while (year, month) >= (first.year, first.month):
        if cron.months >> month & 1:
            number = _bit_to(_days_of_month(cron, year, month), not_after)
            if number is not None:
                found = date(year, month, number).toordinal() - _EPOCH_ORDINAL
                return found if found >= first_day else None
        year, month, not_after = (year, month - 1, 31) if month > 1 else (year - 1, 12, 31)
    return None


def _first_time(cron: Cron, minute: int) -> int | None:
    """The first matching minute of a day, at or after `minute`."""
    hour, rest = divmod(minute, 60)
    found = _bit_from(cron.minutes, rest) if cron.hours >> hour & 1 else None
    if found is None:
        later = _bit_from(cron.hours, hour + 1)
        if later is None:
            return None
        hour, found = later, _lowest(cron.minutes)
    return hour * 60 + found


def _last_time(cron: Cron, minute: int) -> int | None:
    """The last matching minute of a day, at or before `minute`."""
    hour, rest = divmod(minute, 60)
    found = _bit_to(cron.minutes, rest) if cron.hours >> hour & 1 else None
    if found is None:
        earlier = _bit_to(cron.hours, hour - 1)
        if earlier is None:
            return None
        hour, found = earlier, cron.minutes.bit_length() - 1
    return hour * 60 + found


def _days_of_month(cron: Cron, year: int, month: int) -> int:
    """The days of one month on which the two day fields match: bit n for day n. The month field is not looked at."""
    monday_first, length = monthrange(year, month)
    first_weekday = (monday_first + 1) % 7
    every_day = (2 << length) - 2
    if cron.days.is_open and cron.weekdays.is_open:
        return every_day
    days = 0
    if not cron.days.is_open:
        days |= cron.days.values
        for special in cron.days.specials:
            days |= 1 << _special_day(special, first_weekday, length)
    if not cron.weekdays.is_open:
        week = cron.weekdays.values
        from_first = (week >> first_weekday) | (week << (7 - first_weekday) & 0b1111111)
        days |= (from_first * _EVERY_WEEK) << 1
        for special in cron.weekdays.specials:
            days |= 1 << _special_day(special, first_weekday, length)
    return days & every_day


def _special_day(special: Special, first_weekday: int, length: int) -> int:
    """Which day of a month it is; 0 if the month has none."""
    match special.kind:
        case SpecialKind.LAST_DAY:
            return length
        case SpecialKind.LAST_WORKDAY:
            return _nearest_workday(length, first_weekday, length)
        case SpecialKind.NEAREST_WORKDAY:
            return _nearest_workday(special.number, first_weekday, length)
        case SpecialKind.LAST_WEEKDAY:
            last_weekday = (first_weekday + length - 1) % 7
            return length - (last_weekday - special.number) % 7
        case SpecialKind.NTH_WEEKDAY:
            day = 1 + (special.number - first_weekday) % 7 + 7 * (special.nth - 1)
            return day if day <= length else 0
        case _ as never:
            assert_never(never)


def _nearest_workday(day: int, first_weekday: int, length: int) -> int:
    if day > length:
        return 0
    weekday = (first_weekday + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _bit_from(bits: int, number: int) -> int | None:
    """The lowest set bit at or above `number`."""
    rest = bits >> number << number
    return _lowest(rest) if rest else None


def _bit_to(bits: int, number: int) -> int | None:
    """The highest set bit at or below `number`, which may be -1."""
    rest = bits & ((2 << number) - 1 if number >= 0 else 0)
    return rest.bit_length() - 1 if rest else None
