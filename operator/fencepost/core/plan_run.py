"""What a run does next. The one page that decides over jobs.

A plan is made from the run's record, from what the workers say, and from now. It is made whole at each write, from
whatever is stored: there is no step that must have been seen, so a new leader plans on from where the record stands.

`advance_run` folds what has happened and says which jobs could start; the pool answers with grants; `lease_jobs` turns
grants into leases. The two results together are one write, and that write is the lease.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import assert_never

from fencepost.core.attempts import refusal_of_retry
from fencepost.core.dead_letters import forget_told, note_deaths
from fencepost.core.definition import Definition, Task
from fencepost.core.draft import Draft
from fencepost.core.graph import Graph
from fencepost.core.intervals import IntervalSet
from fencepost.core.marks import obey_marks
from fencepost.core.names import JobKey, execution_id
from fencepost.core.phases import JobPhase, RunPhase, move_run
from fencepost.core.placement import Demand, Grant
from fencepost.core.queue_time import begin_queues_anew, expire_queued
from fencepost.core.retry import retry_delay_s
from fencepost.core.run_spec import Mark
from fencepost.core.run_state import Lease, LetterSet, Outcome, Result, RunState, Waiting
from fencepost.core.standing import Standing, take_stock


@dataclass(frozen=True, slots=True)
class Report:
    """A result as it stands in a worker's status, under a key of this run."""

    worker: str
    job: JobKey
    result: Result
    told_to_stop: bool = False
    """The entry asks for a stop."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a plan goes by besides the run's own record."""

    run_uid: str
    epoch: int
    """Under which the planning leader holds the shard."""
    cancelled: bool
    """`spec.cancel` is set."""
    reports: Sequence[Report] = ()
    """Results in workers' mailboxes under keys of this run, of whatever token."""
    workers_lost: Collection[str] = frozenset()
    """Workers that are fenced, or gone: no result of theirs that is not among `reports` can ever come."""
    withdrawn: Collection[tuple[JobKey, int]] = frozenset()
    """(job, token) of leases whose entry we took out of a live worker's mailbox after it did not obey a stop."""
    refused: Collection[tuple[JobKey, int]] = frozenset()
    """(job, token) of leases that found no slot in their worker's mailbox and were never delivered."""
    marks: Mapping[str, Mark] = field(default_factory=dict)
    """Jobs that a person has marked: `spec.overrides`."""
    suspended: bool = False
    """`spec.suspend` is set: nothing more is started. Time limits count on."""
    values: Mapping[str, str] = field(default_factory=dict)
    """What `params.NAME` and `run.NAME` stand for."""
    letters_room: int = 0
    """How many dead letters more the DAG can take."""
    lettered: Collection[JobKey] = frozenset()
    """Dying jobs whose dead letter is written, or will never be."""
    told: Mapping[LetterSet, IntervalSet] = field(default_factory=dict)
    """Replayed letters that say so themselves by now, or are gone."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The run as it should be stored, and what follows once it is."""

    state: RunState
    demands: tuple[Demand, ...] = ()
    """Jobs that could start now."""
    stopping: bool = False
    """Every lease that is left is to be stopped."""
    tasks_stopping: frozenset[str] = frozenset()
    """Every lease of these tasks is to be stopped: they can no longer succeed, and fail fast."""
    marked: frozenset[JobKey] = frozenset()
    """Leased jobs that are to be stopped because a person has marked them."""
    wake_at_s: float | None = None
    """Unix seconds at which another plan is due though nothing else happens."""
    failed: tuple[JobKey, ...] = ()
    """Jobs that failed for good in this plan."""
    unlettered: int = 0
    """How many of them leave no dead letter, as the DAG has no room for more."""

    def stops(self, job: JobKey) -> bool:
        """Whether this job, if it is leased, is to be stopped."""
        return self.stopping or job.task in self.tasks_stopping or job in self.marked


