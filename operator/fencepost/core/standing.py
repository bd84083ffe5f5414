"""Where the tasks of a run stand: which have ended and how, which could start, which never will.

One pass over the graph, parents first. What can no longer run is ended in the same pass, so a skip spreads as far as it
goes at once, through however many tasks. The cost is that of looking at each task and each edge once.

A task runs when everything before it has ended, parents of parents included: a parent may have been skipped while what
comes before it is still at work. So what a job sees of earlier tasks is final.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from fencepost.core.conditions import ConditionError, TaskField, evaluate
from fencepost.core.definition import Task
from fencepost.core.draft import Draft
from fencepost.core.fan_out import LISTED_JOBS_MAX, ListError, read_items, size_of
from fencepost.core.graph import Graph
from fencepost.core.names import JobKey
from fencepost.core.outputs import output_text, outputs_of
from fencepost.core.phases import JobPhase
from fencepost.core.rules import TaskOutcome, Verdict, judge
from fencepost.core.run_state import TaskState
from fencepost.core.substitution import PARAM_PREFIX, RUN_PREFIX
from fencepost.core.thresholds import has_succeeded


@dataclass(slots=True)
class Standing:
    """The tasks of a run at one moment."""

    outcomes: dict[str, TaskOutcome] = field(default_factory=dict)
    """The tasks that have ended."""
    settled_s: dict[str, float] = field(default_factory=dict)
    """Since when what depends on an ended task need no longer wait for it; Unix seconds."""
    ready_s: dict[str, float] = field(default_factory=dict)
    """The tasks whose jobs may start, and since when they might have; Unix seconds."""
    failed: list[JobKey] = field(default_factory=list)
    """Jobs that failed here, as nobody could say whether they are to run, or how many there are."""


def take_stock(
    draft: Draft, graph: Graph, values: Mapping[str, str], stopping: bool, start_s: float, now_s: float
) -> Standing:
    """End the jobs that can no longer run, and say where all tasks stand then.

    `values`: what params and the run stand for in conditions, by reference. `stopping`: nothing is to start any more,
    for whatever reason. A task without jobs ends as its rule says.
    """
    standing = Standing()
    closed: set[str] = set()
    for task in graph.order:
        # 1. What its parents mean for it.
        verdict = judge(task.rule, [standing.outcomes.get(parent) for parent in task.depends_on])
        all_closed = closed.issuperset(task.depends_on)
        if verdict is Verdict.RUN and not all_closed:
            verdict = Verdict.WAIT
        if stopping or draft.fails_fast(task):
            draft.end_unleased(task, JobPhase.CANCELLED)
        elif verdict is Verdict.RUN and not draft.begun(task) and not (draft.size(task) and draft.ended(task)):
            verdict = _admit(draft, graph, standing, task, values)
        if not stopping and verdict is Verdict.SKIP:
            draft.end_unleased(task, JobPhase.SKIPPED)
        # 2. Whether it is over, or may start.
        outcome = outcome_of(task, draft.state_of(task)) if draft.size(task) else _OF_NOTHING[verdict]
        if outcome is None and (stopping or verdict is not Verdict.RUN):
            continue
        since_s = max([standing.settled_s.get(parent, start_s) for parent in task.depends_on], default=start_s)
        if outcome is not None:
            # a worker's clock may be ahead of ours, but what can start now could not start any later
            end_s = min(now_s, draft.last_end_s(task) or start_s)
            standing.outcomes[task.name] = outcome
            standing.settled_s[task.name] = max(end_s, since_s)
            if all_closed:
                closed.add(task.name)
        else:
            standing.ready_s[task.name] = since_s
    return standing


def outcome_of(task: Task, state: TaskState) -> TaskOutcome | None:
    """How a task that has jobs ended; None while it has not."""
    size = size_of(task, state)
    if state.ended_count < size:
        return None
    if has_succeeded(task, state, size):
        return TaskOutcome.SUCCEEDED
    return next(outcome for phase, outcome in _WORST_FIRST.items() if state.count(phase))


def _admit(draft: Draft, graph: Graph, standing: Standing, task: Task, values: Mapping[str, str]) -> Verdict:
    """The last questions to a task whose rule is met: does its condition hold, and how many jobs has it?

    What goes wrong here fails the task: all its jobs as far as they are known, and one where there are none.
    """
    try:
        if not _condition_holds(draft, graph, standing, task, values):
            return Verdict.SKIP
        if task.items_from is not None and draft.state_of(task).size is None:
            draft.set_size(task, _length_of_list(draft, graph, task, graph.tasks[task.items_from]))
    except (ConditionError, ListError) as error:
        if not draft.size(task):
            draft.set_size(task, 1)
        fact = "ConditionFailed" if isinstance(error, ConditionError) else "ListFailed"
        standing.failed += draft.fail_unstarted(task, fact, str(error))
    return Verdict.RUN


def _condition_holds(draft: Draft, graph: Graph, standing: Standing, task: Task, values: Mapping[str, str]) -> bool:
    condition = graph.conditions.get(task.name)
    if condition is None:
        return True
    tasks: dict[str, dict[TaskField, object]] = {}
    for name, asked in condition.tasks:
        tasks.setdefault(name, {})[asked] = _field_of(draft, standing, graph.tasks[name], asked)
    params = {name.removeprefix(PARAM_PREFIX): text for name, text in values.items() if name.startswith(PARAM_PREFIX)}
    run = {name.removeprefix(RUN_PREFIX): text for name, text in values.items() if name.startswith(RUN_PREFIX)}
    return evaluate(condition, params, run, tasks)


def _field_of(draft: Draft, standing: Standing, task: Task, field: TaskField) -> object:
    """What an expression sees of a task that has ended."""
    state, outputs = draft.state_of(task), draft.outputs.kept
    match field:
        case TaskField.STATUS:
            return str(standing.outcomes[task.name])
        case TaskField.OUTPUT:
            return output_text(task, state, outputs)
        case TaskField.OUTPUTS:
            return outputs_of(task, state, outputs)
        case TaskField.SUCCEEDED:
            return state.count(JobPhase.SUCCEEDED)
        case TaskField.FAILED:
            return state.count(JobPhase.FAILED)
        case _:
            assert_never(field)


def _length_of_list(draft: Draft, graph: Graph, task: Task, source: Task) -> int:
    """How many jobs the list of the source task asks for."""
    try:
        length = len(read_items(output_text(source, draft.state_of(source), draft.outputs.kept)))
    except ListError as error:
        raise ListError(f"task {source.name} was to put out a JSON list: {error}") from error
    others = sum(draft.state_of(each).size or 0 for each in graph.order if each is not task)
    if length > LISTED_JOBS_MAX - others:
        raise ListError(
            f"the list of task {source.name} has {length} items, and a run can have {LISTED_JOBS_MAX} jobs whose number"
            f" an output decides, {others} of which it has already; put out fewer items"
        )
    return length


_OF_NOTHING: Mapping[Verdict, TaskOutcome | None] = {
    Verdict.WAIT: None,
    Verdict.RUN: TaskOutcome.SUCCEEDED,
    Verdict.SKIP: TaskOutcome.SKIPPED,
}
_WORST_FIRST: Mapping[JobPhase, TaskOutcome] = {
    JobPhase.FAILED: TaskOutcome.FAILED,
    JobPhase.CANCELLED: TaskOutcome.CANCELLED,
    JobPhase.SKIPPED: TaskOutcome.SKIPPED,
}
