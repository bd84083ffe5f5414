"""DAGs as a seed draws them: graphs, fan-outs, limits and schedules of every kind that there is.

Together they want about half of the slots there are, so that whatever waits is waiting for a reason that ends.
"""

from collections.abc import Mapping
from random import Random
from typing import Any, Final

from tests.unit.sim.cluster import job_command

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
    tasks = [_task(rng, number) for number in range(rng.choice((1, 1, 2, 3, 4, 6)))]
    weight = sum(task["forEach"]["count"] if "forEach" in task else 1 for task in tasks)
    for task in tasks:
        seconds = min(20.0, max(0.1, rng.uniform(0.3, 1.0) * work_s / max(1, weight)))
        failing = rng.choice((0.0, 0.0, 0.1, 0.3))
        task["command"] = job_command(round(seconds, 2), failing, stubborn=rng.random() < 0.1)
    spec: dict[str, Any] = {"tasks": tasks, "history": {"succeeded": rng.choice((0, 1, 3)), "failed": 1}}
    if scheduled:
        spec["schedule"] = {"cron": [rng.choice(("* * * * *", "* * * * *", "*/2 * * * *", "1-59/3 * * * *"))]}
    spec["concurrency"] = rng.choice(({"policy": "Allow"}, {"policy": "Forbid"}, {"policy": "Forbid", "limit": 2}))
    if rng.random() < 0.7:
        backoff = {"base": rng.choice(("1s", "3s")), "cap": "10s"}
        spec["retries"] = {"limit": rng.choice((1, 2, 3)), "backoff": backoff}
    if rng.random() < 0.25:
        spec["timeout"] = rng.choice(("30s", "90s"))
    spec["terminationGracePeriod"] = rng.choice(("1s", "5s"))
    spec["priority"] = rng.choice(("critical", "high", "normal", "low"))
    return spec


def _task(rng: Random, number: int) -> dict[str, Any]:
    task: dict[str, Any] = {"name": f"t{number}"}
    parents = [f"t{parent}" for parent in range(number) if rng.random() < 0.45]
    if parents:
        task["dependsOn"] = parents
    if rng.random() < 0.35:
        task["forEach"] = {"count": rng.choice((0, 2, 5, 12, 25))}
        if rng.random() < 0.3:
            task["maxParallel"] = rng.choice((1, 3))
    if rng.random() < 0.2:
        task["timeout"] = rng.choice(("2s", "15s"))
    return task