def advance_run(state: RunState, graph: Graph, definition: Definition, facts: RunFacts, now_s: float) -> RunPlan:
    """Fold what has happened into `state` and say what could start. A finished run stays as it is."""
    if state.phase.finished:
        return RunPlan(state)
    draft = Draft(state)
    start_s = now_s if state.start_s is None else state.start_s
    ends_at_s = None if definition.timeout_s is None else start_s + definition.timeout_s
    timed_out = ends_at_s is not None and now_s >= ends_at_s
    stopping = facts.cancelled or timed_out
    held = facts.suspended and not stopping

    forget_told(draft, facts.lettered, facts.told)
    # 0. A person's word goes before a worker's.
    marked = obey_marks(draft, graph, facts.marks, _over(draft, facts)) if facts.marks else frozenset()
    # 1. Fold results of the leases on record, then losses, then leases that were taken back.
    failed = _fold(draft, graph, facts, now_s, stopping)
    open_max = graph.jobs_open_max
    unlettered = _bury(draft, facts, failed, open_max, stopping)
    while True:
        # 2. A run that is cancelled or out of time starts nothing more; else what can no longer run is skipped, and
        # what is left of a fan-out that fails fast is cancelled.
        standing = take_stock(draft, graph, facts.values, stopping, start_s, now_s)
        # 3. What is left either could start, or waits for a moment (in a suspended run: for a person), or has waited
        # too long: then look again.
        demands, retry_at_s = ((), None) if held else _demands(draft, graph, standing, open_max, now_s)
        if state.suspended_s is not None:
            begin_queues_anew(draft, graph, demands, now_s)
        expiry = expire_queued(draft, graph, demands, open_max, now_s)
        failed += (*standing.failed, *expiry.failed)
        unlettered += _bury(draft, facts, (*standing.failed, *expiry.failed), open_max, stopping)
        if not expiry.failed:
            break
    # 4. Where the run stands now, and why.
    total = draft.size_of_all(graph.order)
    phase, reason = _phase(draft, graph, facts, total, timed_out)
    moved = replace(
        draft.freeze(),
        phase=move_run(state.phase, phase),
        epoch=facts.epoch,
        start_s=start_s,
        finish_s=now_s if phase.finished else None,
        suspended_s=(state.suspended_s or now_s) if held and not phase.finished else None,
        total=total,
        reason=reason,
        message=_message(draft, definition, reason),
    )
    # 5. When to look again.
    moments = (retry_at_s, expiry.next_s, None if stopping else ends_at_s)
    wake_at_s = None if phase.finished else min([each for each in moments if each is not None], default=None)
    stopping_now = stopping and not phase.finished
    tasks_stopping = _failing_fast(draft, graph)
    return RunPlan(moved, demands, stopping_now, tasks_stopping, marked, wake_at_s, failed, unlettered)


def lease_jobs(plan: RunPlan, graph: Graph, grants: Sequence[Grant], now_s: float) -> tuple[RunState, list[Grant]]:
    """The plan's state with each grant turned into a lease, and the grants that no job wants any more.

    All leases of one commit carry the same token: the lease counter, raised by one.
    """
    draft = Draft(plan.state)
    wanted = {demand.task: demand.count for demand in plan.demands}
    token = plan.state.lease_counter + 1
    unused: list[Grant] = []
    by_task: dict[str, list[Grant]] = {}
    for grant in grants:
        by_task.setdefault(grant.task, []).append(grant)
    for name, of_task in by_task.items():
        used = min(wanted.get(name, 0), len(of_task))
        unused += of_task[used:]
        for grant, job in zip(of_task[:used], _next_jobs(draft, graph.tasks[name], used, now_s), strict=True):
            waiting = draft.waiting.get(job, Waiting(1, 0, now_s))
            draft.lease(job, Lease(token, grant.worker, waiting.attempt, waiting.losses, now_s))
        if used and draft.queued_s(graph.tasks[name]) is not None and not draft.idle_count(graph.tasks[name]):
            draft.note_queued(graph.tasks[name], None)
    if len(unused) == len(grants):
        return plan.state, unused
    leased = replace(
        plan.state,
        phase=move_run(plan.state.phase, RunPhase.RUNNING),
        lease_counter=token,
        leases=draft.leases,
        waiting=draft.waiting,
        tasks=draft.tasks,
    )
    return leased, unused


def _next_jobs(draft: Draft, task: Task, count: int, now_s: float) -> list[JobKey]:
    """The jobs of a task to lease next: due retries first, then those never started, each by index."""
    due = sorted(job for job, wait in draft.waiting.items() if job.task == task.name and wait.not_before_s <= now_s)
    jobs = due[:count]
    fresh = islice(draft.idle(task), count - len(jobs))
    return jobs + [JobKey(task.name, index) for index in fresh]


