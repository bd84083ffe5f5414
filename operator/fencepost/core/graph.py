"""The graph of a DAG's tasks: compiled once for each definition, walked at each plan.

The order is topological and stable (as written, where the edges leave a choice), so that one pass from front to back
sees every parent before its children.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fencepost.core.conditions import OUTPUT_FIELDS, Condition, parse_condition
from fencepost.core.definition import Definition, Task
from fencepost.core.outputs import list_sources, output_bytes_max, referred_outputs
from fencepost.core.problems import Problem
from fencepost.core.run_size import JOBS_OPEN_MAX, jobs_open_max


@dataclass(frozen=True, slots=True)
class Graph:
    """Tasks in topological order, and who depends on whom."""

    order: tuple[Task, ...]
    tasks: Mapping[str, Task]
    children: Mapping[str, tuple[str, ...]]
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    """By task: its `when`."""
    outputs_kept: Mapping[str, int] = field(default_factory=dict)
    """By task: how many bytes each of its jobs may put out, for the tasks whose output somebody refers to."""
    jobs_open_max: int = JOBS_OPEN_MAX
    """How many jobs of a run may be leased or wait for another attempt at the same time."""

    @property
    def size(self) -> int:
        """How many jobs a run has, as far as the definition says."""
        return sum(task.size for task in self.order)


def compile_graph(definition: Definition) -> Graph | list[Problem]:
    """The graph of the definition's tasks, or everything that keeps them from being one."""
    tasks = definition.tasks
    by_name = {task.name: task for task in tasks}
    conditions = {task.name: parse_condition(task.when) for task in tasks if task.when is not None}
    problems = [*_doubled_names(tasks), *_bad_edges(tasks, by_name), *_bad_conditions(tasks, conditions)]
    if problems:
        return problems
    children: dict[str, list[str]] = {name: [] for name in by_name}
    for task in tasks:
        for parent in task.depends_on:
            children[parent].append(task.name)
    order = _topological(tasks, by_name, children)
    if len(order) < len(tasks):
        return [_cycle(tasks, by_name, {task.name for task in order})]
    good = {name: condition for name, condition in conditions.items() if isinstance(condition, Condition)}
    below = {name: tuple(names) for name, names in children.items()}
    kept = _outputs_kept(tasks, good)
    return Graph(tuple(order), by_name, below, good, kept, jobs_open_max(definition, kept))


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


def _bad_conditions(tasks: Sequence[Task], conditions: Mapping[str, Condition | Problem]) -> list[Problem]:
    return [
        condition.below(f"spec.tasks[{place}].when")
        for place, task in enumerate(tasks)
        if isinstance(condition := conditions.get(task.name), Problem)
    ]


def _outputs_kept(tasks: Sequence[Task], conditions: Mapping[str, Condition]) -> dict[str, int]:
    sources = list_sources(tasks)
    asked = {name for condition in conditions.values() for name, field in condition.tasks if field in OUTPUT_FIELDS}
    names = asked.union(sources, *(referred_outputs(task) for task in tasks))
    return {name: output_bytes_max(name, sources) for name in names}


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
