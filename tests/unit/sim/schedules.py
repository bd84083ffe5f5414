"""When a DAG is due and how many runs of it may be under way: as a seed draws it, and what it means.

The expressions here have a fixed hour nowhere, so that they follow real time: what is due is found by looking at each
minute of a zone's clock, which differs from UTC by a whole number of minutes that stands still for as long as a
simulation lasts.
"""

from collections.abc import Mapping
from random import Random
from typing import Any, Final

from fencepost.api.times import format_time, parse_time
from tests.unit.sim.virtual import NOON_S

CRONS: Final = ("* * * * *", "* * * * *", "*/2 * * * *", "1-59/3 * * * *")
CRONS_SELDOM: Final = ("*/15 * * * *", "*/15 * * * *", "*/20 * * * *", "7-59/30 * * * *")
ZONES_MINUTES: Final = {"UTC": 0, "Europe/Berlin": 60, "Asia/Kathmandu": 345, "America/St_Johns": -210}
"""How far their clocks are ahead of UTC, in November."""
MINUTE_S: Final = 60
HOUR_S: Final = 3600.0
CATCH_UP_LIMITS: Final = (1, 3)
DEADLINE_DEFAULT_S: Final = 300.0

Schedule = Mapping[str, Any]


def draw_schedule(rng: Random, length_s: float) -> dict[str, Any]:
    """Times of every kind, about one a minute; in a simulation of hours, about one in twenty."""
    crons = CRONS if length_s < HOUR_S else CRONS_SELDOM
    schedule: dict[str, Any] = {}
    kind = rng.random()
    if kind < 0.95:
        schedule["cron"] = [rng.choice(crons)] if rng.random() < 0.8 else list(rng.sample(crons[1:], 2))
    if kind > 0.85:
        seconds = sorted(rng.sample(range(20, int(length_s)), rng.choice((1, 3))))
        schedule["at"] = [format_time(NOON_S + second) for second in seconds]
    if rng.random() < 0.3:
        schedule["timeZone"] = rng.choice(list(ZONES_MINUTES))
        schedule["dst"] = {"gap": rng.choice(("RunAfter", "Skip")), "overlap": rng.choice(("First", "Second", "Both"))}
    if rng.random() < 0.25:
        schedule["startingDeadline"] = rng.choice(("20s", "90s"))
    if rng.random() < 0.4:
        schedule["catchUp"] = {"policy": rng.choice(("Latest", "All")), "limit": rng.choice(CATCH_UP_LIMITS)}
    if rng.random() < 0.15:
        schedule["notBefore"] = format_time(NOON_S + rng.choice((-300, -60, 90, 200)))
    if rng.random() < 0.1:
        schedule["notAfter"] = format_time(NOON_S + rng.choice((300, 500)))
    return schedule


def draw_concurrency(rng: Random) -> dict[str, Any]:
    """What happens when a run is due beside others."""
    policy = rng.choice(("Allow", "Forbid", "Forbid", "Queue", "Replace"))
    concurrency: dict[str, Any] = {"policy": policy}
    if policy != "Allow" and rng.random() < 0.4:
        concurrency["limit"] = 2
    if policy == "Queue" and rng.random() < 0.7:
        concurrency["queueLimit"] = rng.choice((1, 3))
    return concurrency


def slots_between(schedule: Schedule, after_s: float, until_s: float) -> list[int]:
    """The times that a schedule means, later than the one and no later than the other; Unix seconds."""
    ahead = ZONES_MINUTES[schedule.get("timeZone", "UTC")]
    minutes = [_minutes(cron.partition(" ")[0]) for cron in schedule.get("cron") or ()]
    first = int(after_s // MINUTE_S + 1) * MINUTE_S
    slots = {
        second
        for second in range(first, int(until_s) + 1, MINUTE_S)
        if any((second // MINUTE_S + ahead) % 60 in each for each in minutes)
    }
    slots |= {int(at_s) for text in schedule.get("at") or () if after_s < (at_s := parse_time(text)) <= until_s}
    low_s = parse_time(schedule["notBefore"]) if "notBefore" in schedule else 0
    high_s = parse_time(schedule["notAfter"]) if "notAfter" in schedule else until_s
    return sorted(slot for slot in slots if low_s <= slot <= high_s)


def catch_up_of(schedule: Schedule) -> str:
    """None, Latest or All."""
    return str((schedule.get("catchUp") or {}).get("policy", "None"))


def _minutes(field: str) -> frozenset[int]:
    span, _, step = field.partition("/")
    low, _, high = ("0-59" if span == "*" else span).partition("-")
    return frozenset(range(int(low), int(high or low) + 1, int(step or 1)))
