"""Faults in leases, fences, tokens, mailboxes and slots; `MUTATIONS` are these and those of all other pages."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from fencepost.api.codec import decode_result
from fencepost.api.names import DAG_RUNS, LEASES, WORKERS, Kind
from fencepost.api.times import parse_time
from fencepost.apply.executor import Answer
from fencepost.apply.writers import Next
from fencepost.core import lease as core_lease
from fencepost.core import plan_run
from fencepost.core.names import MailboxKey, mailbox_key
from fencepost.core.plan_dag import Fate
from fencepost.core.plan_run import Report, RunFacts
from fencepost.core.run_state import Order, RunState
from fencepost.loops import (
    dags,
    deciding,
    delivery,
    firing,
    history,
    keeper,
    leadership,
    lease_objects,
    lease_watch,
    membership,
    pool_desk,
    runs,
    scheduler,
    shards,
)
from fencepost.memory import engine, laws, policies
from fencepost.memory.writes import Law
from tests.unit.sim.mutation import Mutation
from tests.unit.sim.mutations_of_graphs import GRAPH_MUTATIONS
from tests.unit.sim.mutations_of_people import PEOPLE_MUTATIONS
from tests.unit.sim.mutations_of_pools import POOL_MUTATIONS
from tests.unit.sim.mutations_of_slots import AT_ONCE, IN_TURN, SLOT_MUTATIONS
from tests.unit.sim.virtual import OWNER, Machine


def _without(table: Mapping[Kind, tuple[Law, ...]], name: str, kind: Kind, law: Law) -> AbstractContextManager[object]:
    """The API server in memory without one of its laws."""
    assert law in table[kind]
    fewer = {**table, kind: tuple(each for each in table[kind] if each is not law)}
    return mock.patch.object(engine, name, fewer)


@contextmanager
def no_epoch_fence() -> Iterator[None]:
    """Neither the API server nor the replica itself asks whether its epoch is still the present one."""
    with (
        _without(policies.POLICIES, "POLICIES", DAG_RUNS, policies.epoch_is_the_present_one),
        mock.patch.object(shards.Shards, "leads", return_value=True),
    ):
        yield


def no_worker_fence() -> AbstractContextManager[object]:
    return _without(laws.LAWS, "LAWS", WORKERS, laws.fenced_worker_says_nothing)


def any_token_will_do() -> AbstractContextManager[object]:
    return _without(laws.LAWS, "LAWS", WORKERS, laws.result_carries_the_token_of_its_entry)


@contextmanager
def no_barrier() -> Iterator[None]:
    """A new leader plans at once, on what its watches happen to have told it."""

    async def nothing(*of: Any, **more: Any) -> None:
        return None

    with mock.patch.object(scheduler, "list_page_by_page", nothing):
        yield


@contextmanager
def epoch_not_raised() -> Iterator[None]:
    def same(record: core_lease.ShardRecord) -> int:
        return record.epoch or 0

    with (
        mock.patch.object(leadership, "next_epoch", same),
        _without(policies.POLICIES, "POLICIES", LEASES, policies.epoch_of_a_lease_rises),
    ):
        yield


def mailbox_before_the_record() -> AbstractContextManager[object]:
    right = runs.Runs._worth_writing

    def deliver_first(self: runs.Runs, key: Any, old: RunState | None, new: RunState) -> bool:
        worth = right(self, key, old, new)
        view = self._world.runs.get(key)
        authority = self._world.shards.authority(view.shard) if view is not None else None
        if worth and view is not None and view.spec is not None and authority is not None:
            compiled = self._definitions._cached(key.namespace, view.spec.revision)
            for job, given in new.leases.items() if compiled is not None else ():
                assert compiled is not None
                entry = self._delivery._entry(view, compiled, new, job, given, Order.RUN)
                place = mailbox_key(view.key, view.uid, job)
                self._mailboxes.ensure(authority, given.worker, place, given.token, Order.RUN, lambda e=entry: e)  # type: ignore[misc]
                self._mailboxes._touch(given.worker, urgent=True)
        return worth

    return mock.patch.object(runs.Runs, "_worth_writing", deliver_first)


@contextmanager
def expiry_by_anothers_timestamp() -> Iterator[None]:
    """A member is dead when its renewTime is too long ago, by our own wall clock."""
    renewed: dict[str, float] = {}
    right = core_lease.silent_at_s

    def remember(obj: Any) -> core_lease.MemberRecord:
        renewed[obj["metadata"]["resourceVersion"]] = parse_time(obj["spec"]["renewTime"])
        return read(obj)

    def silent(
        record: core_lease.MemberRecord, seen_s: float, contact: core_lease.Contact, times: core_lease.LeaseTimes
    ) -> float:
        machine, at_s = OWNER.get(), renewed.get(record.version)
        if not isinstance(machine, Machine) or at_s is None:
            return right(record, seen_s, contact, times)
        left_s = record.duration_s - (machine.now_s() - at_s)
        return machine.steady_s() + (left_s if left_s > 0.01 else -1.0)

    read = lease_objects.member_record
    with (
        mock.patch.object(lease_watch, "member_record", remember),
        mock.patch.object(leadership, "silent_at_s", silent),
    ):
        yield


def trust_from_the_answer() -> AbstractContextManager[object]:
    """The parking meter counted from the ticket, not from the coin, and to its last minute."""

    def window(sent_s: float, times: core_lease.LeaseTimes) -> core_lease.TrustWindow:
        machine = OWNER.get()
        assert machine is not None
        return core_lease.TrustWindow(machine.steady_s() + times.duration_s)

    return mock.patch.object(membership, "trust_window", window)


@contextmanager
def mark_after_deletion() -> Iterator[None]:
    def late(self: dags.Dags, key: Any, **_: Any) -> None:
        self._world.writers.touch(("dag status", key), lambda: self._status_turn(key), after_s=300.0)

    with mock.patch.object(dags.Dags, "touch_status", late), mock.patch.object(history, "_slot_s", return_value=0.0):
        yield


def lease_reused() -> AbstractContextManager[object]:
    right = plan_run.lease_jobs

    def under_the_old_token(plan: Any, graph: Any, grants: Sequence[Any], now_s: float) -> Any:
        state, unused = right(plan, graph, grants, now_s)
        old = plan.state.lease_counter
        if not old or state.lease_counter == old:
            return state, unused
        leases = {
            job: given if given.token <= old else replace(given, token=old) for job, given in state.leases.items()
        }
        return replace(state, lease_counter=old, leases=leases), unused

    return mock.patch.object(deciding, "lease_jobs", under_the_old_token)


@contextmanager
def keys_without_the_uid() -> Iterator[None]:
    def bare(run: Any, run_uid: str, job: Any) -> MailboxKey:
        return mailbox_key(run, "00000000", job)

    with mock.patch.object(delivery, "mailbox_key", bare), mock.patch.object(deciding, "mailbox_key", bare):
        yield


def fold_without_the_worker() -> AbstractContextManager[object]:
    """Whoever answers for a job, under whatever token, is believed."""
    right = deciding.gather_facts

    def from_anybody(
        run: Any,
        uid: str,
        leases: Mapping[Any, Any],
        authority: Any,
        cancelled: bool,
        workers: Any,
        mailboxes: Any,
        **more: Any,
    ) -> RunFacts:
        facts = right(run, uid, leases, authority, cancelled, workers, mailboxes, **more)
        reports = list(facts.reports)
        for job, given in leases.items():
            key = str(mailbox_key(run, uid, job))
            for view in workers.all():
                text = view.worker.results.get(key)
                if text is not None:
                    reports.append(Report(given.worker, job, replace(decode_result(text), token=given.token)))
        return replace(facts, reports=reports)

    return mock.patch.object(runs, "gather_facts", from_anybody)


def mailbox_not_swept() -> AbstractContextManager[object]:
    return mock.patch.object(keeper.Keeper, "sweep", return_value=None)


@contextmanager
def leases_do_not_count() -> Iterator[None]:
    right = pool_desk.PoolDesk.ask

    def forgetful(self: pool_desk.PoolDesk, pool: str, dag: Any, run: Any, leases: int, demands: Any) -> Any:
        return right(self, pool, dag, run, 0, demands)

    with mock.patch.object(pool_desk.PoolDesk, "ask", forgetful):
        yield


def mark_before_the_run() -> AbstractContextManager[object]:
    """A create without an answer counts as done."""
    right = firing.Firing._fate_of

    async def take_for_done(self: Any, view: Any, memory: Any, run: Any, slot_s: int, answer: Answer) -> Any:
        if answer is not Answer.UNKNOWN:
            return await right(self, view, memory, run, slot_s, answer)
        memory.creating.pop(run, None)
        memory.fired_slot(slot_s, run.name, "", Fate.FIRED)
        return Next.AGAIN

    return mock.patch.object(firing.Firing, "_fate_of", take_for_done)


ONE_RESULT = "one result is accepted"
RECORD_FIRST = "the record comes first"
WINDOWS = "no two replicas"
DEPOSED = "no write of a replica that lost"

MUTATIONS: tuple[Mutation, ...] = (
    Mutation("the epoch fence is dropped", no_epoch_fence, (DEPOSED, "a scheduled time"), ("pause", "cut"), 20),
    Mutation("the fence of a worker is dropped", no_worker_fence, ("a worker's word",), ("pause", "cut", "lie")),
    Mutation("a result may carry any token", any_token_will_do, ("a worker's word",), ("lie",)),
    Mutation("the epoch is not raised", epoch_not_raised, ("every holder",), ("kill",)),
    Mutation("a new leader passes no barrier", no_barrier, (RECORD_FIRST, AT_ONCE, IN_TURN), ("takeover",)),
    Mutation("the mailbox comes first, the record after", mailbox_before_the_record, (RECORD_FIRST,)),
    Mutation(
        "expiry goes by another's timestamp", expiry_by_anothers_timestamp, (WINDOWS, "no crash"), ("clock_step",)
    ),
    Mutation("trust counts from the answer", trust_from_the_answer, (WINDOWS,), ("slow_back", "cut", "deaf"), 40),
    Mutation("the mark is written after the deletion", mark_after_deletion, ("a run is deleted", "in a well")),
    Mutation("a lease is used again", lease_reused, ("each lease of a job",)),
    Mutation("keys do not hold the run's UID", keys_without_the_uid, ("a mailbox key", RECORD_FIRST)),
    Mutation("the fold does not ask who answers", fold_without_the_worker, (ONE_RESULT,), ("pause", "cut"), 40),
    Mutation("a mailbox is not swept", mailbox_not_swept, ("everything ends",), ("delete_run", "kill"), 40),
    Mutation("leases on record do not count for the share", leases_do_not_count, ("a DAG holds no more",)),
    Mutation(
        "a create without an answer counts as done", mark_before_the_run, ("no scheduled time",), ("lost_before",)
    ),
    *GRAPH_MUTATIONS,
    *PEOPLE_MUTATIONS,
    *SLOT_MUTATIONS,
    *POOL_MUTATIONS,
)
