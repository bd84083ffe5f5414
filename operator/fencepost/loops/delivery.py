"""Delivery: the leases on a run's record as entries in the mailboxes of its workers, and entries that no lease stands
behind taken away again.

Told by the record alone, at each turn of the run, until the mailboxes show it: what a crash or a lost answer has left
undone is done by the next turn, of whichever leader. It does not say who holds a lease: only the record does.
"""

from fencepost.api.codec import PARAMS_BYTES_MAX
from fencepost.core.definition import Priority
from fencepost.core.fan_out import ListError
from fencepost.core.inputs import has_large_inputs, job_inputs
from fencepost.core.intents import Authority
from fencepost.core.names import UID_PREFIX_LENGTH, JobKey, mailbox_key
from fencepost.core.plan_run import RunPlan
from fencepost.core.plan_workers import token_of
from fencepost.core.run_state import Entry, Lease, Order, RunState
from fencepost.loops.definitions import Compiled
from fencepost.loops.mailboxes import Mailboxes
from fencepost.loops.world import World
from fencepost.observe.runs import RunView


class Delivery:
    """What runs ask of the mailboxes."""

    def __init__(self, world: World, mailboxes: Mailboxes) -> None:
        self._world = world
        self._mailboxes = mailboxes

    def deliver(self, view: RunView, authority: Authority, compiled: Compiled, state: RunState, plan: RunPlan) -> None:
        """See to it that every lease on record stands in its worker's mailbox."""
        for job, lease in state.leases.items():
            key = mailbox_key(view.key, view.uid, job)
            order = Order.STOP if plan.stops(job) else Order.RUN
            critical = compiled.graph.tasks[job.task].priority is Priority.CRITICAL and not view.in_background

            def entry(job: JobKey = job, lease: Lease = lease, order: Order = order) -> Entry:
                return self._entry(view, compiled, state, job, lease, order)

            self._mailboxes.ensure(authority, lease.worker, key, lease.token, order, entry, critical=critical)

    def settle(self, view: RunView, old: RunView, authority: Authority) -> None:
        """The entries of leases that the run has ended may go. Told by what is stored, and not by the answer to the
        write that ended them, which may have been lost."""
        if view.state is None or old.state is None:
            return
        for job, lease in old.state.leases.items():
            if view.state.leases.get(job) != lease:
                self._mailboxes.settle(authority, lease.worker, mailbox_key(view.key, view.uid, job), lease.token)

    def withdraw(self, view: RunView, authority: Authority) -> None:
        """Of a run that is gone: its entries leave the mailboxes, and its jobs are stopped by that."""
        if view.problem:
            self._withdraw_unread(view, authority)
        elif view.state is not None:
            for job, lease in view.state.leases.items():
                key = mailbox_key(view.key, view.uid, job)
                self._mailboxes.remove(authority, lease.worker, str(key), lease.token, soon=True)

    def withdraw_held(self, view: RunView, authority: Authority, state: RunState) -> bool:
        """Of a run that is there: the same; whether any mailbox held an entry of it until now."""
        held = [
            (lease, key)
            for job, lease in state.leases.items()
            if (worker := self._world.workers.get(lease.worker)) is not None
            and (key := str(mailbox_key(view.key, view.uid, job))) in worker.worker.leases
        ]
        for lease, key in held:
            self._mailboxes.remove(authority, lease.worker, key, lease.token, soon=True)
        return bool(held)

    def _withdraw_unread(self, view: RunView, authority: Authority) -> None:
        """Of a run whose record cannot be read: its leases are looked for in every mailbox."""
        prefix = f"{view.key}.{view.uid[:UID_PREFIX_LENGTH]}/"
        for worker in list(self._world.workers.all()):
            for key, text in worker.worker.leases.items():
                if key.startswith(prefix):
                    self._mailboxes.remove(authority, worker.name, key, token_of(text), soon=True)

    def _entry(
        self, view: RunView, compiled: Compiled, state: RunState, job: JobKey, lease: Lease, order: Order
    ) -> Entry:
        current = self._world.runs.get(view.key)
        spec = current.spec if current is not None and current.spec is not None else view.spec
        assert spec is not None
        tasks = compiled.graph.tasks
        timeout_s = tasks[job.task].timeout_s
        if compiled.definition.timeout_s is not None and state.start_s is not None:
            left_s = max(1.0, state.start_s + compiled.definition.timeout_s - self._world.clock.now_s())
            timeout_s = left_s if timeout_s is None else min(timeout_s, left_s)
        in_run = has_large_inputs(tasks, tasks[job.task], state, PARAMS_BYTES_MAX)
        inputs: dict[str, str] = {}
        if not in_run:
            try:
                inputs = job_inputs(tasks, job, state)
            except ListError:
                in_run = True  # the worker comes to the same, and its result tells why the job could not start
        return Entry(
            token=lease.token,
            order=order,
            attempt=lease.attempt,
            timeout_s=timeout_s,
            grace_s=compiled.definition.grace_s,
            revision=spec.revision,
            run_uid=view.uid,
            scheduled_s=spec.scheduled_s or int(view.created_s),
            params=None if in_run else dict(spec.params),
            inputs=inputs,
            round=state.round,
        )
