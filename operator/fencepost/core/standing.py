"""Where the tasks of a run stand: which have ended and how, which could start, which never will.

One pass over the graph, parents first. What can no longer run is ended in the same pass, so a skip spreads as far as it
goes at once, through however many tasks. The cost is that of looking at each task and each edge once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fencepost.core.definition import Task
from fencepost.core.draft import Draft
from fencepost.core.graph import Graph
from fencepost.core.phases import JobPhase
from fencepost.core.rules import TaskOutcome, Verdict, judge


@dataclass(slots=True)
class Standing:
    """The tasks of a run at one moment."""

    outcomes: dict[str, TaskOutcome] = field(default_factory=dict)
    """The tasks that have ended."""
    settled_s: dict[str, float] = field(default_factory=dict)
    """Since when what depends on an ended task need no longer wait for it; Unix seconds."""
    ready_s: dict[str, float] = field(default_factory=dict)
    """The tasks whose jobs may start, and since when they might have; Unix seconds."""


def take_stock(draft: Draft, graph: Graph, stopping: bool, start_s: float, now_s: float) -> Standing:
    """End the jobs that can no longer run, and say where all tasks stand then.

    `stopping`: nothing is to start any more, for whatever reason. A task without jobs ends as its rule says.
    """
    standing = Standing()
    for task in graph.order:
        # 1. What its parents mean for it.
        verdict = judge(task.rule, (standing.outcomes.get(parent) for parent in task.depends_on))
        if stopping or draft.fails_fast(task):
            draft.end_unleased(task, JobPhase.CANCELLED)
        elif verdict is Verdict.SKIP:
            draft.end_unleased(task, JobPhase.SKIPPED)
        since_s = max((standing.settled_s.get(parent, start_s) for parent in task.depends_on), default=start_s)
        # 2. Whether it is over, or may start.
        outcome = _outcome(draft, task, verdict)
        if outcome is not None:
            # a worker's clock may be ahead of ours, but what can start now could not start any later
            end_s = min(now_s, draft.last_end_s(task) or start_s)
            standing.outcomes[task.name] = outcome
            standing.settled_s[task.name] = max(end_s, since_s)
        elif verdict is Verdict.RUN and not stopping:
            standing.ready_s[task.name] = since_s
    return standing


def _outcome(draft: Draft, task: Task, verdict: Verdict) -> TaskOutcome | None:
    """How the task ended; None while it has not."""
    if not task.size:
        return _OF_NOTHING[verdict]
    if not draft.ended(task):
        return None
    if draft.succeeded(task):
        return TaskOutcome.SUCCEEDED
    return next(outcome for phase, outcome in _WORST_FIRST.items() if draft.count(task, phase))


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
