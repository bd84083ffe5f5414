"""Argo's DAG templates: what they mean, and how they are written as DAGs of ours.

`ending_of` evaluates a template as Argo's documentation tells it, from `depends` and what jobs exit with; it knows
nothing of the translation. There a task that is not run because `depends` came out false is Omitted, one that is not
run because of `when` is Skipped, and only the second counts as good in a bare `depends: A`.

`translated` gives a spec of ours, or the reason why there is none.
"""

import re
from collections.abc import Mapping
from typing import Any

from tests.unit.workflows.reference import Ending, ExitCodeOf

FAN_OUT = 3
"""Jobs of a fan-out; the templates say only that there is one."""
Template = Mapping[str, Any]

_TERM = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*)(?:\.([A-Z][A-Za-z]+))?")
_GOOD = ("Succeeded", "Skipped")
"""What a name without a result in `depends` stands for (daemons apart)."""


class CannotTranslateError(Exception):
    """There is no DAG of ours that means the same; `str()` says why."""


def depends_of(task: Mapping[str, Any]) -> str:
    """`dependencies: [a, b]` is short for `depends: a && b`."""
    return str(task.get("depends", " && ".join(task.get("dependencies", ()))))


def parents_of(task: Mapping[str, Any]) -> list[str]:
    """The tasks that `depends` names, each once."""
    return list(dict.fromkeys(name for name, _ in _TERM.findall(depends_of(task))))


def ending_of(template: Template, exit_code_of: ExitCodeOf) -> Ending:
    """How each job of the template must end, with failures that stop nothing elsewhere (`failFast: false`)."""
    results: dict[str, str] = {}
    jobs: dict[str, frozenset[str]] = {}
    for name in _in_order(template):
        task = next(task for task in template["tasks"] if task["name"] == name)
        size = FAN_OUT if "fanout" in task else 1
        ends = ["Failed" if exit_code_of(name.lower(), index, 1) else "Succeeded" for index in range(size)]
        if not _holds(depends_of(task), results):
            results[name] = "Omitted"
        else:
            results[name] = "Failed" if "Failed" in ends else "Succeeded"
        runs = results[name] != "Omitted"
        for index, end in enumerate(ends):
            jobs[f"{name.lower()}/{index}"] = frozenset({end if runs else "Skipped"})
    tasks = {name.lower(): "Skipped" if result == "Omitted" else result for name, result in results.items()}
    return Ending(jobs, tasks, "Failed" if "Failed" in results.values() else "Succeeded")


def translated(template: Template) -> dict[str, Any]:
    """The spec of a DAG that means the same; CannotTranslateError."""
    if "target" in template:
        raise CannotTranslateError("target: a run is of the whole DAG, and cannot be asked for a part of it")
    return {"tasks": [_task(task) for task in template["tasks"]]}


def _task(task: Mapping[str, Any]) -> dict[str, Any]:
    if "when" in task:
        raise CannotTranslateError("when: no rule over how tasks ended says what a condition does")
    terms = _TERM.findall(depends_of(task))
    if any(result for _, result in terms):
        raise CannotTranslateError("depends: a rule asks the same of every task before")
    if "||" in depends_of(task):
        raise CannotTranslateError("depends: no rule joins some of the tasks before by `or`, and others by `and`")
    fan_out = {"forEach": {"count": FAN_OUT}} if "fanout" in task else {}
    parents = [name.lower() for name in parents_of(task)]
    return {"name": task["name"].lower(), "command": ["true"], "dependsOn": parents, **fan_out}


def _in_order(template: Template) -> list[str]:
    order: list[str] = []
    left = {task["name"]: parents_of(task) for task in template["tasks"]}
    while left:
        name = next(name for name, parents in left.items() if all(parent in order for parent in parents))
        order.append(name)
        del left[name]
    return order


def _holds(depends: str, results: Mapping[str, str]) -> bool:
    """The value of an expression of `!`, `&&`, `||` and brackets."""

    def term(match: re.Match[str]) -> str:
        name, result = match.groups()
        return str(results[name] == result if result else results[name] in _GOOD)

    text = _TERM.sub(term, depends)
    for theirs, ours in {"&&": " and ", "||": " or ", "!": " not "}.items():
        text = text.replace(theirs, ours)
    return not text.strip() or bool(eval(text, {"__builtins__": {}}))