def _fold(draft: Draft, graph: Graph, facts: RunFacts, now_s: float, stopping: bool) -> tuple[JobKey, ...]:
    """Settle leases by what is known of them; the jobs that failed for good by it.

    A job is told to stop only once it is stored why: so what counts here is which tasks failed fast before.
    """
    failed: list[JobKey] = []
    tasks_stopping = _failing_fast(draft, graph)
    for report in facts.reports:
        if _answers(report, draft.leases.get(report.job)):
            stops = stopping or report.job.task in tasks_stopping
            failed += _settle(draft, graph, facts, report.job, _meant(report, stops), now_s, stops)
    for job, lease in list(draft.leases.items()):
        stops = stopping or job.task in tasks_stopping
        if lease.worker in facts.workers_lost:
            failed += _lose(draft, graph, job, lease, now_s, stops)
        elif (job, lease.token) in facts.withdrawn and stops:
            draft.end_leased(job, JobPhase.CANCELLED)
        elif (job, lease.token) in facts.withdrawn:
            silent = Result(lease.token, Outcome.TIMED_OUT, None, None, None, "its worker did not stop it in time")
            failed += _settle(draft, graph, facts, job, silent, now_s, stops)
        elif (job, lease.token) in facts.refused:
            draft.requeue(job, Waiting(lease.attempt, lease.losses, now_s))
    return tuple(failed)


def _bury(draft: Draft, facts: RunFacts, failed: tuple[JobKey, ...], open_max: int, stopping: bool) -> int:
    """Note these jobs as dying, unless they failed because the run is stopped; how many are left without a letter.

    Each takes the place of an open job in the run's object.
    """
    if stopping or not failed:
        return 0
    leases = draft.stored.leases
    results = {each.job: each.result for each in facts.reports if _answers(each, leases.get(each.job))}
    room = min(facts.letters_room - len(draft.dying), open_max - draft.open_count)
    return note_deaths(draft, failed, results, room)


def _over(draft: Draft, facts: RunFacts) -> set[JobKey]:
    """Leased jobs whose worker has answered, or can do nothing more about them."""
    over = {report.job for report in facts.reports if _answers(report, draft.leases.get(report.job))}
    for job, lease in draft.leases.items():
        held = (job, lease.token)
        if lease.worker in facts.workers_lost or held in facts.withdrawn or held in facts.refused:
            over.add(job)
    return over


def _answers(report: Report, lease: Lease | None) -> bool:
    """Whether a result is the word on this lease."""
    return lease is not None and (lease.worker, lease.token) == (report.worker, report.result.token)


def _meant(report: Report, stopping: bool) -> Result:
    """The result as it counts: a job that we had stopped for being over its limit has timed out, and is not a loss."""
    if report.result.outcome is Outcome.STOPPED and report.told_to_stop and not stopping:
        return replace(report.result, outcome=Outcome.TIMED_OUT, message="stopped from outside, over its limit")
    return report.result


def _settle(
    draft: Draft, graph: Graph, facts: RunFacts, job: JobKey, result: Result, now_s: float, stopping: bool
) -> list[JobKey]:
    """One accepted result."""
    lease = draft.leases[job]
    draft.note_times(job.task, result)
    match result.outcome:
        case Outcome.SUCCEEDED:
            if why_not := _keep_output(draft, graph, job, result.output):
                return _fail(draft, job, replace(result, outcome=Outcome.FAILED, message=why_not))
            draft.end_leased(job, JobPhase.SUCCEEDED)
        case Outcome.HANDED_BACK:
            draft.requeue(job, Waiting(lease.attempt, lease.losses, now_s))
        case Outcome.STOPPED:
            return _lose(draft, graph, job, lease, now_s, stopping)
        case Outcome.INVALID | Outcome.MISSING:
            return _fail(draft, job, result)
        case Outcome.FAILED | Outcome.TIMED_OUT:
            policy = graph.tasks[job.task].retries
            refusal = "" if stopping else refusal_of_retry(policy, lease.attempt, result)
            if refusal is not None:
                return _fail(draft, job, result, refusal)
            delay_s = retry_delay_s(policy, lease.attempt, execution_id(facts.run_uid, job))
            draft.requeue(job, Waiting(lease.attempt + 1, lease.losses, now_s + delay_s))
        case _:
            assert_never(result.outcome)
    return []


def _keep_output(draft: Draft, graph: Graph, job: JobKey, output: str) -> str:
    """Keep what a job has put out, if anybody refers to it; why it cannot be kept, or nothing."""
    bytes_max = graph.outputs_kept.get(job.task)
    task = graph.tasks[job.task]
    return "" if bytes_max is None else draft.outputs.put(task, draft.size(task), job, output, bytes_max)


def _fail(draft: Draft, job: JobKey, result: Result, why_no_retry: str = "") -> list[JobKey]:
    draft.end_leased(job, JobPhase.FAILED)
    code = "" if result.exit_code is None else f" exit {result.exit_code}"
    why = f", not tried again as {why_no_retry}" if why_no_retry else ""
    draft.note_failure(job, f"{result.outcome}{code}{why}", result.message)
    return [job]


