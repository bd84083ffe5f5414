"""DAGs: their slots as they fall due, and the status that people read.

Runs are created one at a time for each DAG, oldest slot first. The mark moves in memory when a create is known to have
succeeded, or when a slot is skipped or missed; it is stored with the next write of the DAG's status, which waits a
moment for company. Nothing is deleted before the stored mark has passed it.

Before the first slot under a new epoch the DAG is read live: its cached mark may be older than what the leader before
has stored, and a run above the cached mark may have been created, finished, marked and deleted by then.
"""

import asyncio
import heapq
import logging

from fencepost.api.times import format_time
from fencepost.apply.executor import Answer
from fencepost.apply.writers import Next
from fencepost.core.intents import Announce, Authority, CreateRun, DeleteRun
from fencepost.core.names import DagKey, RunKey, scheduled_run_name
from fencepost.core.plan_dag import LATENESS_MAX_S, Fire, Skip, plan_slot
from fencepost.core.plan_run import RunFacts
from fencepost.core.run_spec import RunSpec
from fencepost.core.run_state import RunState, Trigger
from fencepost.loops.dag_status import DagMemory, dag_status, stored_mark_s, stored_next_s
from fencepost.loops.deciding import decide, values_of
from fencepost.loops.definitions import Definitions
from fencepost.loops.pool_desk import PoolDesk
from fencepost.loops.runs import Runs
from fencepost.loops.world import World
from fencepost.observe.dags import DagView
from fencepost.observe.runs import RunView

log = logging.getLogger(__name__)

STATUS_DELAY_S = 1.0
STATUS_DELAY_BUSY_S = 30.0
"""How long a change of a DAG's counters waits for company before it is stored: when little is written, when much is.
Must stay well below the age at which runs are deleted: their mark is stored before."""
TICK_MAX_S = 1.0
"""The longest the ticker sleeps: the wall clock may jump under it."""
GHOST = "is of a slot long decided: deleting it"
"""What is wrong with a run that should never have been: nobody plans it, however long its deletion takes."""


