"""A run in words: one line for each change of a job, made from two versions of the run."""

from collections.abc import Iterator

from fencepost.api.times import format_duration
from fencepost.cli.ledger import Ledger
from fencepost.core.graph import Graph
from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase
from fencepost.core.placement import Block
from fencepost.core.run_state import Lease, Outcome, Result, RunState, TaskState

_NOTHING = TaskState()
_UNSTARTED_ENDS = (JobPhase.SKIPPED, JobPhase.CANCELLED)


def narrate(before: RunState, ledger: Ledger) -> Iterator[str]:
    """What has changed since `before`, in the order in which it can have happened."""
    now = ledger.state
    ended: dict[tuple[str, JobPhase], int] = {}
    for job, lease in before.leases.items():
        if now.leases.get(job) == lease:
            continue
        phase = now.tasks.get(job.task, _NOTHING).phase_of(job.index)
        if phase is not None:
            ended[job.task, phase] = ended.get((job.task, phase), 0) + 1
        yield _end_of_attempt(job, lease, phase, ledger)
    for task in ledger.graph.order:
        for phase in _UNSTARTED_ENDS:
            count = now.tasks.get(task.name, _NOTHING).count(phase) - before.tasks.get(task.name, _NOTHING).count(phase)
            count -= ended.get((task.name, phase), 0)
            if count > 0:
                yield f"{task.name}: {phase}" if not task.is_fan_out else f"{task.name}: {count} jobs {phase}"
    for job, lease in now.leases.items():
        if before.leases.get(job) != lease:
            again = f", attempt {lease.attempt}" if lease.attempt > 1 else ""
            yield f"{job_label(ledger.graph, job)}: Running{again}"
    if now.reason != before.reason and (reason := reason_text(now)):
        yield reason


def reason_text(state: RunState) -> str:
    """Why the run does not go on as usual; that jobs wait for a slot is usual where there is one machine."""
    if not state.reason or state.phase.finished or state.reason in tuple(Block):
        return ""
    return f"{state.reason}: {state.message}" if state.message else state.reason


def job_label(graph: Graph, job: JobKey) -> str:
    """`load[3]`; for a task that has no fan-out its name alone."""
    return f"{job.task}[{job.index}]" if graph.tasks[job.task].is_fan_out else job.task


def span_text(seconds: float) -> str:
    """`0.4 s`; from a minute on `1m3s`."""
    return f"{max(0.0, seconds):.1f} s" if seconds < 59.95 else format_duration(seconds)


def failure_text(result: Result) -> str:
    """How a failed attempt ended, without its last words: `exit code 3`, `signal 9`, or what the worker says."""
    if result.outcome is not Outcome.FAILED or not result.exit_code:
        return result.message.partition("\n")[0] or str(result.outcome)
    return f"signal {-result.exit_code}" if result.exit_code < 0 else f"exit code {result.exit_code}"


def _end_of_attempt(job: JobKey, lease: Lease, phase: JobPhase | None, ledger: Ledger) -> str:
    label, result = job_label(ledger.graph, job), ledger.results.get(job)
    if result is None or result.token != lease.token:
        return f"{label}: {phase}" if phase is not None else f"{label}: attempt {lease.attempt} is lost; again at once"
    how = "" if result.outcome is Outcome.SUCCEEDED else f" ({failure_text(result)})"
    took = ""
    if result.started_at_s is not None and result.ended_at_s is not None:
        took = f" in {span_text(result.ended_at_s - result.started_at_s)}"
    if phase is not None:
        return f"{label}: {phase}{how}{took}"
    waiting = ledger.state.waiting.get(job)
    again = ""
    if waiting is not None and result.ended_at_s is not None:
        again = f"; again in {span_text(waiting.not_before_s - result.ended_at_s)}"
    return f"{label}: attempt {lease.attempt} {result.outcome}{how}{took}{again}"
