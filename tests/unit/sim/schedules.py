"""When a DAG is due and how many runs of it may be under way: as a seed draws it, and what it means.

What is due is found by looking at each minute of a zone's clock, which differs from UTC by a whole number of minutes.
Some simulations begin five minutes before a zone changes its clocks, and then some schedules have fixed times there:
such as the change leaves out, or lets come twice.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, Final

from fencepost.api.times import format_time, parse_duration, parse_time
from tests.unit.sim.virtual import NOON_S

CRONS: Final = ("* * * * *", "* * * * *", "*/2 * * * *", "1-59/3 * * * *")
CRONS_SELDOM: Final = ("*/15 * * * *", "*/15 * * * *", "*/20 * * * *", "7-59/30 * * * *")
ZONES_MINUTES: Final = {"UTC": 0, "Asia/Kathmandu": 345, "Europe/Berlin": 60, "America/St_Johns": -210}
"""How far their clocks are ahead of UTC, in November."""
ZONES_STEADY: Final = ("UTC", "Asia/Kathmandu")
"""They never change their clocks."""
MINUTE_S: Final = 60
MINUTES: Final = 60
"""Of an hour."""
HOUR_S: Final = 3600.0
CATCH_UP_LIMITS: Final = (1, 3)
DEADLINE_DEFAULT_S: Final = 300.0

Schedule = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A zone changes its clocks, of which each shows so many minutes more than UTC before it, and after it."""

    zone: str
    at_s: int
    before: int
    after: int


CHANGES: Final = (
    ClockChange("Europe/Berlin", 1_806_195_600, 60, 120),
    ClockChange("Europe/Berlin", 1_792_890_000, 120, 60),
    ClockChange("America/St_Johns", 1_793_507_400, -150, -210),
    ClockChange("America/St_Johns", 1_805_002_200, -210, -150),
    ClockChange("Australia/Lord_Howe", 1_791_041_400, 630, 660),
    ClockChange("Australia/Lord_Howe", 1_806_764_400, 660, 630),
)


