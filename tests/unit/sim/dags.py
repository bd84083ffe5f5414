"""DAGs as a seed draws them: graphs, fan-outs, limits and schedules of every kind that there is.

Together they want about half of the slots there are, so that whatever waits is waiting for a reason that ends.
"""

from collections.abc import Mapping
from random import Random
from typing import Any, Final

from tests.unit.sim.conditions import ZONES
from tests.unit.sim.graphs import draw_retries, draw_tasks

LOAD: Final = 0.5
"""Share of the slots that schedules want on average."""
MINUTE_S: Final = 60.0


def draw_dags(rng: Random, count: int, slots: int) -> Mapping[str, Mapping[str, Any]]:
    """Specs by name. At least one has a schedule, at least one has retries."""
    share_s = LOAD * slots * MINUTE_S / count
    return {
        f"d{number}": draw_dag(rng, share_s, scheduled=number == 0 or rng.random() < 0.7) for number in range(count)
    }


def draw_dag(rng: Random, work_s: float, *, scheduled: bool) -> Mapping[str, Any]:
    """One spec, whose runs take so many seconds of slots, one a minute."""
    spec: dict[str, Any] = {
        "tasks": draw_tasks(rng, work_s),
        "params": {"zone": rng.choice(ZONES)},
        "history": {"succeeded": rng.choice((0, 1, 3)), "failed": 1},
    }
    if scheduled:
        spec["schedule"] = {"cron": [rng.choice(("* * * * *", "* * * * *", "*/2 * * * *", "1-59/3 * * * *"))]}
    spec["concurrency"] = rng.choice(({"policy": "Allow"}, {"policy": "Forbid"}, {"policy": "Forbid", "limit": 2}))
    if rng.random() < 0.7:
        spec["retries"] = draw_retries(rng)
    if rng.random() < 0.25:
        spec["timeout"] = rng.choice(("30s", "90s"))
    spec["terminationGracePeriod"] = rng.choice(("1s", "5s"))
    spec["priority"] = rng.choice(("critical", "high", "normal", "low"))
    return spec
