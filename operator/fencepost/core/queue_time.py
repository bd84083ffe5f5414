"""How long jobs may wait for a slot, and which of them have waited too long.

A job that is to be leased again waits since its back-off ended; that moment is on record with it. The jobs of a task
that have never been leased wait together, since the moment when the task could start. That moment is kept in the task's
record, by the clock of the leader that saw it first: what workers tell of is told by other clocks, and no job may fail
because one of those is wrong. A run that is suspended is in no queue: the clock begins anew when it goes on.

Where the run itself holds jobs back (`maxParallel`, or more jobs than may be open at once) they do not wait for the
pool: there the clock begins anew whenever one of the jobs ends that held others back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.core.definition import Task
from fencepost.core.draft import FAILURES_KEPT, Draft
from fencepost.core.graph import Graph
from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase
from fencepost.core.placement import Demand


@dataclass(frozen=True, slots=True)
class Expiry:
    """What has waited too long, and when the next job will have (Unix seconds)."""

    failed: tuple[JobKey, ...] = ()
    next_s: float | None = None


def expire_queued(draft: Draft, graph: Graph, demands: Sequence[Demand], open_max: int, now_s: float) -> Expiry:
    """Fail the jobs that have found no slot within their task's `queueTimeout`. `demands`: what could start now."""
    failed: list[JobKey] = []
    moments_s: list[float] = []
    for demand in demands:
        task = graph.tasks[demand.task]
        if task.queue_timeout_s is None:
            continue
        since_s = _since_s(draft, task, crowded=draft.size_of_all(graph.order) > open_max, now_s=now_s)
        due = [job for job in draft.waiting_of(task) if draft.waiting[job].not_before_s <= now_s]
        ends_s = {job: max(since_s, draft.waiting[job].not_before_s) + task.queue_timeout_s for job in due}
        overdue = [job for job, end_s in ends_s.items() if end_s <= now_s]
        for job in overdue:
            draft.end_waiting(job, JobPhase.FAILED)
        moments_s += [end_s for end_s in ends_s.values() if end_s > now_s]
        if demand.count > len(due):  # the jobs that have never been leased are in the queue too
            end_s = since_s + task.queue_timeout_s
            if end_s > now_s:
                moments_s.append(end_s)
            else:
                overdue += [
                    JobKey(task.name, index) for index in draft.end_idle(task, JobPhase.QUEUED, JobPhase.FAILED)
                ]
        for job in overdue[:FAILURES_KEPT]:
            fact = f"it found no slot within {task.queue_timeout_s:g} s"
            draft.note_failure(job, f"QueueTimeout: {fact}; raise queueTimeout, or give the pool more slots")
        failed += overdue
    return Expiry(tuple(failed), min(moments_s, default=None))


def begin_queues_anew(draft: Draft, graph: Graph, demands: Sequence[Demand], now_s: float) -> None:
    """Count from now, as the run that wants this was suspended until now."""
    for demand in demands:
        if graph.tasks[demand.task].queue_timeout_s is not None:
            draft.note_queued(graph.tasks[demand.task], now_s)


def _since_s(draft: Draft, task: Task, *, crowded: bool, now_s: float) -> float:
    """Since when the jobs of the task wait that no back-off holds; noted in the draft where it begins now."""
    held_back = crowded or task.max_parallel is not None
    ended = draft.tasks_let_go() if held_back else frozenset()
    let_in = bool(ended) if crowded else task.name in ended
    since_s = draft.queued_s(task)
    if let_in or (since_s is None and (held_back or draft.idle_count(task))):
        since_s = now_s
        draft.note_queued(task, now_s)
    return 0.0 if since_s is None else since_s
