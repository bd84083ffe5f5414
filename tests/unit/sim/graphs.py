"""The tasks of a DAG as a seed draws them: edges, rules, conditions, fan-outs, outputs, retries and limits."""

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from tests.unit.sim.conditions import draw_condition
from tests.unit.sim.scripts import LIST_LENGTH_MAX, job_command

SECONDS_MAX: Final = 20.0
LONG_S: Final = (40.0, 90.0)
HANGS_S: Final = 500.0
"""As good as for ever; only jobs with a limit do, and not many together."""
RULES: Final = ("AllSucceeded", "AllDone", "AnySucceeded", "AnyFailed", "AllFailed", "NoneFailed")
COUNTS: Final = (0, 2, 5, 12, 25)
CODES: Final = (1, 3, 7)
"""With which jobs fail here."""


def draw_tasks(rng: Random, work_s: float) -> list[dict[str, Any]]:
    """Tasks that take about so many seconds of slots in each run."""
    tasks: list[dict[str, Any]] = []
    puts: dict[str, str] = {}
    for number in range(rng.choice((1, 2, 3, 4, 4, 6))):
        tasks.append(_task(rng, number, puts, tasks))
    weight = sum(_weight(task) for task in tasks)
    for task in tasks:
        seconds = min(SECONDS_MAX, max(0.1, rng.uniform(0.3, 1.0) * work_s / max(1, weight)))
        if "timeout" in task and "forEach" not in task and rng.random() < 0.4:
            seconds = HANGS_S
        task["command"] = job_command(
            round(seconds, 2),
            rng.choice((0.0, 0.0, 0.1, 0.3)),
            stubborn=rng.random() < 0.1,
            codes=rng.choice(((), CODES)),
            puts=puts[task["name"]],
            says=_references(rng, task, puts),
        )
    return tasks


def draw_long_tasks(rng: Random) -> list[dict[str, Any]]:
    """One or two jobs in a row, of which a run takes longer than a minute, so that the next one is due beside it."""
    seconds = rng.uniform(*LONG_S)
    tasks = [
        {"name": f"t{number}", "command": job_command(round(seconds, 2), 0.1)} for number in range(rng.randint(1, 2))
    ]
    return [task | ({"dependsOn": ["t0"]} if task["name"] != "t0" else {}) for task in tasks]


def _task(rng: Random, number: int, puts: dict[str, str], before: Sequence[dict[str, Any]]) -> dict[str, Any]:
    name = f"t{number}"
    task: dict[str, Any] = {"name": name}
    parents = [f"t{parent}" for parent in range(number) if rng.random() < 0.45]
    if parents:
        task["dependsOn"] = parents
        if rng.random() < 0.7:
            task["rule"] = rng.choice(RULES)
    if rng.random() < 0.25:
        words = [parent for parent in parents if puts[parent] == "word"]
        task["when"] = draw_condition(rng, parents, words)
    lists = [parent for parent in parents if puts[parent] == "list" and "forEach" not in before[int(parent[1:])]]
    if lists and rng.random() < 0.7:
        task["forEach"] = {"from": rng.choice(lists)}
    elif rng.random() < 0.35:
        count = rng.choice(COUNTS)
        task["forEach"] = (
            {"count": count} if rng.random() < 0.6 else {"items": [f"item {each}" for each in range(count)]}
        )
    if "forEach" in task:
        _draw_limits(rng, task)
    if rng.random() < 0.2:
        task["timeout"] = rng.choice(("2s", "15s"))
    if rng.random() < 0.1:
        task["queueTimeout"] = rng.choice(("5s", "30s"))
    if rng.random() < 0.15:
        task["retries"] = draw_retries(rng)
    if rng.random() < 0.15:
        task["priority"] = rng.choice(("critical", "high", "normal", "low"))
    puts[name] = rng.choice(("", "", "word", "list"))
    return task


def _draw_limits(rng: Random, task: dict[str, Any]) -> None:
    if rng.random() < 0.3:
        task["maxParallel"] = rng.choice((1, 3))
    if rng.random() < 0.5:
        task["forEach"]["successThreshold"] = rng.choice(("50%", "80%", "100%"))
    if rng.random() < 0.5:
        task["forEach"]["failFast"] = True


def draw_retries(rng: Random) -> dict[str, Any]:
    """How often jobs are tried again, and after which exit codes."""
    backoff = {"base": rng.choice(("1s", "3s")), "cap": "10s"}
    retries: dict[str, Any] = {"limit": rng.choice((0, 1, 2, 3)), "backoff": backoff}
    if rng.random() < 0.3:
        retries["retryOn"] = rng.choice(([1, 124], [3], []))
    if rng.random() < 0.3:
        retries["failOn"] = [7]
    if rng.random() < 0.1:
        retries["lossLimit"] = rng.choice((0, 1))
    return retries


def _references(rng: Random, task: dict[str, Any], puts: dict[str, str]) -> list[str]:
    told = [f"tasks.{parent}.output" for parent in task.get("dependsOn", ()) if puts[parent] and rng.random() < 0.6]
    return [*told, *rng.choice(((), ("params.zone",), ("index", "item")))]


def _weight(task: dict[str, Any]) -> int:
    each = task.get("forEach", {"count": 1})
    return int(each["count"]) if "count" in each else len(each.get("items", range(LIST_LENGTH_MAX // 2)))
