"""Argo's DAG templates: what they mean, and how they are written as DAGs of ours.

`ending_of` evaluates a template as Argo's documentation tells it, from `depends`, `when` and what jobs exit with and
put out; it knows nothing of the translation. There a task that is not run because `depends` came out false is Omitted,
one that is not run because of `when` is Skipped, and only the second counts as good in a bare `depends: A`.

`translated` gives a spec of ours, or the reason why there is none.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.unit.workflows.reference import Ending, ExitCodeOf

FAN_OUT = 3
"""Jobs of a fan-out; the templates say only that there is one."""
Template = Mapping[str, Any]
OutputOf = Callable[[str], str]
"""Of a task that succeeded."""

_TERM = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*)(?:\.([A-Z][A-Za-z]+))?")
_WHEN = re.compile(r"\{\{tasks\.([a-z-]+)\.outputs\.result\}\} == ([a-z]+)")
_GOOD = ("Succeeded", "Skipped")
"""What a name without a result in `depends` stands for (daemons apart)."""
_KNOWN = ("Succeeded", "Failed", "Skipped")


class CannotTranslateError(Exception):
    """There is no DAG of ours that means the same; `str()` says why."""


def output_of(seed: int) -> OutputOf:
    """What tasks put out: a side of a coin, or the list for a fan-out."""

    def output(task: str) -> str:
        return json.dumps(list(range(FAN_OUT))) if task == "split" else ("heads", "tails")[seed % 2]

    return output


def depends_of(task: Mapping[str, Any]) -> str:
    """`dependencies: [a, b]` is short for `depends: a && b`."""
    return str(task.get("depends", " && ".join(task.get("dependencies", ()))))


def parents_of(task: Mapping[str, Any]) -> list[str]:
    """The tasks that `depends` names, each once."""
    return list(dict.fromkeys(name for name, _ in _TERM.findall(depends_of(task))))


def ending_of(template: Template, exit_code_of: ExitCodeOf, output: OutputOf) -> Ending:
    """How each job of the template must end, with failures that stop nothing elsewhere (`failFast: false`)."""
    results: dict[str, str] = {}
    jobs: dict[str, frozenset[str]] = {}
    for name in _in_order(template):
        task = next(task for task in template["tasks"] if task["name"] == name)
        if not _holds(depends_of(task), results):
            results[name] = "Omitted"
        elif not _is_wanted(task.get("when"), output):
            results[name] = "Skipped"
        runs = name not in results
        # how many items there are is known only once the list is there
        size = FAN_OUT if "fanout" in task and (runs or task["fanout"] == "withSequence") else 1
        ends = ["Failed" if exit_code_of(name.lower(), index, 1) else "Succeeded" for index in range(size)]
        if runs:
            results[name] = "Failed" if "Failed" in ends else "Succeeded"
        for index, end in enumerate(ends):
            jobs[f"{name.lower()}/{index}"] = frozenset({end if runs else "Skipped"})
    tasks = {name.lower(): "Skipped" if result == "Omitted" else result for name, result in results.items()}
    return Ending(jobs, tasks, "Failed" if "Failed" in results.values() else "Succeeded")


def translated(template: Template) -> dict[str, Any]:
    """The spec of a DAG that means the same; CannotTranslateError."""
    if "target" in template:
        raise CannotTranslateError("target: a run is of the whole DAG, and cannot be asked for a part of it")
    by_name = {task["name"]: task for task in template["tasks"]}
    return {"tasks": [_task(task, by_name) for task in template["tasks"]]}


def _task(task: Mapping[str, Any], by_name: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    parents = parents_of(task)
    made: dict[str, Any] = {
        "name": task["name"].lower(),
        "command": ["true"],
        "dependsOn": [name.lower() for name in parents],
    }
    conditions = []
    plain = not any(result for _, result in _TERM.findall(depends_of(task))) and "||" not in depends_of(task)
    if not plain or any("when" in by_name[parent] for parent in parents):
        made["rule"] = "AllDone"
        conditions.append(_TERM.sub(lambda match: _status(match[1], match[2], by_name), depends_of(task)))
    if "when" in task:
        conditions.append(_WHEN.sub(r"tasks['\1'].output == '\2'", task["when"]))
    if conditions:
        made["when"] = " && ".join(f"({each})" for each in conditions)
    if "fanout" in task:
        made["forEach"] = {"from": parents[0].lower()} if task["fanout"] == "withParam" else {"count": FAN_OUT}
    return made


def _status(name: str, result: str | None, by_name: Mapping[str, Mapping[str, Any]]) -> str:
    """One term of `depends` in CEL."""
    if result is not None and result not in _KNOWN:
        raise CannotTranslateError(f"depends: a task of ours is never {result}")
    counts_skipped = result == "Skipped" or (result is None and "when" in by_name[name])
    if counts_skipped and depends_of(by_name[name]):
        raise CannotTranslateError("depends: Skipped and Omitted are one for a task of ours")
    told = f"tasks['{name.lower()}'].status"
    if result is None and counts_skipped:
        return f"{told} in ['Succeeded', 'Skipped']"
    return f"{told} == '{result or 'Succeeded'}'"


def _in_order(template: Template) -> list[str]:
    order: list[str] = []
    left = {task["name"]: parents_of(task) for task in template["tasks"]}
    while left:
        name = next(name for name, parents in left.items() if all(parent in order for parent in parents))
        order.append(name)
        del left[name]
    return order


def _is_wanted(when: str | None, output: OutputOf) -> bool:
    if when is None or when in ("true", "false"):
        return when != "false"
    match = _WHEN.fullmatch(when)
    assert match, when
    return output(match[1]) == match[2]


def _holds(depends: str, results: Mapping[str, str]) -> bool:
    """The value of an expression of `!`, `&&`, `||` and brackets."""

    def term(match: re.Match[str]) -> str:
        name, result = match.groups()
        return str(results[name] == result if result else results[name] in _GOOD)

    text = _TERM.sub(term, depends)
    for theirs, ours in {"&&": " and ", "||": " or ", "!": " not "}.items():
        text = text.replace(theirs, ours)
    return not text.strip() or bool(eval(text, {"__builtins__": {}}))
