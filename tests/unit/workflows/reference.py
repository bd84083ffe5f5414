"""How a run must end, worked out from a DAG's spec as a user writes it and from what each attempt exits with.

Written from the user guide alone: it shares no code with the planner, and knows no workers, leases, order or time. It
asks for each job which of its attempts is the last, for each task how those before it ended, and for the run whether
anything failed that may not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

ExitCodeOf = Callable[[str, int, int], int]
"""Of a task's job, by index, at its n-th attempt, counted from 1."""


@dataclass(frozen=True)
class Ending:
    """How a run must end."""

    jobs: Mapping[str, frozenset[str]]
    """By `task/index`: the phases of which it may end in one. More than one only where time decides: in a fan-out that
    fails fast, what else runs when it can no longer succeed may end by itself or be stopped."""
    tasks: Mapping[str, str]
    """Succeeded, Failed or Skipped."""
    run: str
    """Succeeded or Failed."""


def ending_of(spec: Mapping[str, Any], exit_code_of: ExitCodeOf) -> Ending:
    """The end of a run of this DAG that nobody cancels and that does not run out of time."""
    tasks: dict[str, str] = {}
    jobs: dict[str, frozenset[str]] = {}
    excused = True
    left = {task["name"]: task for task in spec["tasks"]}
    while left:
        task = next(task for task in left.values() if all(parent in tasks for parent in task.get("dependsOn", ())))
        name = left.pop(task["name"])["name"]
        size = task["forEach"]["count"] if "forEach" in task else 1
        if not _may_run(task.get("rule", "AllSucceeded"), [tasks[parent] for parent in task.get("dependsOn", ())]):
            tasks[name] = "Skipped"
            jobs |= {f"{name}/{index}": frozenset({"Skipped"}) for index in range(size)}
            continue
        retries = {**spec.get("retries", {}), **task.get("retries", {})}
        tries = [_attempts(retries, name, index, exit_code_of) for index in range(size)]
        good = [codes[-1] == 0 for codes in tries]
        tasks[name] = "Succeeded" if sum(good) >= _wanted(task, size) else "Failed"
        excused &= tasks[name] == "Succeeded"
        gives_up = tasks[name] == "Failed" and task.get("forEach", {}).get("failFast", False)
        for index, codes in enumerate(tries):
            # a job that is told to stop may end by itself before that, but gets no further attempt
            counted = codes if gives_up else codes[-1:]
            own = {"Failed" if code else "Succeeded" for code in counted}
            jobs[f"{name}/{index}"] = frozenset(own | {"Cancelled"} if gives_up else own)
    return Ending(jobs, tasks, "Succeeded" if excused else "Failed")


def _may_run(rule: str, parents: list[str]) -> bool:
    good, bad = parents.count("Succeeded"), parents.count("Failed")
    return {
        "AllSucceeded": good == len(parents),
        "AllDone": True,
        "AnySucceeded": good > 0,
        "AnyFailed": bad > 0,
        "AllFailed": bad == len(parents),
        "NoneFailed": bad == 0,
    }[rule]


def _attempts(retries: Mapping[str, Any], task: str, index: int, exit_code_of: ExitCodeOf) -> list[int]:
    """What its attempts exit with, up to the last one that is made."""
    codes: list[int] = []
    for attempt in range(1, retries.get("limit", 0) + 2):
        code = exit_code_of(task, index, attempt)
        codes.append(code)
        only = retries.get("retryOn")
        if code == 0 or code in retries.get("failOn", ()) or (only and code not in only):
            break
    return codes


def _wanted(task: Mapping[str, Any], size: int) -> int:
    threshold = task.get("forEach", {}).get("successThreshold", size)
    if isinstance(threshold, str):
        hundredths = size * int(threshold.rstrip("%"))
        return hundredths // 100 + (hundredths % 100 > 0)
    return min(int(threshold), size)
