"""When a schedule fires, found the slow way: look at every minute of real time.

Shares no code and no idea with `fencepost.core`: fields are sets, days are looked at one by one, and what clocks did is
read off a table of (real minute, wall minute). Knows no bad input.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from fencepost.core.cron import Gap, Overlap

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
MARGIN = timedelta(hours=25)
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def values(text: str, low: int, high: int, names: list[str]) -> set[int]:
    """The plain numbers of a field; `L`, `W` and `#` are left out."""
    found: set[int] = set()
    for item in text.lower().split(","):
        base, _, step = item.partition("/")
        for number, name in enumerate(names):
            base = base.replace(name, str(number + low))
        if base in ("*", "?"):
            first, last = low, high
        elif "-" in base:
            first, last = (int(part) for part in base.split("-"))
            last = 7 if (names is _WEEKDAYS and last == 0 and first > 0) else last
        elif base.isdigit():
            first, last = int(base), high if step else int(base)
        else:
            continue
        found |= set(range(first, last + 1, int(step or 1)))
    return {0 if names is _WEEKDAYS and number == 7 else number for number in found}


def weekday(wall: datetime) -> int:
    return wall.isoweekday() % 7


def is_workday(wall: datetime) -> bool:
    return wall.isoweekday() <= 5


@dataclass(frozen=True)
class Oracle:
    """One expression, in five plain fields."""

    text: str

    @property
    def parts(self) -> list[str]:
        return self.text.lower().split()

    @property
    def is_fixed(self) -> bool:
        """No item of minute or hour runs over the whole field."""
        for part, (low, high) in zip(self.parts[:2], _BOUNDS, strict=False):
            if any(
                item.split("/")[0] in ("*", f"{low}-{high}") or item.startswith(f"{low}/") for item in part.split(",")
            ):
                return False
        return True

    def matches(self, wall: datetime) -> bool:
        minutes, hours, months = _plain(self.text)
        return wall.minute in minutes and wall.hour in hours and wall.month in months and self.matches_day(wall.date())

    @lru_cache(maxsize=100_000)  # noqa: B019
    def matches_day(self, day: object) -> bool:
        wall = datetime.fromisoformat(str(day))
        day_text, weekday_text = self.parts[2], self.parts[4]
        day_open = any(item in ("*", "?", "*/1") for item in day_text.split(","))
        weekday_open = any(item in ("*", "?", "*/1") for item in weekday_text.split(","))
        day_hit = wall.day in values(day_text, 1, 31, []) or any(_is_day(item, wall) for item in day_text.split(","))
        weekday_hit = weekday(wall) in values(weekday_text, 0, 6, _WEEKDAYS) or any(
            _is_weekday(item, wall) for item in weekday_text.split(",")
        )
        if day_open or weekday_open:
            return (day_open or day_hit) and (weekday_open or weekday_hit)
        return day_hit or weekday_hit


@lru_cache(maxsize=1000)
def _plain(text: str) -> tuple[set[int], set[int], set[int]]:
    minute, hour, _, month, _ = text.lower().split()
    return values(minute, 0, 59, []), values(hour, 0, 23, []), values(month, 1, 12, _MONTHS)


def _is_day(item: str, wall: datetime) -> bool:
    month = [wall.replace(day=1) + DAY * n for n in range(31)]
    month = [day for day in month if day.month == wall.month]
    if item == "l":
        return wall.day == len(month)
    if item == "lw":
        return wall.day == max(day.day for day in month if is_workday(day))
    if item.endswith("w"):
        meant = int(item[:-1])
        if meant > len(month):
            return False
        return wall.day == min((abs(day.day - meant), day.day) for day in month if is_workday(day))[1]
    return False


def _is_weekday(item: str, wall: datetime) -> bool:
    if item.endswith("l"):
        return weekday(wall) == int(item[:-1]) % 7 and (wall + 7 * DAY).month != wall.month
    if "#" in item:
        number, nth = item.split("#")
        return weekday(wall) == int(number) % 7 and (wall.day - 1) // 7 + 1 == int(nth)
    return False


def minute_table(zone: ZoneInfo, start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """(real minute, what the clock on the wall shows) from a margin before start to a margin after end."""
    table = []
    at = start.replace(second=0, microsecond=0) - MARGIN
    while at <= end + MARGIN:
        table.append((at, at.astimezone(zone).replace(tzinfo=None)))
        at += MINUTE
    return table


def fires(
    oracle: Oracle,
    table: list[tuple[datetime, datetime]],
    start: datetime,
    end: datetime,
    policies: Iterable[tuple[Gap, Overlap]],
) -> dict[tuple[Gap, Overlap], list[datetime]]:
    """All firings with start < t <= end, for each policy, from a table that reaches a margin beyond both."""
    matching = [(index, at) for index, (at, wall) in enumerate(table) if oracle.matches(wall)]
    first = {wall: index for index, (_, wall) in reversed(list(enumerate(table)))}
    last = {wall: index for index, (_, wall) in enumerate(table)}
    made_up = set()
    for (_, before), (at, wall) in pairwise(table):
        missing = (wall - before) // MINUTE - 1
        if 0 < missing < 180 and any(oracle.matches(before + MINUTE * n) for n in range(1, missing + 1)):
            made_up.add(at)
    found = {}
    for gap, overlap in policies:
        kept = {
            at
            for index, at in matching
            if not oracle.is_fixed
            or overlap is Overlap.BOTH
            or (first if overlap is Overlap.FIRST else last)[table[index][1]] == index
        }
        if oracle.is_fixed and gap is Gap.RUN_AFTER:
            kept |= made_up
        found[gap, overlap] = sorted(at for at in kept if start < at <= end)
    return found
