"""From a run's record to its next state: the facts gathered, the plan made, the pool asked.

The same for a run that exists and for one that is only about to be created: its first leases stand in its first write.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fencepost.api.codec import decode_result
from fencepost.api.times import format_time
from fencepost.core.definition import Priority
from fencepost.core.inputs import run_values
from fencepost.core.intents import Authority
from fencepost.core.names import DagKey, JobKey, RunKey, mailbox_key
from fencepost.core.placement import Grant
from fencepost.core.plan_run import Report, RunFacts, RunPlan, advance_run, lease_jobs
from fencepost.core.plan_workers import order_of, token_of
from fencepost.core.run_spec import RunSpec
from fencepost.core.run_state import Lease, Order, Outcome, Result, RunState
from fencepost.loops.definitions import Compiled
from fencepost.loops.mailboxes import Mailboxes
from fencepost.loops.pool_desk import PoolDesk
from fencepost.observe.workers import WorkerCache


@dataclass(frozen=True, slots=True)
class Decision:
    """A run as it should be stored, and what its plan said."""

    state: RunState
    plan: RunPlan
    grants: Sequence[Grant]
    """Taken from the pool for this write; to be closed once it is over, however it ended."""


def gather_facts(
    run: RunKey,
    uid: str,
    leases: Mapping[JobKey, Lease],
    authority: Authority,
    cancelled: bool,
    workers: WorkerCache,
    mailboxes: Mailboxes,
) -> RunFacts:
    """What the workers' objects and mailboxes say of a run's leases."""
    reports: list[Report] = []
    lost: set[str] = set()
    withdrawn: set[tuple[JobKey, int]] = set()
    refused: set[tuple[JobKey, int]] = set()
    for job, lease in leases.items():
        key = mailbox_key(run, uid, job)
        view = workers.get(lease.worker)
        text = view.worker.results.get(str(key)) if view is not None else None
        if text is not None and token_of(text) == lease.token:
            told_to_stop = view is not None and order_of(view.worker.leases.get(str(key), "")) == Order.STOP
            reports.append(Report(lease.worker, job, _read_result(text, lease.token), told_to_stop))
        if view is None or view.worker.fenced:
            lost.add(lease.worker)
        if mailboxes.withdrawn(lease.worker, key) == lease.token:
            withdrawn.add((job, lease.token))
        if mailboxes.refused(lease.worker, key) == lease.token:
            refused.add((job, lease.token))
    return RunFacts(uid, authority.epoch, cancelled, reports, lost, withdrawn, refused)


def with_definition_restored(facts: RunFacts) -> RunFacts:
    """Jobs whose worker did not find their definition count as handed back, now that it is stored again."""
    reports = [
        replace(report, result=replace(report.result, outcome=Outcome.HANDED_BACK))
        if report.result.outcome is Outcome.MISSING
        else report
        for report in facts.reports
    ]
    return replace(facts, reports=reports)


def _waiting_text(plan: RunPlan, leased: RunState) -> str:
    """`3 jobs wait for a slot, 97 cannot start yet`: those are for parents, a back-off or `maxParallel`."""
    slots = sum(demand.count for demand in plan.demands) - (len(leased.leases) - len(plan.state.leases))
    later = leased.total - leased.done - len(leased.leases) - slots
    return f"{slots} {'job waits' if slots == 1 else 'jobs wait'} for a slot, {later} cannot start yet"


def values_of(run: RunKey, dag: DagKey, spec: RunSpec, compiled: Compiled) -> dict[str, str]:
    """What `params.NAME` and `run.NAME` stand for in this run."""
    return run_values(run, dag.name, format_time(spec.scheduled_s), compiled.definition.params, spec.params)


def _read_result(text: str, token: int) -> Result:
    """A result under the token of its lease. One that is garbled is a failure: nothing better can come after it."""
    try:
        return decode_result(text)
    except ValueError as error:
        fact = f"its worker's result cannot be read: {error}"
        return Result(token, Outcome.FAILED, exit_code=None, started_at_s=None, ended_at_s=None, message=fact)


def decide(
    desk: PoolDesk,
    dag: DagKey,
    run: RunKey,
    compiled: Compiled,
    state: RunState,
    facts: RunFacts,
    now_s: float,
    *,
    in_background: bool = False,
) -> Decision:
    """Plan, ask the pool, lease. The reason why jobs wait goes into the state. `in_background`: whatever priorities the
    tasks have, it is low."""
    plan = advance_run(state, compiled.graph, compiled.definition, facts, now_s)
    if in_background:
        plan = replace(plan, demands=tuple(replace(demand, priority=Priority.LOW) for demand in plan.demands))
    grants = desk.ask(compiled.definition.pool, dag, run, len(plan.state.leases), plan.demands)
    leased, _ = lease_jobs(plan, compiled.graph, grants, now_s)
    block = desk.block(compiled.definition.pool, dag, run)
    if block is not None and not leased.reason:
        leased = replace(leased, reason=str(block[0]), message=f"{block[1]} ({_waiting_text(plan, leased)})")
    return Decision(leased, plan, grants)
