"""Where each task of a run stands, and why its jobs that do not run do not: for people, from the record alone.

The same pass over the graph that plans a run (`core.standing`) is made over what is stored, and each group of jobs that
waits gets one sentence with numbers. It asks nobody: what it cannot know is what the pool will do next, so where jobs
wait for a slot it passes on what the leader has written into the run.

The critical path is the chain of tasks that decided how long the run took: from the task that ended last, back through
whichever parent ended last before it. Of a run under way it is the path so far.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fencepost.core.definition import Task
from fencepost.core.draft import Draft
from fencepost.core.graph import Graph
from fencepost.core.names import JobKey
from fencepost.core.phases import ENDED_PHASES, JobPhase
from fencepost.core.rules import TaskOutcome, Verdict, judge
from fencepost.core.run_state import Lease, RunState, TaskState
from fencepost.core.standing import Standing, take_stock

LINES_MAX = 5
"""Jobs of one task that are told of one by one; the others are counted."""
STOPPING = ("Cancelling", "TimingOut")
"""Reasons of a run whose jobs are being stopped."""
_NOTHING = TaskState()


@dataclass(frozen=True, slots=True)
class TaskAccount:
    """One task, as a person wants to know of it."""

    task: Task
    counts: Mapping[JobPhase, int]
    """Its jobs by phase; phases of none are left out."""
    size: int
    """How many jobs it has, as far as is known."""
    over: bool
    """It has ended."""
    why: tuple[str, ...] = ()
    """A sentence for each group of jobs that has not succeeded, and for those that run."""
    start_s: float | None = None
    """Unix seconds, by workers' clocks: of the first attempt that has been told of."""
    end_s: float | None = None
    """Of the last one; while jobs of it are left, it is not over then."""
    critical: bool = False
    """On the critical path."""


@dataclass(slots=True)
class _Stock:
    """A run's record, laid out for one account."""

    state: RunState
    now_s: float
    draft: Draft
    standing: Standing
    leases: dict[str, dict[JobKey, Lease]] = field(default_factory=dict)


def explain_run(state: RunState, graph: Graph, values: Mapping[str, str], now_s: float) -> tuple[TaskAccount, ...]:
    """An account of each task, in topological order. `values`: what params and the run stand for, by reference."""
    draft = Draft(state)
    stopping = state.reason in STOPPING
    standing = take_stock(draft, graph, values, stopping, state.start_s or now_s, now_s)
    stock = _Stock(state, now_s, draft, standing)
    for job, lease in sorted(state.leases.items()):
        stock.leases.setdefault(job.task, {})[job] = lease
    accounts = {task.name: _account(stock, task) for task in graph.order}
    critical = _critical_path(accounts, graph)
    return tuple(replace(each, critical=name in critical) for name, each in accounts.items())


def _account(stock: _Stock, task: Task) -> TaskAccount:
    draft, ready = stock.draft, task.name in stock.standing.ready_s
    waiting, idle = draft.waiting_of(task), draft.idle_count(task)
    counts = {phase: draft.count(task, phase) for phase in ENDED_PHASES}
    counts[JobPhase.RUNNING] = len(stock.leases.get(task.name, ()))
    counts[JobPhase.QUEUED] = len(waiting) + (idle if ready else 0)
    counts[JobPhase.PENDING] = 0 if ready else idle
    record = stock.state.tasks.get(task.name, _NOTHING)
    kept = {phase: count for phase, count in counts.items() if count}
    return TaskAccount(
        task,
        kept,
        size=draft.size(task),
        over=task.name in stock.standing.outcomes,
        why=tuple(_reasons(stock, task, kept)),
        start_s=record.first_start_s,
        end_s=record.last_end_s,
    )