@dataclass(frozen=True, slots=True)
class Calendar:
    """When a simulation begins, and whose clocks change in it."""

    begins_s: int = NOON_S
    """Unix seconds, a whole minute."""
    change: ClockChange | None = None

    @property
    def zones(self) -> tuple[str, ...]:
        """Whose clocks are known here."""
        return tuple(ZONES_MINUTES) if self.change is None else (*ZONES_STEADY, self.change.zone)

    def slots(self, dag: str, schedule: Schedule, after_s: float, until_s: float) -> list[int]:
        """The times that the schedule of a DAG means, later than the one and no later than the other; Unix seconds."""
        moved_s = _moved_s(dag, schedule)
        first = int((after_s - moved_s) // MINUTE_S + 1) * MINUTE_S
        slots = {
            second + moved_s
            for second in range(first, int(until_s - moved_s) + 1, MINUTE_S)
            if any(self._due(text, schedule, second) for text in schedule.get("cron") or ())
        }
        slots |= {int(parse_time(text)) + moved_s for text in schedule.get("at") or ()}
        low_s = parse_time(schedule["notBefore"]) if "notBefore" in schedule else 0
        high_s = parse_time(schedule["notAfter"]) if "notAfter" in schedule else until_s
        return sorted(slot for slot in slots if low_s <= slot <= high_s and after_s < slot <= until_s)

    def sort_of(self, dag: str, schedule: Schedule, slot: int) -> str:
        """What is special about a time that is due."""
        change, moved_s = self.change, _moved_s(dag, schedule)
        fixed = any("*" not in "".join(text.split(" ")[:2]) for text in schedule.get("cron") or ())
        if change is None or schedule.get("timeZone") != change.zone or not fixed:
            return "moved by spread" if moved_s else "of every day"
        if slot - moved_s == change.at_s and change.after > change.before:
            return "left out by a change of clocks"
        twice = MINUTE_S * abs(change.after - change.before) if change.after < change.before else 0
        return "that comes twice" if abs(slot - moved_s - change.at_s) < twice else "beside a change of clocks"

    def _due(self, cron: str, schedule: Schedule, second: int) -> bool:
        minutes, hours, *_ = cron.split(" ")
        change = self.change
        if change is None or schedule.get("timeZone") != change.zone:
            return _shows(minutes, hours, second // MINUTE_S + ZONES_MINUTES[schedule.get("timeZone", "UTC")])
        utc, at = second // MINUTE_S, change.at_s // MINUTE_S
        local, dst = utc + (change.after if utc >= at else change.before), schedule.get("dst") or {}
        if "*" in minutes + hours:
            return _shows(minutes, hours, local)
        gap = range(at + change.before, at + change.after)
        if utc == at and dst.get("gap") != "Skip" and any(_shows(minutes, hours, minute) for minute in gap):
            return True
        if not _shows(minutes, hours, local):
            return False
        twice = at + change.after <= local < at + change.before
        unwanted = {"First": utc >= at, "Second": utc < at, "Both": False}[dst.get("overlap", "First")]
        return not (twice and unwanted)


def draw_calendar(rng: Random, length_s: float, *, always: bool) -> Calendar:
    """Most simulations begin at noon; some, or `always`, before clocks change."""
    if rng.random() < 0.75 and not always:
        return Calendar()
    change = rng.choice(CHANGES)
    return Calendar(change.at_s - int(length_s // 3), change)


def draw_schedule(rng: Random, length_s: float, calendar: Calendar) -> dict[str, Any]:
    """Times of every kind, about one a minute; in a simulation of hours, about one in twenty."""
    crons = CRONS if length_s < HOUR_S else CRONS_SELDOM
    schedule: dict[str, Any] = {}
    kind = rng.random()
    if kind < 0.95:
        schedule["cron"] = [rng.choice(crons)] if rng.random() < 0.8 else list(rng.sample(crons[1:], 2))
    if kind > 0.85:
        seconds = sorted(rng.sample(range(20, int(length_s)), rng.choice((1, 3))))
        schedule["at"] = [format_time(calendar.begins_s + second) for second in seconds]
    if rng.random() < 0.3:
        schedule["timeZone"] = rng.choice(calendar.zones)
        schedule["dst"] = {"gap": rng.choice(("RunAfter", "Skip")), "overlap": rng.choice(("First", "Second", "Both"))}
    if calendar.change is not None and rng.random() < 0.5:
        fixed = [_draw_fixed(rng, calendar.change) for _ in range(rng.choice((1, 2)))]
        schedule["cron"] = fixed + schedule.get("cron", [])[: rng.choice((0, 1))]
        schedule["timeZone"] = calendar.change.zone
        schedule["dst"] = {"gap": rng.choice(("RunAfter", "Skip")), "overlap": rng.choice(("First", "Second", "Both"))}
    if rng.random() < 0.15:
        schedule["spread"] = rng.choice(("7s", "45s", "90s"))
    if rng.random() < 0.25:
        schedule["startingDeadline"] = rng.choice(("20s", "90s"))
    if rng.random() < 0.4:
        schedule["catchUp"] = {"policy": rng.choice(("Latest", "All")), "limit": rng.choice(CATCH_UP_LIMITS)}
    if rng.random() < 0.15:
        schedule["notBefore"] = format_time(calendar.begins_s + rng.choice((-300, -60, 90, 200)))
    if rng.random() < 0.1:
        schedule["notAfter"] = format_time(calendar.begins_s + rng.choice((300, 500)))
    return schedule


def _draw_fixed(rng: Random, change: ClockChange) -> str:
    """Some minutes of one hour near a change of clocks, or of what it leaves out."""
    at = change.at_s // MINUTE_S
    near = [*range(at + change.before - 4, at + change.before), *range(at + change.after + 1, at + change.after + 9)]
    left_out = [*range(at + change.before, at + change.after, 3)]
    one = rng.choice(left_out if left_out and rng.random() < 0.5 else near)
    others = [minute for minute in near if minute // MINUTES == one // MINUTES and minute != one]
    minutes = sorted({one % MINUTES, *(minute % MINUTES for minute in rng.sample(others, min(2, len(others))))})
    return f"{','.join(map(str, minutes))} {one // MINUTES % 24} * * *"


def draw_concurrency(rng: Random) -> dict[str, Any]:
    """What happens when a run is due beside others."""
    policy = rng.choice(("Allow", "Forbid", "Forbid", "Queue", "Replace"))
    concurrency: dict[str, Any] = {"policy": policy}
    if policy != "Allow" and rng.random() < 0.4:
        concurrency["limit"] = 2
    if policy == "Queue" and rng.random() < 0.7:
        concurrency["queueLimit"] = rng.choice((1, 3))
    return concurrency


def catch_up_of(schedule: Schedule) -> str:
    """None, Latest or All."""
    return str((schedule.get("catchUp") or {}).get("policy", "None"))


def _moved_s(dag: str, schedule: Schedule) -> int:
    """By what `spread` moves each time of a DAG: always the same, or an upgrade would make some runs twice."""
    digest = hashlib.blake2b(f"demo/{dag}".encode(), digest_size=8, person=b"spread").digest()
    return int.from_bytes(digest, "big") % max(1, int(parse_duration(schedule.get("spread", "0s"))))


def _shows(minutes: str, hours: str, local: int) -> bool:
    """Whether a clock that shows so many minutes since 1970 shows what an expression says."""
    return local % MINUTES in _numbers(minutes, 59) and local // MINUTES % 24 in _numbers(hours, 23)


@cache
def _numbers(field: str, last: int) -> frozenset[int]:
    numbers: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        low, _, high = (f"0-{last}" if span == "*" else span).partition("-")
        numbers |= set(range(int(low), int(high or low) + 1, int(step or 1)))
    return frozenset(numbers)
