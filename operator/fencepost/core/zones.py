"""When an expression fires in a zone: wall times laid onto real time, across clock changes.

The trick: real time falls into spans with one offset each. Inside a span wall time and real time differ by a constant,
so firing is a search among wall minutes (`cron_walls.py`), and every rule about clock changes only narrows the part of
a span's wall clock that is searched, or adds one time at its start:

| clocks | rule | fixed times | minutes or hours that follow real time |
|---|---|---|---|
| go forward | RunAfter | what the gap swallows fires once, at the first minute after it | nothing is made up |
| | Skip | it does not fire | the same |
| go back | First | a wall time that comes twice counts in the earlier span | counts in both |
| | Second | it counts in the later span | |
| | Both | it counts in both | |

So a schedule that follows real time is one under (Skip, Both), whatever its `dst` says.
A gap of three hours and more is a correction of the calendar and nothing is made up after it, as cron(8) has it: when
Apia skipped 30 December 2011, a yearly job of that day did not run on the 31st, and a daily job ran there once.
A wall time that comes twice is one slot however long ago it came first, so a daily job stays daily.

Both directions take windows of three days and, where a window is empty, leap to the next one that can hold anything.
The search ends after SEARCH_YEARS: the rarest expressions (a fifth weekday in February) wait for 40 years, and one
whose every time is swallowed by a gap under Skip never fires at all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from zoneinfo import ZoneInfo

from fencepost.core.cron import Cron, Gap, Overlap
from fencepost.core.cron_walls import first_wall, last_wall
from fencepost.core.zone_changes import (
    CALENDAR_END_S,
    CALENDAR_START_S,
    ClockChange,
    changes_between,
    moment,
    offset_at,
    unix_s,
)

SEARCH_YEARS = 50
_SEARCH_S = SEARCH_YEARS * 366 * 86400
_WINDOW_S = 3 * 86400
_LOOK_S = 26 * 3600
"""More than any offset and any change of one: how far a wall time's number and its moment can lie apart."""
GAP_MADE_UP_BELOW_S = 3 * 3600
_MINUTE_S = 60


class Effect(StrEnum):
    """What one clock change does to one schedule."""

    NONE = "None"
    """No slot lies in what is left out or comes twice."""
    REAL_TIME = "RealTime"
    """Its slots follow real time: none made up, none left out."""
    RUN_AFTER = "RunAfter"
    """The slots that are left out fire once, at the first minute after the gap."""
    SKIPPED = "Skipped"
    """The slots that are left out do not fire: the rule says so, or the gap is three hours and more."""
    FIRST = "First"
    """The slots that come twice fire on the first pass."""
    SECOND = "Second"
    """The slots that come twice fire on the second pass."""
    BOTH = "Both"
    """The slots that come twice fire twice."""


@dataclass(frozen=True, slots=True)
class _Span:
    """A stretch of real time with one offset, and the part of its wall clock whose slots count."""

    start_s: int
    end_s: int
    offset_s: int
    wall_start_s: int
    wall_end_s: int
    gap_start_s: int | None
    """The wall time at which the gap before this span begins, if what it swallowed is made up."""