def _reasons(stock: _Stock, task: Task, counts: Mapping[JobPhase, int]) -> Iterator[str]:
    if JobPhase.FAILED in counts:
        told = [f"{job} failed: {text}" for job, text in sorted(stock.state.failures.items()) if job.task == task.name]
        yield from _listed(told, counts[JobPhase.FAILED], "failed")
    if JobPhase.SKIPPED in counts:
        yield f"{_jobs(counts[JobPhase.SKIPPED])} skipped: {_why_skipped(stock, task)}"
    if JobPhase.RUNNING in counts:
        running = [_running(stock, job, lease) for job, lease in stock.leases[task.name].items()]
        yield from _listed(running, len(running), "run")
    if JobPhase.QUEUED in counts:
        yield from _queued(stock, task, counts)
    if JobPhase.PENDING in counts:
        left = [f"{name} ({_progress(stock, name)})" for name, outcome in _parents(stock, task) if outcome is None]
        what = ", ".join(left) or "what comes before its parents"
        yield f"{_jobs(counts[JobPhase.PENDING])} pending: waits for {what}"


def _why_skipped(stock: _Stock, task: Task) -> str:
    parents = list(_parents(stock, task))
    if judge(task.rule, [outcome for _, outcome in parents]) is not Verdict.SKIP:
        return "its condition `when` did not hold"
    ends = ", ".join(f"{parent} {outcome}" for parent, outcome in parents if outcome)
    return f"rule {task.rule} was not met ({ends})"


def _queued(stock: _Stock, task: Task, counts: Mapping[JobPhase, int]) -> Iterator[str]:
    """Jobs that could run as far as the graph is concerned: a back-off, a person, the task's own limit, or the pool."""
    waiting = stock.draft.waiting
    later = [job for job in stock.draft.waiting_of(task) if waiting[job].not_before_s > stock.now_s]
    if later:
        first = min(later, key=lambda job: waiting[job].not_before_s)
        next_ = f"{first} for attempt {waiting[first].attempt} in {waiting[first].not_before_s - stock.now_s:.0f} s"
        yield f"{_jobs(len(later))} queued for another attempt: {next_}"
    due, running = counts[JobPhase.QUEUED] - len(later), counts.get(JobPhase.RUNNING, 0)
    if not due:
        return
    if stock.state.suspended_s is not None:
        why = "the run is suspended"
    elif task.max_parallel is not None and running >= task.max_parallel:
        why = f"maxParallel: {running} of {task.max_parallel} run"
    elif stock.state.reason:
        why = stock.state.reason  # which says so, with numbers, of the whole run
    else:
        why = "a slot is being looked for"
    since_s = stock.standing.ready_s.get(task.name)
    for_s = "" if since_s is None else f" for {stock.now_s - since_s:.0f} s"
    yield f"{_jobs(due)} queued{for_s}: {why}"


def _running(stock: _Stock, job: JobKey, lease: Lease) -> str:
    losses = f", {lease.losses} workers lost before" if lease.losses else ""
    doing = "is being stopped" if stock.state.reason in STOPPING else "runs"
    return (
        f"{job} {doing} on {lease.worker}, attempt {lease.attempt}, for {stock.now_s - lease.leased_at_s:.0f} s{losses}"
    )


def _listed(lines: Sequence[str], total: int, done: str) -> Iterator[str]:
    """The first few one by one, and how many there are besides."""
    yield from lines[:LINES_MAX]
    if (others := total - min(len(lines), LINES_MAX)) > 0:
        yield f"{others} more {done}"


def _parents(stock: _Stock, task: Task) -> Iterator[tuple[str, TaskOutcome | None]]:
    """Each parent, and how it ended; None while it has not."""
    return ((parent, stock.standing.outcomes.get(parent)) for parent in task.depends_on)


def _progress(stock: _Stock, name: str) -> str:
    return f"{stock.draft.tasks.get(name, _NOTHING).ended_count} of its jobs ended"


def _jobs(count: int) -> str:
    return "1 job is" if count == 1 else f"{count} jobs are"


def _critical_path(accounts: Mapping[str, TaskAccount], graph: Graph) -> frozenset[str]:
    """From the task that ended last, back through the parent that ended last."""
    ends_s = {name: each.end_s for name, each in accounts.items() if each.end_s is not None}
    path: set[str] = set()
    name = max(ends_s, key=lambda each: ends_s[each], default=None)
    while name is not None:
        path.add(name)
        parents = [parent for parent in graph.tasks[name].depends_on if parent in ends_s]
        name = max(parents, key=lambda each: ends_s[each], default=None)
    return frozenset(path)
