"""The graph of a DAG's tasks: compiled once for each definition, walked at each plan.

The order is topological and stable (as written, where the edges leave a choice), so that one pass from front to back
sees every parent before its children.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fencepost.core.definition import Task
from fencepost.core.problems import Problem


@dataclass(frozen=True, slots=True)
class Graph:
    """Tasks in topological order, and who depends on whom."""

    order: tuple[Task, ...]
    tasks: Mapping[str, Task]
    children: Mapping[str, tuple[str, ...]]

    @property
    def size(self) -> int:
        """How many jobs a run has."""
        return sum(task.size for task in self.order)


def compile_graph(tasks: Sequence[Task]) -> Graph | list[Problem]:
    """The graph of these tasks, or everything that keeps them from being one."""
    by_name = {task.name: task for task in tasks}
    problems = [*_doubled_names(tasks), *_bad_edges(tasks, by_name)]
    if problems:
        return problems
    children: dict[str, list[str]] = {name: [] for name in by_name}
    for task in tasks:
        for parent in task.depends_on:
            children[parent].append(task.name)
    order = _topological(tasks, by_name, children)
    if len(order) < len(tasks):
        return [_cycle(tasks, by_name, {task.name for task in order})]
    return Graph(tuple(order), by_name, {name: tuple(below) for name, below in children.items()})


def _doubled_names(tasks: Sequence[Task]) -> list[Problem]:
    seen: set[str] = set()
    problems = []
    for place, task in enumerate(tasks):
        if task.name in seen:
            fact = f"an earlier task is called {task.name!r} too"
            problems.append(Problem("DuplicateTask", f"spec.tasks[{place}].name", fact, "rename one"))
        seen.add(task.name)
    return problems


def _bad_edges(tasks: Sequence[Task], by_name: Mapping[str, Task]) -> list[Problem]:
    problems = []
    for place, task in enumerate(tasks):
        for edge, parent in enumerate(task.depends_on):
            path = f"spec.tasks[{place}].dependsOn[{edge}]"
            if parent == task.name:
                fact = f"task {task.name!r} depends on itself"
                problems.append(Problem("SelfDependency", path, fact, "remove the edge"))
            elif parent not in by_name:
                fact = f"task {task.name!r} depends on {parent!r}, which is no task of this DAG"
                problems.append(Problem("UnknownParent", path, fact, "correct the name or add the task"))
            elif parent in task.depends_on[:edge]:
                fact = f"task {task.name!r} names {parent!r} twice"
                problems.append(Problem("DuplicateDependency", path, fact, "remove one"))
    return problems


def _topological(
    tasks: Sequence[Task], by_name: Mapping[str, Task], children: Mapping[str, Sequence[str]]
) -> list[Task]:
    """Kahn's order; shorter than `tasks` when there is a cycle."""
    missing = {task.name: len(task.depends_on) for task in tasks}
    order = [task for task in tasks if not task.depends_on]
    for task in order:  # grows while it is walked
        for child in children[task.name]:
            missing[child] -= 1
            if not missing[child]:
                order.append(by_name[child])
    return order


def _cycle(tasks: Sequence[Task], by_name: Mapping[str, Task], ordered: set[str]) -> Problem:
    """One cycle, spelled. Every task left out of the order has a parent left out too, so walking up must come round."""
    walk = [next(task.name for task in tasks if task.name not in ordered)]
    while walk[-1] not in walk[:-1]:
        walk.append(next(parent for parent in by_name[walk[-1]].depends_on if parent not in ordered))
    # walked from child to parent, so reversed it reads in the direction of the edges
    round_trip = walk[walk.index(walk[-1]) :][::-1]
    start = round_trip.index(min(round_trip))
    spelled = [*round_trip[start:-1], *round_trip[: start + 1]]
    return Problem("Cycle", "spec.tasks", f"the tasks depend on each other: {' -> '.join(spelled)}", "remove one edge")
