"""Jobs marked by hand: a person's word on how a job ended (`spec.overrides`).

A mark holds throughout its round, in every plan of it, so there is nothing to remember of having obeyed it: a plan that
finds the job as marked does nothing. In the next round it means nothing any more.

A job that runs is stopped first. It stays leased until its worker has answered, is shut out, or has lost its entry;
then it ends as marked, whatever the answer says.

What was skipped or cancelled below a job that ends otherwise now is opened again, and its rule judged anew.
"""

from collections.abc import Collection, Mapping

from fencepost.core.draft import Draft
from fencepost.core.fan_out import size_of
from fencepost.core.graph import Graph
from fencepost.core.intervals import EMPTY, IntervalSet
from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase
from fencepost.core.rounds import tasks_below
from fencepost.core.run_spec import Mark
from fencepost.core.run_state import RunState, TaskState


def obey_marks(draft: Draft, graph: Graph, marks: Mapping[str, Mark], over: Collection[JobKey]) -> frozenset[JobKey]:
    """End the jobs that are marked in this round; the leased ones that have to be stopped before they can be ended.

    `over`: leased jobs whose worker has answered, or can do nothing more about them. Marks of jobs that there are not
    are passed over; `vain_marks` tells which.
    """
    to_stop: set[JobKey] = set()
    changed: set[str] = set()
    leased = _leased(draft)
    for name, by_phase in _wanted(draft, graph, marks).items():
        for (phase, by), wanted in by_phase.items():
            todo = draft.unmarked(graph.tasks[name], wanted, phase)
            held = IntervalSet.of(index for index in leased.get(name, ()) if JobKey(name, index) not in over)
            to_stop |= {JobKey(name, index) for index in todo.intersection(held)}
            todo = todo.difference(held)
            if not todo:
                continue
            draft.mark(graph.tasks[name], todo, phase)
            changed.add(name)
            if phase is JobPhase.FAILED:
                draft.note_failure(JobKey(name, next(iter(todo))), f"marked Failed by {by or 'hand'}")
    for name in tasks_below(graph, changed):
        task = graph.tasks[name]
        draft.reopen(task, draft.ended_in(task, JobPhase.SKIPPED, JobPhase.CANCELLED))
    return frozenset(to_stop)


def vain_marks(state: RunState, graph: Graph, marks: Mapping[str, Mark]) -> list[str]:
    """Keys of this round's marks that name a task, or a job, which the run does not have and will not have."""
    return sorted(key for key, mark in marks.items() if mark.round == state.round and not _may_have(state, graph, key))


def _may_have(state: RunState, graph: Graph, key: str) -> bool:
    name, _, index = key.partition("/")
    task = graph.tasks.get(name)
    if task is None:
        return False
    task_state = state.tasks.get(name, TaskState())
    undecided = task.items_from is not None and task_state.size is None
    return not index or undecided or int(index) < size_of(task, task_state)


def _wanted(
    draft: Draft, graph: Graph, marks: Mapping[str, Mark]
) -> dict[str, dict[tuple[JobPhase, str], IntervalSet]]:
    """By task: the jobs that are marked in this round, by how and by whom. A mark of one job goes before one of all."""
    wanted: dict[str, dict[tuple[JobPhase, str], IntervalSet]] = {}
    for key, mark in sorted(marks.items()):  # a task comes before its jobs
        name, _, index = key.partition("/")
        task = graph.tasks.get(name)
        if task is None or mark.round != draft.stored.round:
            continue
        all_jobs = IntervalSet.span(0, draft.size(task) - 1)
        jobs = IntervalSet.of([int(index)]).intersection(all_jobs) if index else all_jobs
        others = {how: before.difference(jobs) for how, before in wanted.get(name, {}).items()}
        how = (mark.phase, mark.by)
        wanted[name] = {**others, how: others.get(how, EMPTY).union(jobs)}
    return wanted


def _leased(draft: Draft) -> dict[str, list[int]]:
    leased: dict[str, list[int]] = {}
    for job in draft.leases:
        leased.setdefault(job.task, []).append(job.index)
    return leased
