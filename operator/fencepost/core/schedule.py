"""A schedule ready to be asked: cron expressions in a zone, single times, the spread and the bounds, in one.

The trick of `spread`: slots are looked for as they are written, and moved by one fixed number of seconds afterwards. So
a slot *is* the moved time: it is what the run is named by, what the mark holds and what `$(run.scheduledTime)` says,
and bounds and deadlines are compared with it. Clock changes are decided before it is moved.

Slots are whole Unix seconds. Two that meet, of whatever expressions, are one.
"""

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from fencepost.core.cron import Cron
from fencepost.core.schedule_spec import ScheduleSpec
from fencepost.core.zone_changes import (
    CALENDAR_END_S,
    CALENDAR_START_S,
    PREVIEW_COUNT_MAX,
    ClockChange,
    moment,
    unix_s,
    upcoming_changes,
)
from fencepost.core.zones import Effect, effect_of, latest_of, next_of

_NO_MATTER = frozenset({Effect.NONE, Effect.REAL_TIME})


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a DAG's runs are due."""

    spec: ScheduleSpec
    crons: tuple[Cron, ...]
    zone: ZoneInfo
    at: tuple[int, ...] = ()
    """Single times, not moved yet, in order and without doubles."""

    def __bool__(self) -> bool:
        """Whether there is anything to follow; without it runs are made by hand only."""
        return bool(self.crons or self.at)

    @property
    def ends(self) -> bool:
        """Whether it is over one day: it holds single times only, or says when it ends."""
        return bool(self) and (not self.crons or self.spec.not_after_s is not None)

    @property
    def summary(self) -> str:
        """Its first expression or time, and how many more there are, as `kubectl get` shows it."""
        texts = [cron.text for cron in self.crons] or [f"at {_moment(self.at[0]):%Y-%m-%dT%H:%M:%SZ}"]
        more = len(self.crons) + len(self.at) - 1
        return texts[0] + (f" (+{more})" if more else "")

    def next_slot(self, after_s: float) -> float | None:
        """The first slot strictly after a moment; None if there is none."""
        spec = self.spec
        after = math.floor(after_s)
        if spec.not_before_s is not None:
            after = max(after, spec.not_before_s - 1)
        after -= spec.offset_s
        found = next_of(self.crons, self.zone, _moment(after), spec.gap, spec.overlap) if self.crons else None
        place = bisect_right(self.at, after)
        candidates = [] if found is None else [unix_s(found)]
        slot_s = min([*candidates, *self.at[place : place + 1]], default=None)
        if slot_s is None or (spec.not_after_s is not None and slot_s + spec.offset_s > spec.not_after_s):
            return None
        return slot_s + spec.offset_s

    def latest_slot(self, at_or_before_s: float, after_s: float) -> float | None:
        """The last slot t with after_s < t <= at_or_before_s; found backwards, however far the two lie apart."""
        spec = self.spec
        last, after = math.floor(at_or_before_s), math.floor(after_s)
        if spec.not_after_s is not None:
            last = min(last, spec.not_after_s)
        if spec.not_before_s is not None:
            after = max(after, spec.not_before_s - 1)
        last, after = last - spec.offset_s, after - spec.offset_s
        found = None
        if self.crons and after < last:
            found = latest_of(self.crons, self.zone, _moment(last), _moment(after), spec.gap, spec.overlap)
        candidates = [] if found is None else [unix_s(found)]
        slot_s = max(
            [*candidates, *self.at[bisect_right(self.at, after) : bisect_left(self.at, last + 1)]], default=None
        )
        return None if slot_s is None else slot_s + spec.offset_s

    def next_slots(self, after_s: float, count: int) -> list[float]:
        """The first slots after a moment, at most so many."""
        slots: list[float] = []
        while len(slots) < count and (slot_s := self.next_slot(slots[-1] if slots else after_s)) is not None:
            slots.append(slot_s)
        return slots

    def changes(self, after_s: float, count: int) -> list[tuple[ClockChange, Effect]]:
        """The next clock changes that leave out slots or let them come twice, each with what becomes of those."""
        spec = self.spec
        found: list[tuple[ClockChange, Effect]] = []
        for change in upcoming_changes(self.zone, _moment(math.floor(after_s)), PREVIEW_COUNT_MAX):
            effects = (effect_of(cron, change, spec.gap, spec.overlap) for cron in self.crons)
            effect = next((effect for effect in effects if effect not in _NO_MATTER), None)
            ended = spec.not_after_s is not None and change.at_s > spec.not_after_s
            if effect is not None and not ended and len(found) < count:
                found.append((change, effect))
        return found


def _moment(at_s: int) -> datetime:
    return moment(min(max(at_s, CALENDAR_START_S - 1), CALENDAR_END_S))
