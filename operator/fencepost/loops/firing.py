"""Firing a slot: its run is created, and what became of the create is found out, whatever answer got lost."""

from fencepost.apply.executor import Answer
from fencepost.apply.writers import Next
from fencepost.core.intents import Authority, CreateRun
from fencepost.core.names import DagKey, RunKey, scheduled_run_name
from fencepost.core.plan_dag import Fate
from fencepost.core.plan_run import RunFacts, RunPlan
from fencepost.core.run_spec import RunSpec
from fencepost.core.run_state import RunState, Trigger
from fencepost.loops.admissions import Admissions
from fencepost.loops.dag_memory import DagMemory
from fencepost.loops.deciding import Decision, decide, values_of
from fencepost.loops.definitions import Compiled, Definitions
from fencepost.loops.letters import Letters
from fencepost.loops.pool_desk import PoolDesk
from fencepost.loops.runs import Runs
from fencepost.loops.world import World
from fencepost.observe.dags import DagView
from fencepost.observe.reflector import version_of
from fencepost.observe.runs import RunView


class Firing:
    """Creates the runs of slots, one at a time for each DAG."""

    def __init__(
        self,
        world: World,
        definitions: Definitions,
        desk: PoolDesk,
        runs: Runs,
        letters: Letters,
        admissions: Admissions,
    ) -> None:
        self._world = world
        self._definitions = definitions
        self._desk = desk
        self._runs = runs
        self._letters = letters
        self._admissions = admissions

    async def fire(self, view: DagView, memory: DagMemory, authority: Authority, slot_s: int) -> Next | None:
        """Create one slot's run; None once its fate is known and the mark has passed it, else how the turn ends."""
        world = self._world
        if await self._definitions.store(view, authority) is not Answer.DONE:
            return Next.RETRY
        compiled = self._definitions.of_dag(view)
        run = RunKey(view.key.namespace, scheduled_run_name(view.key.name, slot_s))
        now_s = world.clock.now_s()
        decision = self._decide(view, authority, compiled, run, slot_s, now_s)
        intent = CreateRun(authority, run, view.key, view.uid, view.revision, Trigger.SCHEDULE, slot_s, decision.state)
        memory.creating[run] = slot_s
        written = await world.executor.execute(intent)
        if written.object is not None:
            uid = written.object["metadata"]["uid"]
            memory.fired_slot(slot_s, run.name, uid, self._fate(slot_s, now_s))
            world.runs.upsert(written.object)
            memory.creating.pop(run, None)
            created = world.runs.get(run)
            if created is None or created.version > version_of(written.object):
                # the answer was slow: the run is gone, or has gone on, and its leases may have been taken back
                self._desk.close(decision.grants)
            elif decision.state.start_s is not None:
                wanted = self._runs.stored(created, authority, compiled, decision, RunState())
                if isinstance(wanted, float):
                    self._runs.touch(run, after_s=wanted)
            return None
        self._desk.close(decision.grants)
        self._desk.perhaps(view.key, run, len(decision.state.leases))
        outcome = await self._fate_of(view, memory, run, slot_s, written.answer)
        ours = world.shards.is_open(view.shard)
        if not ours or (run not in memory.creating and slot_s not in memory.fired):  # otherwise what it holds counts on
            self._let_go(view.key, run)
        return outcome

    async def settle(self, view: DagView, memory: DagMemory) -> bool:
        """Find out what became of creates that have had no answer; False where that cannot be read."""
        for run, slot_s in list(memory.creating.items()):
            if not await self._world.refresh_run(run):
                return False
            del memory.creating[run]
            if not self.known(view, memory, slot_s) and self._world.runs.get(run) is None:
                self._let_go(view.key, run)
        return True

    def known(self, view: DagView, memory: DagMemory, slot_s: int) -> bool:
        """Whether the slot's run is there already, of whose create nothing told until now: it must not count against
        itself, nor be skipped for another's sake. The mark has passed it then."""
        run = RunKey(view.key.namespace, scheduled_run_name(view.key.name, slot_s))
        found = self._world.runs.get(run)
        if found is None or not _is_of_slot(found, view, slot_s):
            return False
        if slot_s not in memory.fired:
            memory.fired_slot(slot_s, run.name, found.uid, self._fate(slot_s, found.created_s))
        self._runs.touch(run)
        return True

    def forget(self, dag: DagKey, memory: DagMemory) -> None:
        """This replica plans for the DAG no longer: runs that never came to be known hold nothing any more."""
        for run in memory.creating:
            if self._world.runs.get(run) is None:
                self._let_go(dag, run)

    def _let_go(self, dag: DagKey, run: RunKey) -> None:
        self._desk.leave(dag, run)
        self._admissions.forget(dag, run)

    def _decide(
        self, view: DagView, authority: Authority, compiled: Compiled, run: RunKey, slot_s: int, now_s: float
    ) -> Decision:
        """The run as it is created: with its first leases, or waiting for its turn."""
        verdict = self._admissions.new(view, run, slot_s)
        if verdict.wait_reason:
            state = verdict.waiting(RunState(), authority.epoch, compiled.graph.size)
            return Decision(state, RunPlan(state), ())
        spec = RunSpec(view.key.name, Trigger.SCHEDULE, slot_s)
        values = values_of(run, view.key, spec, compiled)
        room = self._letters.room(view.key)
        facts = RunFacts(run_uid="", epoch=authority.epoch, cancelled=False, values=values, letters_room=room)
        return decide(self._desk, view.key, run, compiled, RunState(), facts, now_s)

    def _fate(self, slot_s: int, made_s: float) -> Fate:
        fate = Fate.of_run(slot_s, made_s)
        self._world.metrics.slots_passed(fate.value, 1)
        return fate

    async def _fate_of(self, view: DagView, memory: DagMemory, run: RunKey, slot_s: int, answer: Answer) -> Next:
        """After a create without success: is the slot's run there all the same?"""
        if answer in (Answer.NOT_LEADING, Answer.REFUSED, Answer.BUSY):
            memory.creating.pop(run, None)
            return Next.RETRY if answer is not Answer.NOT_LEADING else Next.REST
        if not await self.settle(view, memory):
            return Next.RETRY
        if slot_s in memory.fired:
            return Next.AGAIN
        if self._world.runs.get(run) is None:
            return Next.AGAIN if answer is Answer.EXISTS else Next.RETRY
        why = f"NameTaken: DAGRun {run} is not this slot's run; delete or rename it"
        memory.passed(Fate.SKIPPED, slot_s, 1, why)
        self._world.metrics.slots_passed(Fate.SKIPPED.value, 1)
        return Next.AGAIN


def _is_of_slot(found: RunView, view: DagView, slot_s: int) -> bool:
    """Whether a run is this slot's: made by its schedule, or by a backfill that was here first and may not have been
    taken up yet."""
    spec = found.spec
    if spec is None or spec.scheduled_s != slot_s or found.dag != view.key:
        return False
    if spec.trigger is Trigger.BACKFILL:
        return spec.dag_uid in ("", view.uid)
    return spec.trigger is Trigger.SCHEDULE and spec.dag_uid == view.uid
