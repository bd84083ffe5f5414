"""Another round of a run that has finished: what is run again, and when it may begin.

A person raises `spec.round`, and `spec.rerun` beside it says what that round runs again. The operator answers in one
write: it raises `status.round` to `spec.round`, opens the jobs concerned, and may lease the first of them. So a round
is taken up exactly once, whoever crashes: before that write nothing has happened, after it nothing is due.

All else stays: jobs that are not run again keep their ends and outputs; the lease counter goes on, so every lease of
the new round has a higher token than all before; execution ids are the same. A job that is run again begins with its
first attempt, and the run's time limit counts from the beginning of the round.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import assert_never

from fencepost.core.definition import Task
from fencepost.core.draft import Draft
from fencepost.core.graph import Graph
from fencepost.core.intervals import EMPTY, IntervalSet
from fencepost.core.phases import JobPhase, again
from fencepost.core.run_spec import Rerun, RerunFrom, RunSpec
from fencepost.core.run_state import RunState

_NOT_WELL = (JobPhase.FAILED, JobPhase.SKIPPED, JobPhase.CANCELLED)
_NEVER_RUN = (JobPhase.SKIPPED, JobPhase.CANCELLED)


def round_due(spec: RunSpec, state: RunState) -> bool:
    """Whether a person has asked for a round that has not been taken up. Who cancels it meanwhile takes it back."""
    return spec.round > state.round and state.phase.finished and not spec.cancel


def begin_round(state: RunState, number: int) -> RunState:
    """The finished run as it goes on in the round of this number; its jobs are opened by `open_jobs`."""
    phase = again(state.phase, leased_before=state.lease_counter > 0)
    return replace(state, phase=phase, round=number, start_s=None, finish_s=None, reason="", message="")


def open_jobs(state: RunState, graph: Graph, rerun: Rerun) -> RunState:
    """Open what the round runs again, and what was skipped or cancelled below it, so that it can go on."""
    draft = Draft(state)
    chosen = {task.name: indices for task in graph.order if (indices := _chosen(draft, task, rerun))}
    below = tasks_below(graph, chosen)
    for task in graph.order:
        indices = chosen.get(task.name, EMPTY)
        if task.name in below:
            left = _all_of(draft, task) if rerun.downstream else draft.ended_in(task, *_NEVER_RUN)
            indices = indices.union(left)
        draft.reopen(task, indices)
    return draft.freeze()


def tasks_below(graph: Graph, names: Collection[str]) -> frozenset[str]:
    """The tasks that depend on one of these, directly or through others."""
    below: set[str] = set()
    for task in graph.order:
        if any(parent in names or parent in below for parent in task.depends_on):
            below.add(task.name)
    return frozenset(below)


def _chosen(draft: Draft, task: Task, rerun: Rerun) -> IntervalSet:
    match rerun.source:
        case RerunFrom.ALL:
            return _all_of(draft, task)
        case RerunFrom.FAILED:
            return draft.ended_in(task, *_NOT_WELL)
        case RerunFrom.JOBS:
            named = rerun.jobs.get(task.name, EMPTY)
            return _all_of(draft, task) if named is None else named.intersection(_all_of(draft, task))
        case _:
            assert_never(rerun.source)


def _all_of(draft: Draft, task: Task) -> IntervalSet:
    return IntervalSet.span(0, draft.size(task) - 1)