def next_time(
    cron: Cron,
    zone: ZoneInfo,
    after: datetime,
    gap: Gap = Gap.RUN_AFTER,
    overlap: Overlap = Overlap.FIRST,
) -> datetime | None:
    """The first firing strictly after an aware time, in UTC; None if there is none within SEARCH_YEARS."""
    start_s = max(unix_s(after) + 1, CALENDAR_START_S)
    limit_s = min(start_s + _SEARCH_S, CALENDAR_END_S)
    while start_s < limit_s:
        end_s = start_s + _WINDOW_S
        for span in _spans(cron, zone, start_s, end_s, gap, overlap):
            fire_s = _first_in(span, cron, start_s, end_s)
            if fire_s is not None:
                return moment(fire_s)
        wall = first_wall(cron, (end_s - _LOOK_S) // _MINUTE_S, (limit_s + _LOOK_S) // _MINUTE_S)
        if wall is None:
            return None
        start_s = max(end_s, wall * _MINUTE_S - _LOOK_S)
    return None


def latest_time(
    cron: Cron,
    zone: ZoneInfo,
    at_or_before: datetime,
    not_before: datetime,
    gap: Gap = Gap.RUN_AFTER,
    overlap: Overlap = Overlap.FIRST,
) -> datetime | None:
    """The last firing t with not_before < t <= at_or_before, in UTC; found backwards, however long the outage."""
    end_s = min(unix_s(at_or_before) + 1, CALENDAR_END_S)
    limit_s = max(unix_s(not_before) + 1, end_s - _SEARCH_S, CALENDAR_START_S)
    while end_s > limit_s:
        start_s = max(end_s - _WINDOW_S, limit_s)
        for span in reversed(list(_spans(cron, zone, start_s, end_s, gap, overlap))):
            fire_s = _last_in(span, cron, start_s, end_s)
            if fire_s is not None:
                return moment(fire_s)
        wall = last_wall(cron, (limit_s - _LOOK_S) // _MINUTE_S, (start_s + _LOOK_S) // _MINUTE_S)
        if wall is None:
            return None
        end_s = min(start_s, wall * _MINUTE_S + _LOOK_S)
    return None


def next_of(
    crons: Sequence[Cron],
    zone: ZoneInfo,
    after: datetime,
    gap: Gap = Gap.RUN_AFTER,
    overlap: Overlap = Overlap.FIRST,
) -> datetime | None:
    """The first firing of any of them; two that meet are one."""
    found = (next_time(cron, zone, after, gap, overlap) for cron in crons)
    return min((fire for fire in found if fire is not None), default=None)


def latest_of(
    crons: Sequence[Cron],
    zone: ZoneInfo,
    at_or_before: datetime,
    not_before: datetime,
    gap: Gap = Gap.RUN_AFTER,
    overlap: Overlap = Overlap.FIRST,
) -> datetime | None:
    """The last firing of any of them, as `latest_time` has it."""
    found = (latest_time(cron, zone, at_or_before, not_before, gap, overlap) for cron in crons)
    return max((fire for fire in found if fire is not None), default=None)


def effect_of(cron: Cron, change: ClockChange, gap: Gap = Gap.RUN_AFTER, overlap: Overlap = Overlap.FIRST) -> Effect:
    """What a clock change does to a schedule, for previews."""
    walls_s = sorted((change.at_s + change.before_s, change.at_s + change.after_s))
    if first_wall(cron, *(_minute_from(wall_s) for wall_s in walls_s)) is None:
        return Effect.NONE
    if cron.follows_real_time:
        return Effect.REAL_TIME
    if change.size_s < 0:
        return Effect(overlap.value)
    return Effect.RUN_AFTER if _is_made_up(change, gap) else Effect.SKIPPED


def _spans(cron: Cron, zone: ZoneInfo, start_s: int, end_s: int, gap: Gap, overlap: Overlap) -> Iterator[_Span]:
    """The spans that meet start_s <= t < end_s, in order, each as far as it matters."""
    if cron.follows_real_time:
        gap, overlap = Gap.SKIP, Overlap.BOTH
    changes = changes_between(zone, start_s - _LOOK_S, end_s + _LOOK_S)
    entries: list[ClockChange | None] = [None, *changes]
    exits: list[ClockChange | None] = [*changes, None]
    for entry, exit_ in zip(entries, exits, strict=True):
        span_start_s = entry.at_s if entry is not None else start_s - _LOOK_S
        span_end_s = exit_.at_s if exit_ is not None else end_s + _LOOK_S
        if span_end_s <= start_s or span_start_s >= end_s:
            continue
        offset_s = entry.after_s if entry is not None else offset_at(zone, span_start_s)
        wall_start_s, wall_end_s, gap_start_s = span_start_s + offset_s, span_end_s + offset_s, None
        if entry is not None and overlap is Overlap.FIRST:
            wall_start_s = span_start_s + max(entry.before_s, entry.after_s)
        if exit_ is not None and overlap is Overlap.SECOND:
            wall_end_s = span_end_s + min(exit_.before_s, exit_.after_s)
        if entry is not None and _is_made_up(entry, gap):
            gap_start_s = span_start_s + entry.before_s
        yield _Span(span_start_s, span_end_s, offset_s, wall_start_s, wall_end_s, gap_start_s)


def _is_made_up(change: ClockChange, gap: Gap) -> bool:
    return gap is Gap.RUN_AFTER and 0 < change.size_s < GAP_MADE_UP_BELOW_S


def _first_in(span: _Span, cron: Cron, start_s: int, end_s: int) -> int | None:
    """The first firing in a span with start_s <= t < end_s; what is made up comes before all others."""
    made_up_s = _made_up(span, cron)
    if made_up_s is not None and start_s <= made_up_s < end_s:
        return made_up_s
    wall = first_wall(cron, *_walls(span, start_s, end_s))
    return None if wall is None else wall * _MINUTE_S - span.offset_s


def _last_in(span: _Span, cron: Cron, start_s: int, end_s: int) -> int | None:
    """The last firing in a span with start_s <= t < end_s; what is made up comes before all others."""
    wall = last_wall(cron, *_walls(span, start_s, end_s))
    if wall is not None:
        return wall * _MINUTE_S - span.offset_s
    made_up_s = _made_up(span, cron)
    return made_up_s if made_up_s is not None and start_s <= made_up_s < end_s else None


def _walls(span: _Span, start_s: int, end_s: int) -> tuple[int, int]:
    """The wall minutes of a span that count, from the first to before the second, cut to start_s <= t < end_s."""
    first_s = max(span.wall_start_s, start_s + span.offset_s)
    last_s = min(span.wall_end_s, end_s + span.offset_s)
    return _minute_from(first_s), _minute_from(last_s)


def _made_up(span: _Span, cron: Cron) -> int | None:
    """The first minute of a span, if it stands for slots that the gap before it swallowed."""
    if span.gap_start_s is None:
        return None
    gap_end_s = span.start_s + span.offset_s
    if first_wall(cron, _minute_from(span.gap_start_s), _minute_from(gap_end_s)) is None:
        return None
    return _minute_from(gap_end_s) * _MINUTE_S - span.offset_s


def _minute_from(wall_s: int) -> int:
    """The first whole minute at or after a wall time in seconds."""
    return -(-wall_s // _MINUTE_S)
