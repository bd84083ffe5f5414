"""A run's state while one plan works on it: the moves of single jobs, each checked against the table of phases.

A plan thaws the stored state into a draft, moves jobs, and freezes it again. The draft copies what it changes and no
more, so planning a run costs what its record is long.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import reduce

from fencepost.core.definition import Task
from fencepost.core.fan_out import size_of
from fencepost.core.intervals import EMPTY, IntervalSet
from fencepost.core.names import JobKey
from fencepost.core.outputs import OutputShelf
from fencepost.core.phases import MARKS, IllegalMoveError, JobPhase, move_job
from fencepost.core.run_state import Death, Lease, LetterSet, Result, RunState, TaskState, Waiting
from fencepost.core.thresholds import cannot_succeed, has_succeeded

FAILURES_KEPT = 10
"""Jobs whose failure a run describes; the others are only counted."""
FAILURE_BYTES_MAX = 512
"""Of one such description, as JSON."""

_NOTHING = TaskState()


class Draft:
    """A mutable run state; `freeze` gives the value."""

    def __init__(self, state: RunState) -> None:
        self.stored = state
        self.leases: dict[JobKey, Lease] = dict(state.leases)
        self.waiting: dict[JobKey, Waiting] = dict(state.waiting)
        self.tasks: dict[str, TaskState] = dict(state.tasks)
        self.failures: dict[JobKey, str] = dict(state.failures)
        self.outputs = OutputShelf(state.outputs)
        self.dying: dict[JobKey, Death] = dict(state.dying)
        self.replays: dict[LetterSet, IntervalSet] = dict(state.replays)
        self.done = state.done
        self._busy: dict[str, set[int]] = {}
        """By task: indices that are leased or wait for another attempt."""
        for job in (*state.leases, *state.waiting):
            self._busy.setdefault(job.task, set()).add(job.index)

    def freeze(self) -> RunState:
        """The stored state with the jobs as they are now; phase, times and reason are the plan's to set."""
        return replace(
            self.stored,
            leases=self.leases,
            waiting=self.waiting,
            tasks=self.tasks,
            failures=self.failures,
            outputs=self.outputs.kept,
            dying=self.dying,
            replays=self.replays,
            done=self.done,
        )

    def state_of(self, task: Task) -> TaskState:
        """How the jobs of the task ended so far."""
        return self.tasks.get(task.name, _NOTHING)

    def size(self, task: Task) -> int:
        """How many jobs the task has, as far as is known."""
        return size_of(task, self.state_of(task))

    def size_of_all(self, tasks: Iterable[Task]) -> int:
        """How many jobs these tasks have, as far as is known."""
        return sum(self.size(task) for task in tasks)

    def begun(self, task: Task) -> bool:
        """Whether a job of it has ever been leased, as far as the record tells: jobs that failed without a start may
        have failed by the task's condition, and not one of them has been leased then."""
        state = self.state_of(task)
        return bool(self._busy.get(task.name) or state.count(JobPhase.SUCCEEDED)) or state.first_start_s is not None

    def ended(self, task: Task) -> bool:
        """Whether all jobs of the task have ended; at once where it has none."""
        return self.state_of(task).ended_count >= self.size(task)

    def succeeded(self, task: Task) -> bool:
        """Whether all jobs of the task have ended, and enough of them well."""
        return has_succeeded(task, self.state_of(task), self.size(task))

    def fails_fast(self, task: Task) -> bool:
        """Whether what is left of the task is to be cancelled."""
        return task.fail_fast and cannot_succeed(task, self.state_of(task), self.size(task))

    def last_end_s(self, task: Task) -> float | None:
        """The latest end of an attempt of the task, by the workers' clocks."""
        return self.state_of(task).last_end_s

    def idle_count(self, task: Task) -> int:
        """Jobs of the task that have never been started and have not ended."""
        return self.size(task) - self.state_of(task).ended_count - len(self._busy.get(task.name, ()))

    def count(self, task: Task, phase: JobPhase) -> int:
        """Jobs of the task that ended in this phase."""
        return self.state_of(task).count(phase)

    def queued_s(self, task: Task) -> float | None:
        """Since when its jobs that have never been leased wait for a slot, as far as that is noted."""
        return self.state_of(task).queued_s

    def note_queued(self, task: Task, moment_s: float | None) -> None:
        """From this moment on they wait; None: none of them does."""
        state = replace(self.state_of(task), queued_s=moment_s)
        if state == _NOTHING:
            self.tasks.pop(task.name, None)
        else:
            self.tasks[task.name] = state

    def tasks_let_go(self) -> frozenset[str]:
        """Tasks of which a job has ended, or is no longer leased: another may come in its place."""
        leases = (job.task for job in self.stored.leases if job not in self.leases)
        waiting = (job.task for job in self.stored.waiting if job not in self.waiting)
        return frozenset((*leases, *waiting))

    def waiting_of(self, task: Task) -> list[JobKey]:
        """Jobs of the task that have been leased before and are to be leased again, by index."""
        jobs = (JobKey(task.name, index) for index in sorted(self._busy.get(task.name, ())))
        return [job for job in jobs if job in self.waiting]

    @property
    def open_count(self) -> int:
        """How many jobs the run keeps a string for: leased, waiting, dying, or replayed and not told of yet."""
        return len(self.leases) + len(self.waiting) + len(self.dying) + sum(map(len, self.replays.values()))

    def total(self, phase: JobPhase) -> int:
        """Jobs of the run that ended in this phase."""
        return sum(state.count(phase) for state in self.tasks.values())

    def idle(self, task: Task) -> Iterable[int]:
        """Indices of the jobs that `idle_count` counts; ascending, lazy."""
        busy = self._busy.get(task.name, ())
        union = EMPTY
        for indices in self.state_of(task).ended.values():
            union = union.union(indices)
        return (index for index in union.gaps(self.size(task)) if index not in busy)

    def lease(self, job: JobKey, lease: Lease) -> None:
        """A job that waits, or that has never been started, is given to a worker."""
        move_job(JobPhase.RUNNING if job in self.leases else JobPhase.QUEUED, JobPhase.RUNNING)
        self.waiting.pop(job, None)
        self.leases[job] = lease
        self._busy.setdefault(job.task, set()).add(job.index)

    def requeue(self, job: JobKey, waiting: Waiting) -> None:
        """A leased job is to be leased again."""
        move_job(JobPhase.RUNNING, JobPhase.QUEUED)
        del self.leases[job]
        self.waiting[job] = waiting

    def end_leased(self, job: JobKey, phase: JobPhase) -> None:
        """A leased job has ended in this phase."""
        move_job(JobPhase.RUNNING, phase)
        del self.leases[job]
        self._busy[job.task].discard(job.index)
        self._end(job.task, phase, IntervalSet.of([job.index]))

    def set_size(self, task: Task, size: int) -> None:
        """An output has decided how many jobs the task has, none of which has begun."""
        self.tasks[task.name] = replace(self.state_of(task), size=size)

    def fail_unstarted(self, task: Task, fact: str, why: str) -> list[JobKey]:
        """The jobs of a task that is ready cannot be started, for this reason; which they are."""
        failed = self.end_idle(task, JobPhase.QUEUED, JobPhase.FAILED)
        jobs = [JobKey(task.name, index) for index in failed]
        for job in jobs[:1]:
            self.note_failure(job, fact, why)
        return jobs

    def end_unleased(self, task: Task, phase: JobPhase) -> None:
        """All jobs of the task that have neither ended nor a lease end in this phase (Skipped or Cancelled)."""
        for job in self.waiting_of(task):
            self.end_waiting(job, phase)
        self.end_idle(task, JobPhase.PENDING, phase)

    def end_waiting(self, job: JobKey, phase: JobPhase) -> None:
        """A job that was to be leased again has ended in this phase."""
        move_job(JobPhase.QUEUED, phase)
        del self.waiting[job]
        self._busy[job.task].discard(job.index)
        self._end(job.task, phase, IntervalSet.of([job.index]))

    def end_idle(self, task: Task, old: JobPhase, phase: JobPhase) -> IntervalSet:
        """The jobs of the task that have never been leased, all of them in phase `old`, have ended in `phase`."""
        rest = IntervalSet.of(self.idle(task))
        if rest:
            move_job(old, phase)
            self._end(task.name, phase, rest)
            self.note_queued(task, None)
        return rest

    def unmarked(self, task: Task, indices: IntervalSet, phase: JobPhase) -> IntervalSet:
        """Those of the task's jobs that have not ended in this phase."""
        return indices.difference(self.state_of(task).ended.get(phase, EMPTY))

    def mark(self, task: Task, indices: IntervalSet, phase: JobPhase) -> None:
        """These jobs end in this phase wherever they stand, as a person says so."""
        if phase not in MARKS:
            raise IllegalMoveError(f"no job is marked {phase} by hand")
        size = self.state_of(task).size
        self.reopen(task, indices)
        for index in indices:
            self.leases.pop(JobKey(task.name, index), None)
            self._busy.get(task.name, set()).discard(index)
        self._end(task.name, phase, indices)
        if size is not None:
            self.set_size(task, size)

    def reopen(self, task: Task, indices: IntervalSet) -> None:
        """These jobs have not ended, and have never been started; those that are leased go on. Where none is left that
        has ended or is leased, an output is to decide anew how many there are; where none is left that has succeeded
        or is leased, the condition is asked anew."""
        if not indices:
            return
        for index in self._busy.get(task.name, set()) & set(indices):
            if self.waiting.pop(JobKey(task.name, index), None) is not None:
                self._busy[task.name].discard(index)
        for told in (self.failures, self.dying):
            for job in [job for job in told if job.task == task.name and job.index in indices]:
                del told[job]
        old = self.tasks.get(task.name)
        if old is None:
            return
        left = {phase: ended.difference(indices) for phase, ended in old.ended.items()}
        self.done += sum(map(len, left.values())) - old.ended_count
        for job in [job for job in self.outputs.kept if job.task == task.name and job.index in indices]:
            self.outputs.drop(job)
        goes_on = bool(self._busy.get(task.name))
        state = replace(old, ended={phase: each for phase, each in left.items() if each}, queued_s=None)
        if not goes_on and not state.count(JobPhase.SUCCEEDED):
            state = replace(state, first_start_s=None, last_end_s=None)  # what is left of it has not begun
        if state == _NOTHING or not (goes_on or state.ended):
            del self.tasks[task.name]
        else:
            self.tasks[task.name] = state

    def ended_in(self, task: Task, *phases: JobPhase) -> IntervalSet:
        """The task's jobs that ended in one of these phases."""
        ended = self.state_of(task).ended
        return reduce(IntervalSet.union, (ended.get(phase, EMPTY) for phase in phases), EMPTY)

    def note_times(self, task: str, result: Result) -> None:
        """Widen the task's span by what a result tells."""
        old = self.tasks.get(task, _NOTHING)
        starts = [moment for moment in (old.first_start_s, result.started_at_s) if moment is not None]
        ends = [moment for moment in (old.last_end_s, result.ended_at_s) if moment is not None]
        self.tasks[task] = replace(old, first_start_s=min(starts, default=None), last_end_s=max(ends, default=None))

    def note_failure(self, job: JobKey, fact: str, output: str = "") -> None:
        """Keep why this job failed for good, and as much of the end of its output as there is room for."""
        if len(self.failures) < FAILURES_KEPT:
            tail = _tail(output, FAILURE_BYTES_MAX - len(f"{fact}: "))
            self.failures[job] = f"{fact}: {tail}" if tail else fact

    def _end(self, task: str, phase: JobPhase, indices: IntervalSet) -> None:
        old = self.tasks.get(task, _NOTHING)
        ended = {**old.ended, phase: old.ended.get(phase, EMPTY).union(indices)}
        self.tasks[task] = replace(old, ended=ended)
        self.done += len(indices)


def _tail(text: str, bytes_max: int) -> str:
    """The end of the text, as much as takes so many bytes in JSON, where one character may take six."""
    start = len(text)
    while start:
        bytes_max -= len(json.dumps(text[start - 1], ensure_ascii=False).encode()) - 2
        if bytes_max < 0:
            break
        start -= 1
    return text[start:]
