"""All that can be wrong with a DAG beyond its schema, found by one function.

The operator, the command `fencepost check` and whoever admits objects call the same `check_dag`, so that they cannot
disagree. It finds everything it can at once: a user who corrects a file wants the whole list.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from fencepost.core.ancestry import Ancestry
from fencepost.core.attempts import retry_problems
from fencepost.core.conditions import Condition
from fencepost.core.cron import Cron, parse_cron
from fencepost.core.dag_spec import DagSpec
from fencepost.core.definition import RUN_BYTES_MAX, Definition, Task
from fencepost.core.graph import Graph, compile_graph
from fencepost.core.problems import Problem
from fencepost.core.run_size import run_bytes_max
from fencepost.core.schedule import Schedule
from fencepost.core.substitution import check_references, not_before, unknown_param
from fencepost.core.thresholds import threshold_problems

ZoneOf = Callable[[str], ZoneInfo | None]
"""The zone of an IANA name, or None: the caller knows where zone data is kept."""


@dataclass(frozen=True, slots=True)
class CheckedDag:
    """A DAG that can run: graph compiled, schedule parsed."""

    spec: DagSpec
    graph: Graph
    schedule: Schedule


def check_dag(spec: DagSpec, zone_of: ZoneOf) -> CheckedDag | list[Problem]:
    """The DAG ready to run, or everything that is wrong with it."""
    graph = compile_graph(spec.definition)
    asked = spec.schedule
    crons = [parse_cron(text) for text in asked.crons]
    zone = zone_of(asked.time_zone)
    problems = list(graph) if isinstance(graph, list) else []
    problems += [
        cron.below(f"spec.schedule.cron[{place}]") for place, cron in enumerate(crons) if isinstance(cron, Problem)
    ]
    if zone is None:
        fact = f"{asked.time_zone!r} is no time zone"
        problems.append(Problem("InvalidTimeZone", "spec.schedule.timeZone", fact, "use an IANA name: Europe/Berlin"))
    problems += retry_problems(spec.definition)
    problems += threshold_problems(spec.definition)
    if spec.ttl_s is not None and asked.not_after_s is None and (asked.crons or not asked.at):
        fact = "the schedule never ends" if asked.crons else "without a schedule the DAG is never finished"
        remedy = "give schedule.notAfter, use schedule.at alone, or remove it"
        problems.append(Problem("NeverFinished", "spec.ttlAfterFinished", fact, remedy))
    problems += _nul_problems(spec.definition)
    problems += _reference_problems(spec.definition, graph if isinstance(graph, Graph) else None)
    problems += _size_problems(spec.definition, graph.outputs_kept if isinstance(graph, Graph) else {})
    if problems or isinstance(graph, list) or zone is None:
        return problems
    parsed = tuple(cron for cron in crons if isinstance(cron, Cron))
    return CheckedDag(spec, graph, Schedule(asked, parsed, zone, tuple(sorted(set(asked.at)))))


def _size_problems(definition: Definition, outputs_kept: Mapping[str, int]) -> list[Problem]:
    size = run_bytes_max(definition, outputs_kept)
    if size <= RUN_BYTES_MAX:
        return []
    fact = f"a run of these {definition.size} jobs could grow to {size} bytes, {RUN_BYTES_MAX} are allowed"
    return [
        Problem(
            "RunTooLarge",
            "spec.tasks",
            fact,
            "split the DAG, shorten the names of its tasks, or refer to fewer outputs",
        )
    ]


def _nul_problems(definition: Definition) -> Iterator[Problem]:
    """Texts that no process can be started with: the operating system takes a NUL for their end."""
    texts = [(f"spec.params[{name}]", text) for name, text in definition.params]
    for place, task in enumerate(definition.tasks):
        texts += [(f"spec.tasks[{place}].{path}", text) for path, text in _texts(task)]
    for path, text in texts:
        if "\0" in text:
            yield Problem("NulCharacter", path, "no process can be given a NUL character", "remove it")


def _reference_problems(definition: Definition, graph: Graph | None) -> list[Problem]:
    """What is wrong with the names that tasks refer to; without a graph nobody can say which tasks come first."""
    params = frozenset(name for name, _ in definition.params)
    ancestry = None if graph is None else Ancestry(graph)
    problems: list[Problem] = []
    for place, task in enumerate(definition.tasks):

        def comes_before(earlier: str, name: str = task.name) -> bool:
            return ancestry is None or ancestry.comes_before(earlier, name)

        here = [
            problem.below(path)
            for path, text in _texts(task)
            if "$(" in text
            for problem in check_references(text, params, comes_before)
        ]
        if graph is not None and (condition := graph.conditions.get(task.name)) is not None:
            here += [problem.below("when") for problem in _condition_problems(condition, params, comes_before)]
        if task.items_from is not None and not comes_before(task.items_from):
            here.append(not_before("forEach", task.items_from).below("forEach.from"))
        problems += [problem.below(f"spec.tasks[{place}]") for problem in here]
    return problems


def _condition_problems(
    condition: Condition, params: frozenset[str], comes_before: Callable[[str], bool]
) -> Iterator[Problem]:
    for name in sorted(condition.params - params):
        yield unknown_param(name, params)
    for task, field in sorted(condition.tasks):
        if not comes_before(task):
            yield not_before(f"tasks.{task}.{field}", task)


def _texts(task: Task) -> Iterator[tuple[str, str]]:
    for place, text in enumerate(task.command):
        yield f"command[{place}]", text
    for place, text in enumerate(task.args):
        yield f"args[{place}]", text
    for place, (_, text) in enumerate(task.env):
        yield f"env[{place}].value", text
