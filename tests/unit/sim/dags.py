"""DAGs as a seed draws them: graphs, fan-outs, limits and schedules of every kind that there is.

Together they want about half of the slots there are, so that whatever waits is waiting for a reason that ends.
"""

from collections.abc import Mapping
from random import Random
from typing import Any, Final

from tests.unit.sim.conditions import ZONES
from tests.unit.sim.graphs import draw_long_tasks, draw_retries, draw_tasks
from tests.unit.sim.schedules import Calendar, draw_concurrency, draw_schedule

LOAD: Final = 0.5
"""Share of the slots that schedules want on average."""
MINUTE_S: Final = 60.0


def draw_dags(
    rng: Random, count: int, slots: int, length_s: float, calendar: Calendar
) -> Mapping[str, Mapping[str, Any]]:
    """Specs by name. At least one has a schedule, at least one has retries."""
    share_s = LOAD * slots * MINUTE_S / count
    return {
        f"d{number}": draw_dag(rng, share_s, length_s, calendar, scheduled=number == 0 or rng.random() < 0.7)
        for number in range(count)
    }


def draw_dag(rng: Random, work_s: float, length_s: float, calendar: Calendar, *, scheduled: bool) -> Mapping[str, Any]:
    """One spec, whose runs take so many seconds of slots, one a minute; or longer, if it bounds how many there are."""
    concurrency = draw_concurrency(rng)
    long = concurrency["policy"] != "Allow" and rng.random() < 0.2
    spec: dict[str, Any] = {
        "tasks": draw_long_tasks(rng) if long else draw_tasks(rng, work_s),
        "params": {"zone": rng.choice(ZONES)},
        "history": _draw_history(rng),
        "concurrency": concurrency,
    }
    if scheduled:
        spec["schedule"] = draw_schedule(rng, length_s, calendar)
        if ("notAfter" in spec["schedule"] or "cron" not in spec["schedule"]) and rng.random() < 0.5:
            spec["ttlAfterFinished"] = rng.choice(("10s", "60s"))
    if rng.random() < 0.7:
        spec["retries"] = draw_retries(rng)
    if rng.random() < 0.25:
        spec["timeout"] = rng.choice(("30s", "90s"))
    if rng.random() < 0.1:
        spec["queueTimeout"] = rng.choice(("20s", "60s"))
    if rng.random() < 0.15:
        spec["deadLetters"] = {"limit": rng.choice((0, 2, 10))}
    spec["terminationGracePeriod"] = rng.choice(("1s", "5s"))
    spec["priority"] = rng.choice(("critical", "high", "normal", "low"))
    return spec


def _draw_history(rng: Random) -> dict[str, Any]:
    history: dict[str, Any] = {"succeeded": rng.choice((0, 1, 3)), "failed": rng.choice((0, 1, 1, 3))}
    if rng.random() < 0.2:
        history["ttl"] = rng.choice(("30s", "200s"))
    return history
