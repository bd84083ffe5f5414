"""What is known of one run, job by job: put together from every version of its DAGRun and of the Workers.

The DAGRun says which jobs are leased, wait or have ended; that is what counts. When an attempt began and ended, with
which exit code and with which last words, only the worker's result tells, and it leaves the Worker soon after it has
been folded. So both are followed, and a result is kept here under its job.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.api.codec import decode_result, decode_run_status
from fencepost.api.times import format_time
from fencepost.core.definition import Task
from fencepost.core.fan_out import size_of
from fencepost.core.graph import Graph
from fencepost.core.names import JobKey, parse_mailbox_key
from fencepost.core.phases import ENDED_PHASES, JobPhase
from fencepost.core.run_state import Result, RunState, TaskState
from fencepost.kube.protocol import Obj

_NOTHING = TaskState()
_WORST_FIRST = (JobPhase.FAILED, JobPhase.CANCELLED, JobPhase.SKIPPED, JobPhase.SUCCEEDED)


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One task as a line of a table."""

    task: Task
    size: int
    """How many jobs it has, as far as is known."""
    phase: JobPhase
    """Of its jobs together: the worst once all have ended."""
    ended: dict[JobPhase, int]
    """How many jobs ended how; phases in which none did are left out."""
    running: int
    attempts: int
    """Of all its jobs together."""
    start_s: float | None
    """Unix seconds: of its first attempt. None while none has begun."""
    end_s: float | None
    """Of its last attempt; None until all jobs have ended."""

    @property
    def done(self) -> int:
        """How many of its jobs have ended."""
        return sum(self.ended.values())


class Ledger:
    """The run that it is told of, as it stands."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.run: Obj = {}
        """The newest version of the DAGRun."""
        self.state = RunState()
        self.results: dict[JobKey, Result] = {}
        """Of each job the last attempt's that has ended."""
        self._attempts: dict[JobKey, int] = {}
        self._first_leases_s: dict[str, float] = {}
        self._texts: dict[str, str] = {}

    def see_worker(self, worker: Obj) -> None:
        """A version of a Worker: keep the results that are new in it."""
        results = worker.get("status", {}).get("results", {})
        for key, text in results.items():
            if self._texts.get(key) != text:
                self.results[parse_mailbox_key(key).job] = decode_result(text)
        self._texts = results

    def see_run(self, run: Obj) -> RunState:
        """A version of the DAGRun; the state before it."""
        before = self.state
        self.run = run
        if "status" in run:
            self.state = decode_run_status(run["status"])
        for job, lease in self.state.leases.items():
            self._attempts[job] = lease.attempt
            self._first_leases_s.setdefault(job.task, lease.leased_at_s)
        return before

    def attempts(self, job: JobKey) -> int:
        """How often a job has been started."""
        return self._attempts.get(job, 0)

    def rows(self) -> list[TaskRow]:
        """Every task, in an order in which parents come before their children."""
        running = Counter(job.task for job in self.state.leases)
        attempts: Counter[str] = Counter()
        for job, count in self._attempts.items():
            attempts[job.task] += count
        return [self._row(task, running[task.name], attempts[task.name]) for task in self.graph.order]

    def jobs(self) -> Iterator[dict[str, Any]]:
        """Every job as JSON, in the order of `rows`, then by index; what is not known is left out."""
        for task in self.graph.order:
            state = self.state.tasks.get(task.name, _NOTHING)
            for index in range(size_of(task, state)):
                job = JobKey(task.name, index)
                yield self._job(job, state.phase_of(index) or self._open_phase(job))

    def _row(self, task: Task, running: int, attempts: int) -> TaskRow:
        state = self.state.tasks.get(task.name, _NOTHING)
        ended = {phase: state.count(phase) for phase in ENDED_PHASES if state.count(phase)}
        over = state.ended_count >= size_of(task, state)
        if over:
            phase = next((phase for phase in _WORST_FIRST if phase in ended), JobPhase.SUCCEEDED)
        elif running:
            phase = JobPhase.RUNNING
        else:
            phase = self._waiting_phase(task)
        start_s = state.first_start_s or self._first_leases_s.get(task.name)
        return TaskRow(
            task, size_of(task, state), phase, ended, running, attempts, start_s, state.last_end_s if over else None
        )

    def _open_phase(self, job: JobKey) -> JobPhase:
        return JobPhase.RUNNING if job in self.state.leases else self._waiting_phase(self.graph.tasks[job.task])

    def _waiting_phase(self, task: Task) -> JobPhase:
        parents: Sequence[Task] = [self.graph.tasks[name] for name in task.depends_on]
        # Whatever its rule: one that is not met once they have ended is skipped in the write that ends the last one.
        states = ((parent, self.state.tasks.get(parent.name, _NOTHING)) for parent in parents)
        ready = all(state.ended_count >= size_of(parent, state) for parent, state in states)
        return JobPhase.QUEUED if ready else JobPhase.PENDING

    def _job(self, job: JobKey, phase: JobPhase) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "task": job.task,
            "index": job.index,
            "phase": str(phase),
            "attempts": self.attempts(job),
        }
        result = self.results.get(job)
        if result is not None:
            known = {
                "exitCode": result.exit_code,
                "startTime": _time(result.started_at_s),
                "finishTime": _time(result.ended_at_s),
                "message": result.message or None,
                "output": result.output or None,
            }
            fields |= {name: value for name, value in known.items() if value is not None}
        return fields


def _time(unix_s: float | None) -> str | None:
    return None if unix_s is None else format_time(unix_s, millis=True)