def _lose(draft: Draft, graph: Graph, job: JobKey, lease: Lease, now_s: float, stopping: bool) -> list[JobKey]:
    """Its worker is gone, or stopped it though nobody here asked: not the job's failure, but not for ever either."""
    limit = graph.tasks[job.task].retries.loss_limit
    if stopping:
        draft.end_leased(job, JobPhase.CANCELLED)
    elif lease.losses >= limit:
        draft.end_leased(job, JobPhase.FAILED)
        draft.note_failure(job, f"WorkerLost: it has lost {lease.losses + 1} of its workers, lossLimit allows {limit}")
        return [job]
    else:
        draft.requeue(job, Waiting(lease.attempt, lease.losses + 1, now_s))
    return []


def _failing_fast(draft: Draft, graph: Graph) -> frozenset[str]:
    """Tasks of which some jobs are still leased though nothing that they do can make the task succeed."""
    leased = {job.task for job in draft.leases}
    return frozenset(name for name in leased if draft.fails_fast(graph.tasks[name]))


def _demands(
    draft: Draft, graph: Graph, standing: Standing, open_max: int, now_s: float
) -> tuple[tuple[Demand, ...], float | None]:
    """Jobs that could start now, task by task, and the next moment at which a back-off ends."""
    due = Counter(job.task for job, waiting in draft.waiting.items() if waiting.not_before_s <= now_s)
    running = Counter(job.task for job in draft.leases)
    later = (waiting.not_before_s for waiting in draft.waiting.values() if waiting.not_before_s > now_s)
    demands = []
    room = max(0, open_max - draft.open_count)
    for name, ready_s in standing.ready_s.items():  # as the graph orders them
        task = graph.tasks[name]
        fresh = min(draft.idle_count(task), room)
        count = due[name] + fresh
        if task.max_parallel is not None:
            count = min(count, task.max_parallel - running[name])
        if count > 0:
            demands.append(Demand(name, count, task.priority, ready_s))
            room -= min(fresh, count)
    return tuple(demands), min(later, default=None)


def _phase(draft: Draft, graph: Graph, facts: RunFacts, total: int, timed_out: bool) -> tuple[RunPhase, str]:
    """The run's phase by its jobs, and the reason that goes with it."""
    ended = draft.done == total
    if not ended or draft.dying or draft.replays:
        reason = "DeadLetters" if ended else "Suspended" if facts.suspended else ""
        return draft.stored.phase, "Cancelling" if facts.cancelled else "TimingOut" if timed_out else reason
    assert not draft.leases, "every job has ended and a lease is outstanding"
    cut_short = any(draft.count(task, JobPhase.CANCELLED) for task in graph.order if not draft.fails_fast(task))
    failed = draft.total(JobPhase.FAILED)
    if facts.cancelled and (cut_short or failed):
        return RunPhase.CANCELLED, "Cancelled"
    if cut_short:
        return RunPhase.FAILED, "RunTimedOut" if timed_out else "JobsCancelled"
    if any(draft.count(task, JobPhase.FAILED) and not draft.succeeded(task) for task in graph.order):
        return RunPhase.FAILED, "JobsFailed"
    return RunPhase.SUCCEEDED, "EnoughSucceeded" if failed else "AllSucceeded"


def _message(draft: Draft, definition: Definition, reason: str) -> str:
    """One sentence for a person; empty where the phase says it all."""
    if reason in ("JobsFailed", "EnoughSucceeded") and draft.failures:
        job, text = min(draft.failures.items())
        others = draft.total(JobPhase.FAILED) - 1
        allowed = "as many as successThreshold asks for succeeded, though " if reason == "EnoughSucceeded" else ""
        return f"{allowed}job {job} failed: {text}" + (f" (and {others} more)" if others else "")
    if reason in ("RunTimedOut", "TimingOut") and definition.timeout_s is not None:
        return f"the run took longer than its timeout of {definition.timeout_s:g} s; raise spec.timeout or shorten it"
    if reason == "DeadLetters":
        letters = "1 dead letter is" if len(draft.dying) == 1 else f"{len(draft.dying) or 'no'} dead letters are"
        return f"all jobs have ended; {letters} still to be written"
    if reason == "JobsCancelled":
        cancelled = draft.total(JobPhase.CANCELLED)
        return f"{cancelled} jobs were cancelled in an earlier round; run them again with rerun --from-failed"
    jobs = "1 job is" if len(draft.leases) == 1 else f"{len(draft.leases)} jobs are"
    if reason == "Cancelling":
        return f"{jobs} being stopped"
    if reason == "Suspended":
        return f"nothing more is started, {jobs} still running; set spec.suspend to false to go on"
    return ""
