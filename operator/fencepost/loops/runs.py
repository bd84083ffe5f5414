"""Runs: each write of a run folds what has happened, leases what can start, and says so to the workers afterwards.

One turn of a run's writer is: plan, ask the pool, lease, write, deliver. Only the write decides; delivering is repeated
from the record at each turn until the mailboxes show it, so a crash or a lost answer between the two costs nothing but
time. A turn that finds nothing to change writes nothing.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from fencepost.api.times import format_duration
from fencepost.apply.executor import Answer, Written
from fencepost.apply.writers import Next
from fencepost.core.intents import Authority, WriteRun
from fencepost.core.names import DagKey, RunKey
from fencepost.core.phases import RunPhase
from fencepost.core.record_check import foreign_job
from fencepost.core.rounds import begin_round, open_jobs
from fencepost.core.run_state import Outcome, RunState
from fencepost.kube.errors import ApiError
from fencepost.kube.protocol import Obj
from fencepost.loops.admissions import Admissions
from fencepost.loops.beginning import BEGIN_WITHIN_S, unknown_params, why_not_begun
from fencepost.loops.deciding import Decision, decide, gather_facts, values_of, with_definition_restored
from fencepost.loops.definitions import Compiled, DefinitionMissingError, Definitions
from fencepost.loops.delivery import Delivery
from fencepost.loops.letters import Letters
from fencepost.loops.mailboxes import Mailboxes
from fencepost.loops.pool_desk import PoolDesk
from fencepost.loops.replays import Beginning, Replays
from fencepost.loops.run_counts import count
from fencepost.loops.run_news import RunNews
from fencepost.loops.world import World
from fencepost.observe.dags import DagView
from fencepost.observe.runs import RunView

log = logging.getLogger(__name__)

REASON_DELAY_S = 5.0
"""How long a run must have waited for one reason before that alone is worth a write."""
NOTHING_ASKED: Mapping[str, Any] = MappingProxyType({})
ROUND_LOOK_S = 30.0
"""How often a round that has no room yet is looked at, should nobody have told that there is."""
LOOK_MAX_S = 300.0
"""The longest a run is left alone that waits for a moment: wall clocks jump, so it is looked at on the way."""


class Runs:
    """All runs of the shards that this replica plans for."""

    def __init__(
        self,
        world: World,
        definitions: Definitions,
        desk: PoolDesk,
        mailboxes: Mailboxes,
        letters: Letters,
        replays: Replays,
        admissions: Admissions,
    ) -> None:
        self._world = world
        self._letters = letters
        self._replays = replays
        self._admissions = admissions
        self._definitions = definitions
        self._desk = desk
        self._mailboxes = mailboxes
        self._delivery = Delivery(world, mailboxes)
        self._news = RunNews(world)
        self._blocked: dict[RunKey, tuple[str, float]] = {}
        """Why a run waits though its record does not say so yet, and since when on the steady clock."""
        self._unread: set[RunKey] = set()
        """Runs whose last write had no clear answer and which could not be read since: the cache may be behind it."""
        self._own_write = False

    def touch(self, key: RunKey, *, urgent: bool = False, after_s: float | None = None) -> None:
        """Something has changed for this run, or will have by then."""
        self._world.writers.touch(("run", key), lambda: self._turn(key), urgent=urgent, after_s=after_s)

    def changed(self, view: RunView, old: RunView | None) -> None:
        """A run's object has changed: let go of what it has settled, and plan it, unless it is over."""
        authority = self._world.shards.authority(view.shard)
        if authority is not None and old is not None:
            self._delivery.settle(view, old, authority)
        if view.finished:
            if old is None or not old.finished:
                self._leave(view)
                self.touch_rounds(view.dag)
        elif not self._own_write and authority is not None:
            self.touch(view.key, urgent=view.wishes != (old.wishes if old else set()))

    def touch_rounds(self, dag: DagKey) -> None:
        """There may be room for another round of a run of this DAG."""
        for view in list(self._world.runs.unfinished(dag)):
            if view.round_due:
                self.touch(view.key)

    def gone(self, view: RunView) -> None:
        """A run's object is gone: its jobs are stopped and its entries leave the mailboxes."""
        self._leave(view)
        self.touch_rounds(view.dag)
        authority = self._world.shards.authority(view.shard)
        if authority is not None:
            self._delivery.withdraw(view, authority)

    def release(self, shard: int) -> None:
        """The shard is no longer ours: forget what its runs want and hold."""
        for view in list(self._world.runs.all()):
            if view.shard == shard:
                self._leave(view)

    def stored(
        self, view: RunView, authority: Authority, compiled: Compiled, decision: Decision, before: RunState
    ) -> Next | float:
        """A run's write has been stored: deliver what it leases, and count. What its writer is to do next."""
        state = decision.state
        self._delivery.deliver(view, authority, compiled, state, decision.plan)
        self._letters.stored(view, state, decision.plan.unlettered)
        self._desk.close(decision.grants)
        self._desk.hold(view.dag, view.key, len(state.leases))
        count(self._world, view, before, state)
        if state.phase.finished:
            self._leave(view)
            return Next.REST
        self._leave_unled(view)
        return self._next_look(view.key, decision)

    async def _turn(self, key: RunKey) -> Next | float:
        view = self._world.runs.get(key)
        authority = None if view is None else self._world.shards.authority(view.shard)
        if view is None or authority is None:
            return Next.REST
        try:
            return await (self._reread(key) if key in self._unread else self._plan(view, authority))
        finally:
            self._leave_unled(view)

    async def _plan(self, view: RunView, authority: Authority) -> Next | float:
        """The turn of a run that we lead and know as it stands."""
        key = view.key
        if view.finished and self._replays.wants(view.uid):
            return await self._replay(view, authority)
        if view.finished or view.spec is None or view.record is None:
            return Next.REST
        dag = self._world.dags.get(view.dag)
        state = view.state or RunState()
        if view.round_due:
            if self._admissions.of(view, dag).wait_reason:
                return ROUND_LOOK_S
            state = begin_round(state, view.spec.round)
        if not view.spec.revision and (not_yet := await self._prepare(view, authority, state, dag)) is not None:
            return not_yet
        unknown = unknown_params(view.spec, dag)
        if unknown:
            return await self._end(view, authority, state, RunPhase.FAILED, "UnknownParam", unknown)
        revision = view.spec.revision or (dag.revision if dag is not None else "")
        try:
            compiled = await self._definitions.of_run(key, view.dag, revision)
        except DefinitionMissingError as error:
            if self._letters.owed(view, state):
                return Next.REST  # until they are written: the record tells all that they say
            return await self._give_up(view, authority, state, "DefinitionMissing", str(error))
        except ApiError as error:
            log.warning("definition of run %s: %s", key, error, extra={"run": str(key)})
            return Next.RETRY
        await self._news.tell_vain_marks(view, state, compiled)
        if self._world.runs.get(key) is not view:
            return Next.AGAIN
        if foreign := foreign_job(state, compiled.graph):
            fact = f"its status speaks of {foreign}, which {revision} does not have: somebody has edited it"
            return await self._give_up(view, authority, state, "RecordGarbled", f"{fact}; create the run again")
        return await self._advance(view, authority, state, compiled, dag, revision)

    async def _advance(
        self,
        view: RunView,
        authority: Authority,
        state: RunState,
        compiled: Compiled,
        dag: DagView | None,
        revision: str,
        asked: Mapping[str, Any] = NOTHING_ASKED,
    ) -> Next | float:
        assert view.spec is not None
        assert view.record is not None
        world = self._world
        verdict = self._admissions.of(view, dag)
        dag_uid = view.spec.dag_uid or (dag.uid if dag is not None else "")
        if verdict.wait_reason:
            waiting = verdict.waiting(state, authority.epoch, compiled.graph.size)
            return await self._wait(view, WriteRun(authority, view.record, view.dag, dag_uid, revision, waiting))
        if view.round_due:
            state = open_jobs(state, compiled.graph, view.spec.rerun)
        cancelled = view.spec.cancel or view.deleting or bool(verdict.replaced_by)
        facts = gather_facts(view.key, view.uid, state.leases, authority, cancelled, world.workers, self._mailboxes)
        facts = replace(
            facts,
            marks=view.spec.marks,
            suspended=view.spec.suspend,
            values=values_of(view.key, view.dag, view.spec, compiled),
            letters_room=self._letters.room(view.dag),
            lettered=self._letters.lettered(view.uid, state.dying),
            told=self._replays.told(view, state) if state.replays else {},
        )
        if any(report.result.outcome is Outcome.MISSING for report in facts.reports):
            restored = await self._definitions.restore(dag, revision, authority)
            if restored not in (Answer.DONE, Answer.GONE):
                return Next.RETRY
            if world.runs.get(view.key) is not view:
                return Next.AGAIN
            facts = with_definition_restored(facts) if restored is Answer.DONE else facts
        now_s, low = world.clock.now_s(), view.in_background
        decision = decide(self._desk, view.dag, view.key, compiled, state, facts, now_s, in_background=low)
        decision = replace(decision, state=verdict.told(decision.state, state))
        # stored at once: whatever happens to its successor, a run that was told to go does not go on again
        replaced = bool(verdict.replaced_by) and not view.spec.cancel
        if not replaced and not self._worth_writing(view.key, view.state, decision.state):
            self._delivery.deliver(view, authority, compiled, state, decision.plan)
            self._letters.stored(view, state)
            self._desk.close(decision.grants)
            self._desk.hold(view.dag, view.key, len(state.leases))
            return self._next_look(view.key, decision)
        if replaced:
            asked = {**asked, "cancel": True}
        intent = WriteRun(authority, view.record, view.dag, dag_uid, revision, decision.state, asked)
        written = await world.executor.execute(intent)
        if written.answer is not Answer.DONE:
            self._desk.close(decision.grants)
            if written.answer is Answer.UNKNOWN:
                self._desk.perhaps(view.dag, view.key, max(len(state.leases), len(decision.state.leases)))
            else:
                self._desk.hold(view.dag, view.key, len(state.leases))
            return await self._recover(view.key, written)
        assert written.object is not None
        self._take_in(written.object)
        known = world.runs.get(view.key)
        if known is None or known.uid != view.uid:  # deleted before we had the answer: it is not to hear of anything
            self._desk.close(decision.grants)
            return Next.REST if known is None else Next.AGAIN
        self._letters.note_attempts(view, facts.reports, state, decision)
        wanted = self.stored(view, authority, compiled, decision, state)
        await self._news.tell_end(view, decision.state)
        return wanted

    async def _replay(self, known: RunView, authority: Authority) -> Next | float:
        """Dead letters of a finished run are to be replayed: it goes on in another round, of their jobs alone."""
        dag = self._world.dags.get(known.dag)
        begin = await self._replays.prepare(
            known, authority, lambda view: not self._admissions.of(view, dag).wait_reason
        )
        if not isinstance(begin, Beginning):
            self._admissions.forget(known.dag, known.key)
            return ROUND_LOOK_S if begin is None else begin
        view, state, compiled = begin.view, begin.state, begin.compiled
        return await self._advance(view, authority, state, compiled, dag, begin.revision, begin.asked)

    async def _recover(self, key: RunKey, written: Written) -> Next:
        """After a write that was not stored, or perhaps was: read, and plan from what stands there."""
        match written.answer:
            case Answer.NOT_LEADING:
                return Next.REST
            case Answer.BUSY:
                return Next.RETRY
            case Answer.REFUSED | Answer.UNKNOWN:
                await self._reread(key)
                return Next.RETRY
            case _:
                return await self._reread(key)

    async def _reread(self, key: RunKey) -> Next:
        """Nothing is planned on a record that a write of our own may have overtaken."""
        read = await self._world.refresh_run(key)
        (self._unread.discard if read else self._unread.add)(key)
        return Next.AGAIN if read else Next.RETRY

    async def _prepare(
        self, view: RunView, authority: Authority, state: RunState, dag: DagView | None
    ) -> Next | float | None:
        """How the turn ends, if the run cannot be taken up: its DAG is not valid, its pool does not admit it, or its
        revision could not be stored just now, which is no fault of the run's and is tried again."""
        pool = self._desk.get(dag.checked.spec.definition.pool) if dag is not None and dag.checked is not None else None
        if dag is None or pool is None or not pool.spec.admits(dag.key.namespace):
            return await self._postpone(view, authority, state, dag)
        if (answer := await self._definitions.store(dag, authority)) is Answer.DONE:
            return None
        return Next.REST if answer is Answer.NOT_LEADING else Next.RETRY

    async def _wait(self, view: RunView, intent: WriteRun) -> Next:
        """A run that may not begin yet says why; it is touched when that changes."""
        if view.state is not None and view.state.reason == intent.state.reason:
            return Next.REST
        written = await self._world.executor.execute(intent)
        if written.object is None:
            return await self._recover(view.key, written)
        self._take_in(written.object)
        return Next.REST

    async def _postpone(
        self, view: RunView, authority: Authority, state: RunState, dag: DagView | None
    ) -> Next | float:
        """A run whose DAG is not there or not valid waits, and says for what; but not for ever."""
        assert view.record is not None
        if view.spec is not None and view.spec.cancel:
            return await self._end(view, authority, state, RunPhase.CANCELLED, "Cancelled", "cancelled before it began")
        pool = self._desk.get(dag.checked.spec.definition.pool) if dag is not None and dag.checked is not None else None
        reason, message = why_not_begun(view.dag, dag, pool.spec if pool is not None else None)
        left_s = view.created_s + BEGIN_WITHIN_S - self._world.clock.now_s()
        if left_s <= 0:
            fact = f"it could not begin within {format_duration(BEGIN_WITHIN_S)}: {message}"
            return await self._end(view, authority, state, RunPhase.FAILED, "NeverBegan", fact)
        if view.state is None or (view.state.reason, view.state.message) != (reason, message):
            waiting = replace(state, epoch=authority.epoch, reason=reason, message=message)
            written = await self._world.executor.execute(WriteRun(authority, view.record, view.dag, "", "", waiting))
            if written.object is None:
                return await self._recover(view.key, written)
            self._take_in(written.object)
        return left_s

    async def _give_up(self, view: RunView, authority: Authority, state: RunState, reason: str, why: str) -> Next:
        """A run that can never be carried out fails, once no mailbox holds an entry of it any more."""
        if self._delivery.withdraw_held(view, authority, state):
            return Next.RETRY
        return await self._end(view, authority, state, RunPhase.FAILED, reason, why)

    async def _end(
        self, view: RunView, authority: Authority, state: RunState, phase: RunPhase, reason: str, message: str
    ) -> Next:
        assert view.record is not None
        now_s = self._world.clock.now_s()
        ended = replace(
            state,
            phase=phase,
            epoch=authority.epoch,
            start_s=state.start_s or now_s,
            finish_s=now_s,
            leases={},
            waiting={},
            dying={},
            reason=reason,
            message=message,
        )
        written = await self._world.executor.execute(WriteRun(authority, view.record, view.dag, "", "", ended))
        if written.object is None:
            return await self._recover(view.key, written)
        self._take_in(written.object)
        count(self._world, view, state, ended)
        await self._news.tell_end(view, ended)
        return Next.REST

    def _worth_writing(self, key: RunKey, old: RunState | None, new: RunState) -> bool:
        """Whether the new state says more than the stored one: a new epoch or other numbers in a reason do not."""
        if old is None:
            return True
        same = replace(new, epoch=old.epoch, reason=old.reason, message=old.message)
        if same != old:
            self._blocked.pop(key, None)
            return True
        if new.reason == old.reason:
            self._blocked.pop(key, None)
            return False
        steady_s = self._world.clock.steady_s()
        reason, since_s = self._blocked.get(key, ("", 0.0))
        if reason != new.reason:
            self._blocked[key] = (new.reason, steady_s)
            return False
        return steady_s - since_s >= REASON_DELAY_S

    def _next_look(self, key: RunKey, decision: Decision) -> Next | float:
        """When to plan again by ourselves: for the plan's sake, or because a reason may be worth a write by then."""
        delays_s = [REASON_DELAY_S] if key in self._blocked else []
        if decision.plan.wake_at_s is not None:
            delays_s.append(max(0.0, decision.plan.wake_at_s - self._world.clock.now_s()) + 0.001)
        return min(LOOK_MAX_S, *delays_s) if delays_s else Next.REST

    def _take_in(self, written: Obj) -> None:
        """Our own write into the cache, without a turn for what its writer knows already."""
        self._own_write = True
        try:
            self._world.runs.upsert(written)
        finally:
            self._own_write = False

    def _leave_unled(self, view: RunView) -> None:
        """Its shard may have been given up under a turn: what that has asked for since holds slots back from others."""
        if not self._world.shards.is_open(view.shard):
            self._leave(view)

    def _leave(self, view: RunView) -> None:
        self._admissions.forget(view.dag, view.key)
        self._blocked.pop(view.key, None)
        self._news.leave(view.key)
        self._unread.discard(view.key)
        self._letters.leave(view)
        self._desk.leave(view.dag, view.key)
