"""When the clocks of a zone change.

`zoneinfo` tells the offset of a moment but not where the offsets change. So time is cut into stretches of two days, and
one whose ends differ is searched by bisection. That is exact as long as two changes of a zone are never within two days
of each other; in all of tzdata the nearest are four days apart (Freetown, 1939), and a test reads the installed data
for it. A change of a zone's name or its summer flag that leaves the clock alone is no change.

Moments and offsets are whole seconds: Unix seconds, and seconds east of UTC. What a stretch holds is remembered, which
nobody can see but in the time it takes: a zone object never changes its mind.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from zoneinfo import ZoneInfo

STRETCH_S = 2 * 86400
"""Shorter than the time between any two changes of one zone."""
_STRETCHES_KEPT_MAX = 8192
_QUARTER_S = 900
PREVIEW_COUNT_MAX = 10
PREVIEW_SPAN_S = 2 * 366 * 86400
"""How far ahead changes are previewed: two years hold several of a zone that changes at all."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CALENDAR_START_S = (datetime(2, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
CALENDAR_END_S = (datetime(9999, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
"""Years 2 to 9998: far enough from the ends of `datetime` that no offset and no look-around leaves it."""


@dataclass(frozen=True, slots=True)
class ClockChange:
    """From `at_s` on, the clocks of the zone show another offset."""

    at_s: int
    """Unix seconds."""
    before_s: int
    """Seconds east of UTC until then."""
    after_s: int
    """Seconds east of UTC from then on."""

    @property
    def at(self) -> datetime:
        """The moment, in UTC."""
        return moment(self.at_s)

    @property
    def size_s(self) -> int:
        """How far clocks go forward; negative if they go back."""
        return self.after_s - self.before_s

    def __str__(self) -> str:
        way = "forward" if self.size_s > 0 else "back"
        old, new = self._clock(self.before_s), self._clock(self.after_s)
        return f"{self.at:%Y-%m-%dT%H:%M:%SZ}: clocks go {way} from {old} to {new}"

    def _clock(self, offset_s: int) -> str:
        return self.at.astimezone(timezone(timedelta(seconds=offset_s))).isoformat(timespec="minutes")


def unix_s(instant: datetime) -> int:
    """Whole seconds since 1970 of an aware time, rounded down."""
    assert instant.tzinfo is not None, "times inside the core carry their offset"
    return (instant - EPOCH) // timedelta(seconds=1)


def moment(unix_seconds: int) -> datetime:
    """The aware time, in UTC."""
    return EPOCH + timedelta(seconds=unix_seconds)


def offset_at(zone: ZoneInfo, at_s: int) -> int:
    """Seconds east of UTC that the zone's clocks show at a moment."""
    offset = datetime.fromtimestamp(at_s, zone).utcoffset()
    assert offset is not None, "a ZoneInfo knows its offset"
    return offset // timedelta(seconds=1)


def changes_between(zone: ZoneInfo, start_s: int, end_s: int) -> list[ClockChange]:
    """The changes with start_s < at_s <= end_s, in order."""
    found: list[ClockChange] = []
    for stretch in range(start_s // STRETCH_S, end_s // STRETCH_S + 1):
        change = _change_in(zone, stretch)
        if change is not None and start_s < change.at_s <= end_s:
            found.append(change)
    return found


def upcoming_changes(zone: ZoneInfo, after: datetime, count: int) -> tuple[ClockChange, ...]:
    """The next changes after a moment: at most `count`, PREVIEW_COUNT_MAX, and those of the next two years."""
    assert count >= 0, "a count of changes is not negative"
    start_s = min(max(unix_s(after), CALENDAR_START_S), CALENDAR_END_S)
    end_s = min(start_s + PREVIEW_SPAN_S, CALENDAR_END_S)
    return tuple(changes_between(zone, start_s, end_s)[: min(count, PREVIEW_COUNT_MAX)])


@lru_cache(maxsize=_STRETCHES_KEPT_MAX)
def _change_in(zone: ZoneInfo, stretch: int) -> ClockChange | None:
    """The change in (start, end] of a stretch, which holds one at most; nearly all come on a quarter of an hour."""
    start_s, end_s = stretch * STRETCH_S, (stretch + 1) * STRETCH_S
    before_s, after_s = _offset_at_edge(zone, stretch), _offset_at_edge(zone, stretch + 1)
    if before_s == after_s:
        return None
    at_s = _bisect(zone, before_s, start_s, end_s, _QUARTER_S)
    if offset_at(zone, at_s - 1) != before_s:
        at_s = _bisect(zone, before_s, at_s - _QUARTER_S, at_s, 1)
    return ClockChange(at_s, before_s, after_s)


@lru_cache(maxsize=_STRETCHES_KEPT_MAX)
def _offset_at_edge(zone: ZoneInfo, stretch: int) -> int:
    return offset_at(zone, stretch * STRETCH_S)


def _bisect(zone: ZoneInfo, before_s: int, start_s: int, end_s: int, step_s: int) -> int:
    """The first moment a multiple of `step_s` after start_s, where `before_s` holds, at which it holds no longer."""
    while end_s - start_s > step_s:
        middle_s = start_s + (end_s - start_s) // step_s // 2 * step_s
        if offset_at(zone, middle_s) == before_s:
            start_s = middle_s
        else:
            end_s = middle_s
    return end_s
