"""Two pictures of the runs in words: what has happened between them, in short lines for people."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from fencepost.core.intervals import EMPTY, IntervalSet
from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase, RunPhase
from fencepost.core.run_state import Lease, RunState, TaskState
from tests.e2e.demo.picture import Run, without_nonce

NOTHING = TaskState()


class Story:
    """Tells each thing once: first what was `leased`, then what has `ended`, with what jobs print between the two."""

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, JobKey], int] = {}
        self._seen: Mapping[str, Run] = {}

    def leased(self, runs: Mapping[str, Run]) -> Iterator[str]:
        """One line for all jobs of a task that were leased by one write, as they share its token."""
        for run in runs.values():
            groups: dict[tuple[int, str], list[tuple[JobKey, Lease]]] = defaultdict(list)
            for job, lease in run.state.leases.items():
                if lease.token > self._tokens.get((run.name, job), 0):
                    groups[lease.token, job.task].append((job, lease))
            for (token, _), leased in sorted(groups.items()):
                jobs = job_names(run, [job for job, _ in leased])
                workers = ", ".join(sorted({without_nonce(lease.worker) for _, lease in leased}))
                yield f"{run.name}: token {token} leases {jobs} to {workers}"
                self._tokens |= {(run.name, job): token for job, _ in leased}

    def ended(self, runs: Mapping[str, Run]) -> Iterator[str]:
        """How jobs and runs have ended since the last time."""
        before, self._seen = self._seen, runs
        for name, run in runs.items():
            old, new = before[name].state if name in before else RunState(), run.state
            for task in run.tasks:
                yield from _ended(run, task, old.tasks.get(task, NOTHING), new.tasks.get(task, NOTHING))
            for job, waiting in new.waiting.items():
                if waiting.attempt > 1 and old.waiting.get(job) != waiting:
                    yield f"{name}: {run.label(job)} failed at attempt {waiting.attempt - 1} and waits for the next"
            if new.phase.finished and not old.phase.finished:
                yield _finished(run)


def _ended(run: Run, task: str, old: TaskState, new: TaskState) -> Iterator[str]:
    for phase in JobPhase:
        before = old.ended.get(phase, EMPTY)
        fresh = [JobKey(task, index) for index in new.ended.get(phase, EMPTY) if index not in before]
        if fresh:
            yield f"{run.name}: {job_names(run, fresh)} {str(phase).lower()}"


def job_names(run: Run, jobs: Sequence[JobKey]) -> str:
    """Jobs of one task: `pack[0-3,6]`, or the name of a task that has no fan-out."""
    task = jobs[0].task
    return task if run.tasks.get(task) is None else f"{task}[{IntervalSet.of(job.index for job in jobs)}]"


def _finished(run: Run) -> str:
    state = run.state
    took_s = (state.finish_s or 0.0) - (state.start_s or 0.0)
    why = "" if state.phase is RunPhase.SUCCEEDED else f", {state.reason}: {state.message}"
    return f"{run.name}: {state.phase}, {state.done} of {state.total} jobs in {took_s:.0f} s{why}"