class Dags:
    """All DAGs of the shards that this replica plans for."""

    def __init__(self, world: World, definitions: Definitions, desk: PoolDesk, runs: Runs) -> None:
        self._world = world
        self._definitions = definitions
        self._desk = desk
        self._runs = runs
        self._memories: dict[DagKey, DagMemory] = {}
        self._due: list[tuple[float, DagKey]] = []
        """A heap of next slots; an entry counts only while it is the DAG's own next slot."""
        self._sooner = asyncio.Event()
        self._creating: set[RunKey] = set()
        """Runs whose create is under way, or was sent and has had no clear answer yet."""

    async def tick(self) -> None:
        """Take up every DAG whose next slot has come, for ever. The cost is that of what is due."""
        clock = self._world.clock
        while True:
            now_s = clock.now_s()
            while self._due and self._due[0][0] <= now_s:
                at_s, key = heapq.heappop(self._due)
                memory = self._memories.get(key)
                if memory is None or memory.next_s == at_s:
                    self.touch(key, urgent=True)
            delay_s = min(TICK_MAX_S, self._due[0][0] - now_s) if self._due else TICK_MAX_S
            self._sooner.clear()
            try:
                await asyncio.wait_for(self._sooner.wait(), max(0.001, delay_s))
            except TimeoutError:
                continue

    def take_up(self, view: DagView) -> None:
        """A DAG has become ours. One that an earlier leader has vouched for waits for the slot that stands in its
        status, and is not even read; any other is looked at now."""
        if not view.vouched_for:
            self.touch(view.key)
        elif next_s := stored_next_s(view):
            self._wait_for(next_s, view.key)

    def touch(self, key: DagKey, *, urgent: bool = False) -> None:
        """Look at the DAG's slots."""
        self._world.writers.touch(("dag", key), lambda: self._turn(key), urgent=urgent)

    def touch_status(self, key: DagKey, *, urgent: bool = False) -> None:
        """Something that the DAG's status tells has changed."""
        writers = self._world.writers
        delay_s = writers.patience_s(STATUS_DELAY_S, STATUS_DELAY_BUSY_S)
        writers.touch(("dag-status", key), lambda: self._status_turn(key), urgent=urgent, after_s=delay_s)

    def changed(self, view: DagView, old: DagView | None) -> None:
        """A DAG's object has changed."""
        if self._world.shards.authority(view.shard) is None:
            return
        edited = old is None or old.generation != view.generation
        if edited or view.key not in self._memories:
            self.touch(view.key)
        if edited:
            for run in list(self._world.runs.of_dag(view.key)):
                if not run.finished and not (run.spec and run.spec.revision):
                    self._runs.touch(run.key)

    def gone(self, view: DagView) -> None:
        """A DAG's object is gone; its runs go by owner reference, or go on if they were orphaned."""
        self._memories.pop(view.key, None)

    def run_changed(self, view: RunView, old: RunView | None) -> None:
        """A run of a DAG has begun or ended; or one has appeared that no leader of now has made."""
        if self._world.shards.authority(view.shard) is None:
            return
        if (old is None or old.problem == GHOST) and self._is_ghost(view):
            view.problem = GHOST
            log.warning("run %s %s", view.key, GHOST, extra={"run": str(view.key)})
            self._world.writers.touch(("ghost", view.key, view.uid), lambda: self._exorcise(view), urgent=True)
        if old is None or old.finished != view.finished:
            self.touch_status(view.dag)

    def run_gone(self, view: RunView) -> None:
        """A run is gone: a slot that the stored mark has not passed must not fire again."""
        memory = self._memory_of(view.dag)
        if memory is None:
            return
        memory.mark_s = max(memory.mark_s, _slot_of(view, memory))
        if view.spec is not None and view.spec.scheduled_s > memory.stored_mark_s:
            self.touch_status(view.dag, urgent=True)
        elif not view.finished:
            self.touch_status(view.dag)

    def stored_mark_s(self, key: DagKey) -> float:
        """The mark as it is stored, in Unix seconds; deletion of a run waits until it has passed the run's slot."""
        view = self._world.dags.get(key)
        return 0.0 if view is None else stored_mark_s(view)

    def release(self, shard: int) -> None:
        """The shard is no longer ours: forget what only a leader may believe."""
        for key in [key for key, memory in self._memories.items() if memory.authority.shard == shard]:
            del self._memories[key]

    def _is_ghost(self, view: RunView) -> bool:
        """A scheduled run that no leader of now has created, of a slot that it has fired or that lies below the mark: a
        late write of a deposed one. One at the mark itself, if it is not known who fired that, is kept: the write that
        moved the mark may have told of it."""
        memory = self._memory_of(view.dag)
        if (
            memory is None
            or view.spec is None
            or view.spec.trigger is not Trigger.SCHEDULE
            or view.spec.round  # of a late write nobody has asked for more
            or view.key in self._creating
            or view.finished
        ):
            return False
        fired_uid = memory.fired.get(view.spec.scheduled_s)
        return view.spec.scheduled_s < memory.mark_s if fired_uid is None else view.uid != fired_uid

    async def _exorcise(self, view: RunView) -> Next:
        authority = self._world.shards.authority(view.shard)
        if authority is None:
            return Next.REST
        written = await self._world.executor.execute(DeleteRun(authority, view.key, view.uid))
        return Next.REST if written.answer in (Answer.DONE, Answer.GONE, Answer.CONFLICT) else Next.RETRY

    async def _turn(self, key: DagKey) -> Next:
        """Decide over every due slot of a DAG, oldest first."""
        view = self._world.dags.get(key)
        if view is None:
            return Next.REST
        authority = self._world.shards.authority(view.shard)
        if authority is None:
            return Next.REST
        memory = self._remembered(view, authority)
        memory.follow(view, self._world.clock.now_s())
        if view.status.get("observedGeneration") != view.generation:
            self.touch_status(key, urgent=True)
        elif view.status.get("active", 0) != self._world.runs.active_count(key):
            self.touch_status(key)
        if view.checked is None or view.deleting or view.checked.spec.suspend or self._pool_problem(view):
            self._schedule(view, memory, None)
            return Next.REST
        return await self._fire_due(view, memory, authority)

    async def _fire_due(self, view: DagView, memory: DagMemory, authority: Authority) -> Next:
        assert view.checked is not None
        spec = view.checked.spec
        while True:
            active = self._world.runs.active_count(view.key)
            plan = plan_slot(
                view.checked.schedule.next_slot,
                max(memory.mark_s, memory.schedule_seen_s),
                spec.concurrency_policy,
                spec.concurrency_limit,
                active,
                self._world.clock.now_s(),
                spec.schedule.starting_deadline_s or LATENESS_MAX_S,
            )
            if (plan.decision is not None or plan.missed) and not memory.live:
                return await self._read_live(view.key, memory)
            if plan.missed:
                memory.missed += plan.missed
                memory.mark_s = max(memory.mark_s, plan.mark_s)
                self._world.metrics.slots_passed("missed", plan.missed)
                self.touch_status(view.key)
            match plan.decision:
                case None:
                    self._schedule(view, memory, plan.next_s)
                    return Next.REST
                case Skip(slot_s, reason, message):
                    memory.mark_s = slot_s
                    memory.skipped += 1
                    memory.skip_reason = f"{reason}: {message}"
                    self._world.metrics.slots_passed("skipped", 1)
                    self.touch_status(view.key)
                case Fire(slot_s):
                    outcome = await self._fire(view, memory, authority, int(slot_s))
                    if outcome is not None:
                        return outcome

    async def _read_live(self, key: DagKey, memory: DagMemory) -> Next:
        """Before the first decision under this epoch: the mark as it is stored, not as a cache has it."""
        if not await self._world.refresh_dag(key):
            return Next.RETRY
        view = self._world.dags.get(key)
        if view is None or view.uid != memory.uid:
            return Next.REST
        self._memories[key] = live = self._recall(view, memory.authority)
        live.follow(view, self._world.clock.now_s())
        live.live = True
        return Next.AGAIN

    def _memory_of(self, key: DagKey) -> DagMemory | None:
        """What the leader of this DAG knows of it; None where that is somebody else, or the DAG is gone."""
        view = self._world.dags.get(key)
        authority = self._world.shards.authority(view.shard) if view is not None else None
        return self._remembered(view, authority) if view is not None and authority is not None else None

    def _remembered(self, view: DagView, authority: Authority) -> DagMemory:
        memory = self._memories.get(view.key)
        if memory is None or memory.authority != authority or memory.uid != view.uid:
            memory = self._memories[view.key] = self._recall(view, authority)
        return memory

    def _recall(self, view: DagView, authority: Authority) -> DagMemory:
        """What is stored of a DAG's schedule, and what the leader before has not come to store."""
        memory = DagMemory.read(view, authority)
        for run in self._world.runs.of_dag(view.key):
            # Runs are created oldest slot first: where one exists, every slot up to it has had its fate.
            memory.mark_s = max(memory.mark_s, _slot_of(run, memory))
        if memory.mark_s > memory.stored_mark_s:
            self.touch_status(view.key)
        return memory

    async def _fire(self, view: DagView, memory: DagMemory, authority: Authority, slot_s: int) -> Next | None:
        """Create one slot's run; None once its fate is known and the mark has passed it, else how the turn ends."""
        world = self._world
        if await self._definitions.store(view, authority) is not Answer.DONE:
            return Next.RETRY
        compiled = self._definitions.of_dag(view)
        run = RunKey(view.key.namespace, scheduled_run_name(view.key.name, slot_s))
        before = RunState()
        spec = RunSpec(view.key.name, Trigger.SCHEDULE, slot_s)
        values = values_of(run, view.key, spec, compiled)
        facts = RunFacts(run_uid="", epoch=authority.epoch, cancelled=False, values=values)
        decision = decide(self._desk, view.key, run, compiled, before, facts, world.clock.now_s())
        intent = CreateRun(authority, run, view.key, view.uid, view.revision, Trigger.SCHEDULE, slot_s, decision.state)
        self._creating.add(run)
        written = await world.executor.execute(intent)
        if written.object is not None:
            memory.fired_slot(slot_s, written.object["metadata"]["uid"])
            world.runs.upsert(written.object)
            self._creating.discard(run)
            created = world.runs.get(run)
            if created is not None:
                wanted = self._runs.stored(created, authority, compiled, decision, before)
                if isinstance(wanted, float):
                    self._runs.touch(run, after_s=wanted)
            self.touch_status(view.key)
            return None
        self._desk.close(decision.grants)
        outcome = await self._fate_of(view, memory, run, slot_s, written.answer)
        if slot_s not in memory.fired:  # if it is, what it holds counts on
            self._desk.leave(view.key, run)
        return outcome

    async def _fate_of(self, view: DagView, memory: DagMemory, run: RunKey, slot_s: int, answer: Answer) -> Next:
        """After a create without success: is the slot's run there all the same?"""
        if answer in (Answer.NOT_LEADING, Answer.REFUSED, Answer.BUSY):
            self._creating.discard(run)
            return Next.RETRY if answer is not Answer.NOT_LEADING else Next.REST
        if not await self._world.refresh_run(run):
            return Next.RETRY
        self._creating.discard(run)
        found = self._world.runs.get(run)
        if found is None:
            return Next.AGAIN if answer is Answer.EXISTS else Next.RETRY
        spec = found.spec
        if (
            spec is not None
            and spec.trigger is Trigger.SCHEDULE
            and (spec.dag_uid, spec.scheduled_s) == (view.uid, slot_s)
        ):
            memory.fired_slot(slot_s, found.uid)
            self._runs.touch(run)
        else:
            memory.mark_s = slot_s
            memory.skipped += 1
            memory.skip_reason = f"NameTaken: DAGRun {run} is not this slot's run; delete or rename it"
            self._world.metrics.slots_passed("skipped", 1)
        self.touch_status(view.key)
        return Next.AGAIN

    def _schedule(self, view: DagView, memory: DagMemory, next_s: float | None) -> None:
        """Wait for the next slot, and let the status tell of it."""
        if next_s is not None and next_s != memory.next_s:
            self._wait_for(next_s, view.key)
        memory.next_s, memory.planned = next_s, True
        if (None if next_s is None else format_time(next_s)) != view.status.get("nextScheduledTime"):
            self.touch_status(view.key)

    def _wait_for(self, next_s: float, key: DagKey) -> None:
        heapq.heappush(self._due, (next_s, key))
        if self._due[0] == (next_s, key):
            self._sooner.set()

    def _pool_problem(self, view: DagView) -> str:
        """Why the DAG's pool is of no use to it; empty when it is."""
        assert view.checked is not None
        name = view.checked.spec.definition.pool
        pool = self._desk.get(name)
        if pool is None:
            return f"there is no WorkerPool {name!r}; create it or name another in spec.pool"
        if not pool.spec.admits(view.key.namespace):
            return f"WorkerPool {name!r} does not admit namespace {view.key.namespace!r}; add it or name another pool"
        return ""

    async def _status_turn(self, key: DagKey) -> Next | float:
        view = self._world.dags.get(key)
        authority = self._world.shards.authority(view.shard) if view is not None else None
        if view is None or authority is None:
            return Next.REST
        memory = self._remembered(view, authority)
        if not memory.planned:
            self.touch(key)
            return STATUS_DELAY_S
        pool_problem = self._pool_problem(view) if view.checked is not None else ""
        runs = list(self._world.runs.of_dag(key))
        revision = self._definitions.stored_revision(view)
        intent = dag_status(view, memory, runs, revision, pool_problem, self._world.clock.now_s())
        if intent is None:
            return Next.REST
        written = await self._world.executor.execute(intent)
        match written.answer:
            case Answer.DONE:
                assert written.object is not None
                self._world.dags.upsert(written.object)
                await self._announce(view, memory)
                return Next.REST
            case Answer.NOT_LEADING | Answer.GONE:
                return Next.REST
            case Answer.CONFLICT:
                return Next.AGAIN if await self._world.refresh_dag(key) else Next.RETRY
            case Answer.UNKNOWN:
                await self._world.refresh_dag(key)
                return Next.RETRY
            case _:
                return Next.RETRY

    async def _announce(self, view: DagView, memory: DagMemory) -> None:
        """An Event for the first of a streak of skipped slots."""
        if memory.skip_reason and memory.skip_announced != memory.skip_reason:
            memory.skip_announced = memory.skip_reason
            await self._world.executor.execute(Announce(view.record, "SlotSkipped", memory.skip_reason))


def _slot_of(run: RunView, memory: DagMemory) -> float:
    """The slot that this run stands for, in Unix seconds; 0 where it is no scheduled run of this very DAG."""
    scheduled = run.spec is not None and run.spec.trigger is Trigger.SCHEDULE and run.spec.dag_uid == memory.uid
    return run.spec.scheduled_s if run.spec is not None and scheduled else 0.0
