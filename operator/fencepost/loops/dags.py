"""DAGs: their slots as they fall due, and the status that people read.

Runs are created one at a time for each DAG, oldest slot first. The mark moves in memory when a create is known to have
succeeded, or when a slot is skipped or missed; it is stored with the next write of the DAG's status, which waits a
moment for company. Nothing is deleted before the stored mark has passed it.

Before the first slot under a new epoch the DAG is read live: a run above the cached mark may have been created,
finished, marked and deleted by then.
"""

from fencepost.api.times import format_time
from fencepost.apply.executor import Answer
from fencepost.apply.writers import Next
from fencepost.base.alarm import Alarm
from fencepost.core.concurrency import Concurrency
from fencepost.core.definition import Priority
from fencepost.core.intents import Announce, Authority, DeleteDag
from fencepost.core.names import DagKey
from fencepost.core.plan_dag import Fate, Fire, Skip, plan_slot
from fencepost.core.schedule_spec import CatchUp
from fencepost.loops.admissions import Admissions
from fencepost.loops.beginning import pool_problem
from fencepost.loops.clock_check import LOOK_AGAIN_S
from fencepost.loops.dag_memories import DagMemories
from fencepost.loops.dag_memory import DagMemory, has_lost_its_next, stored_mark_s, stored_next_s, why_missed
from fencepost.loops.dag_status import condition_holds, dag_status
from fencepost.loops.definitions import Definitions
from fencepost.loops.due_queue import DueQueue
from fencepost.loops.firing import Firing
from fencepost.loops.ghosts import Ghosts
from fencepost.loops.letters import Letters
from fencepost.loops.pool_desk import PoolDesk
from fencepost.loops.runs import Runs
from fencepost.loops.world import World
from fencepost.observe.dags import DagView
from fencepost.observe.runs import RunView

STATUS_DELAY_S = 1.0
STATUS_DELAY_BUSY_S = 30.0
"""How long a change of a DAG's counters waits for company before it is stored: when little is written, when much is.
Must stay well below the age at which runs are deleted: their mark is stored before."""
FIRED_DELAY_S = 5.0
"""The same for a slot that has fired: a run that is over by then is told of in the same write."""
TICK_MAX_S = 1.0
"""The longest the ticker sleeps: the wall clock may jump under it."""
RETIRE_LOOK_MAX_S = 3600.0
"""The longest that a DAG which is to be deleted some day is left alone."""


class Dags:
    """All DAGs of the shards that this replica plans for."""

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
        self._admissions = admissions
        self._firing = Firing(world, definitions, desk, runs, letters, admissions)
        self._ghosts = Ghosts(world)
        self._memories = DagMemories(world, self.touch_status, self._firing.forget)
        self._queue = DueQueue(self._look, self._is_expected)
        self._sooner = Alarm(world.clock)
        self._held_back: set[DagKey] = set()
        """Something of theirs is due by a clock that cannot be trusted."""

    async def tick(self) -> None:
        """Take up every DAG whose next slot has come, for ever. The cost is that of what is due."""
        clock = self._world.clock
        while True:
            now_s = clock.now_s()
            if self._held_back and not self._world.clock_check.wrong:
                self._let_go()
            for at_s, key in self._queue.take(now_s):
                self.touch(key, since_s=at_s, urgent=True)
            next_s = self._queue.next_s()
            delay_s = TICK_MAX_S if next_s is None else min(TICK_MAX_S, next_s - now_s)
            await self._sooner.wait(max(0.001, delay_s))

    def take_up(self, view: DagView) -> None:
        """A DAG has become ours. One that an earlier leader has vouched for waits for the slot in its status;
        any other is looked at now, and so is one that has lost it: a slot may be due already, and wait for room."""
        if view.key in self._memories or not view.vouched_for or has_lost_its_next(view):
            self.touch(view.key)
        elif next_s := stored_next_s(view):
            self._wait_for(next_s, view.key)

    def touch(self, key: DagKey, *, since_s: float | None = None, urgent: bool = False) -> None:
        """Look at the DAG's slots, in its turn; `since_s` is when what is due was due, now if left out."""
        view = self._world.dags.get(key)
        priority = Priority.LOW if view is None else view.priority
        self._queue.ask(key, priority, self._world.clock.now_s() if since_s is None else since_s, urgent=urgent)

    def touch_status(self, key: DagKey, *, urgent: bool = False, idle_s: float = STATUS_DELAY_S) -> None:
        """Something that the DAG's status tells has changed."""
        writers = self._world.writers
        delay_s = writers.patience_s(idle_s, STATUS_DELAY_BUSY_S)
        writers.touch(("dag-status", key), lambda: self._status_turn(key), urgent=urgent, after_s=delay_s)

    def changed(self, view: DagView, old: DagView | None) -> None:
        """A DAG's object has changed."""
        if self._world.shards.authority(view.shard) is None:
            return
        edited = old is None or old.generation != view.generation
        if edited or view.key not in self._memories:
            self.touch(view.key)
        if edited:
            for waiting in self._admissions.not_begun(view.key):
                self._runs.touch(waiting)

    def gone(self, view: DagView) -> None:
        """A DAG's object is gone; its runs go by owner reference, or go on if they were orphaned."""
        self._memories.drop(view.key)

    def run_changed(self, view: RunView, old: RunView | None) -> None:
        """A run of a DAG has begun or ended; or one has appeared that no leader of now has made."""
        if view.finished and (old is None or not old.finished):  # also while the shard is another's, or may be
            self._admissions.forget(view.dag, view.key)
        if self._world.shards.authority(view.shard) is None:
            return
        self._ghosts.look(view, old, self._memories.led(view.dag))
        if old is None or old.finished != view.finished:
            self.touch_status(view.dag, idle_s=STATUS_DELAY_S if view.finished else FIRED_DELAY_S)
            self._room_changed(view.dag)

    def run_gone(self, view: RunView) -> None:
        """A run is gone: a slot that the stored mark has not passed must not fire again."""
        memory = self._memories.led(view.dag)
        if memory is None:
            return
        slot_s = memory.slot_of(view)
        if slot_s > memory.mark_s:
            memory.told_of(slot_s, view.key.name, Fate.of_run(slot_s, view.created_s))
        if slot_s > memory.stored_mark_s:
            self.touch_status(view.dag, urgent=True)
        elif not view.finished:
            self.touch_status(view.dag)
        if not view.finished:
            self._room_changed(view.dag)

    def letters_missed(self, key: DagKey, count: int, why: str) -> None:
        """Jobs of a DAG that failed for good leave no dead letter; the first of a streak are worth a write."""
        if (memory := self._memories.led(key)) is not None and memory.missed_letters(count, why):
            self.touch_status(key)

    def letter_gone(self, key: DagKey) -> None:
        """A dead letter of a DAG has made room: what is missed after it is another streak."""
        if (memory := self._memories.get(key)) is not None:
            memory.letters_full = False

    def stored_mark_s(self, key: DagKey) -> float:
        """The mark as it is stored, in Unix seconds; deletion of a run waits until it has passed the run's slot."""
        view = self._world.dags.get(key)
        return 0.0 if view is None else stored_mark_s(view)

    def release(self, shard: int) -> None:
        """The shard is no longer ours."""
        self._memories.release(shard)
        self._admissions.release(shard, self._world.shards.count)

    def _is_expected(self, at_s: float, key: DagKey) -> bool:
        """Whether the DAG is there, and its next slot comes then as far as is known."""
        memory = self._memories.get(key)
        expected = memory is None or not memory.planned or memory.next_s == at_s
        return expected and self._world.dags.get(key) is not None

    def _look(self, key: DagKey, urgent: bool) -> None:
        self._world.writers.touch(("dag", key), lambda: self._turn(key), urgent=urgent, after_s=0.0)

    def _room_changed(self, key: DagKey) -> None:
        """Another number of runs is active, or may be: whoever waits for room asks again."""
        view = self._world.dags.get(key)
        if view is None or view.checked is None:
            return
        spec = view.checked.spec
        if spec.limits.policy is Concurrency.REPLACE:
            for run in self._admissions.active(key):
                self._runs.touch(run)
        elif spec.limits.policy is Concurrency.QUEUE:
            for run in self._admissions.waiting(key):
                self._runs.touch(run)
        if spec.schedule.catch_up is CatchUp.ALL or spec.ttl_s is not None:
            self.touch(key)

    async def _turn(self, key: DagKey) -> Next | float:
        wanted: Next | float = Next.REST
        try:
            wanted = await self._take_turn(key)
        finally:
            if wanted is not Next.AGAIN:  # that is still the same look
                self._queue.done(key)
        return wanted

    async def _take_turn(self, key: DagKey) -> Next | float:
        """Decide over every due slot of a DAG, oldest first."""
        view = self._world.dags.get(key)
        if view is None:
            return Next.REST
        authority = self._world.shards.authority(view.shard)
        if authority is None:
            return Next.REST
        memory = self._memories.of(view, authority)
        memory.follow(view, self._world.clock.now_s())
        if memory.creating:
            self.touch_status(key)
            if not await self._firing.settle(view, memory):
                return Next.RETRY
        if view.status.get("observedGeneration") != view.generation:
            self.touch_status(key, urgent=True)
        elif view.status.get("active", 0) != self._world.runs.active_count(key):
            self.touch_status(key, idle_s=FIRED_DELAY_S)
        pool_problem = self._pool_problem(view) if view.checked is not None else ""
        if not condition_holds(view, pool_problem):
            self.touch_status(key)
        if view.checked is None or view.deleting or view.checked.spec.suspend or pool_problem:
            memory.over = False
            self._schedule(view, memory, None)
            return Next.REST
        return await self._decide_due(view, memory, authority)

    async def _decide_due(self, view: DagView, memory: DagMemory, authority: Authority) -> Next | float:
        assert view.checked is not None
        spec = view.checked.spec
        while True:
            plan = plan_slot(
                view.checked.schedule,
                spec.schedule,
                spec.limits,
                max(memory.mark_s, memory.schedule_seen_s),
                self._admissions.active_count(view.key),
                self._world.clock.now_s(),
            )
            if plan.decision is not None or plan.missed is not None:
                first = await self._be_sure(view, memory)
                if first is not None:
                    return first
            if plan.missed is not None:
                self._passed(view, memory, Fate.MISSED, plan.missed.last_s, plan.missed.count, why_missed(plan.missed))
            if plan.decision is not None and self._firing.known(view, memory, int(plan.decision.slot_s)):
                self.touch_status(view.key)
                continue
            match plan.decision:
                case None:
                    memory.over = plan.next_s is None and not plan.waiting
                    self._schedule(view, memory, plan.next_s)
                    return await self._retire(view, memory, authority)
                case Skip(slot_s, reason, message):
                    self._passed(view, memory, Fate.SKIPPED, slot_s, 1, f"{reason}: {message}")
                case Fire(slot_s):
                    outcome = await self._firing.fire(view, memory, authority, int(slot_s))
                    self.touch_status(view.key, idle_s=FIRED_DELAY_S)
                    if outcome is not None:
                        return outcome

    def _hold_back(self, view: DagView, memory: DagMemory) -> None:
        """Decide nothing by a clock that is wrong: what is due by it may have been due long since, or not be yet."""
        assert view.checked is not None
        self._held_back.add(view.key)
        memory.next_s = view.checked.schedule.next_slot(max(memory.mark_s, memory.schedule_seen_s))
        memory.planned = True

    def _let_go(self) -> None:
        """The clock is right again: whatever was held back waits for its slot, which may have come."""
        for key in self._held_back:
            if (memory := self._memories.get(key)) is not None and memory.next_s is not None:
                self._queue.expect(key, memory.next_s)
        self._held_back.clear()

    def _passed(self, view: DagView, memory: DagMemory, fate: Fate, slot_s: float, count: int, why: str) -> None:
        memory.passed(fate, slot_s, count, why)
        self._world.metrics.slots_passed(fate.value, count)
        self.touch_status(view.key)

    async def _be_sure(self, view: DagView, memory: DagMemory) -> Next | None:
        """Decide only by a clock that can be trusted, and on a mark that was read live; None: go on."""
        if self._world.clock_check.wrong:
            self._hold_back(view, memory)
            return Next.REST
        return None if memory.live else await self._memories.read_live(view.key, memory)

    async def _retire(self, view: DagView, memory: DagMemory, authority: Authority) -> Next | float:
        """Delete a DAG whose schedule is over, once what it asks to be kept for has passed; else rest."""
        assert view.checked is not None
        ttl_s = view.checked.spec.ttl_s
        runs = list(self._world.runs.of_dag(view.key))
        if ttl_s is None or not memory.over or not all(run.finished for run in runs):
            return Next.REST
        ends_s = (run.state.finish_s or 0.0 for run in runs if run.state is not None)
        left_s = max([memory.mark_s, view.created_s, *ends_s]) + ttl_s - self._world.clock.now_s()
        if self._world.clock_check.wrong:
            return LOOK_AGAIN_S
        if left_s > 0:
            return min(left_s, RETIRE_LOOK_MAX_S)
        written = await self._world.executor.execute(DeleteDag(authority, view.record))
        match written.answer:
            case Answer.DONE | Answer.GONE | Answer.NOT_LEADING:
                return Next.REST
            case Answer.CONFLICT:
                return Next.AGAIN if await self._world.refresh_dag(view.key) else Next.RETRY
            case _:
                return Next.RETRY

    def _schedule(self, view: DagView, memory: DagMemory, next_s: float | None) -> None:
        """Wait for the next slot, and let the status tell of it."""
        if next_s is not None and next_s != memory.next_s:
            self._wait_for(next_s, view.key)
        memory.next_s, memory.planned = next_s, True
        if (None if next_s is None else format_time(next_s)) != view.status.get("nextScheduledTime"):
            self.touch_status(view.key, idle_s=FIRED_DELAY_S)

    def _wait_for(self, next_s: float, key: DagKey) -> None:
        if self._queue.expect(key, next_s):
            self._sooner.ring()

    def _pool_problem(self, view: DagView) -> str:
        """Why the DAG's pool is of no use to it; empty when it is."""
        assert view.checked is not None
        name = view.checked.spec.definition.pool
        pool = self._desk.get(name)
        return pool_problem(view.key, name, pool.spec if pool is not None else None)

    async def _status_turn(self, key: DagKey) -> Next | float:
        view = self._world.dags.get(key)
        authority = self._world.shards.authority(view.shard) if view is not None else None
        if view is None or authority is None:
            return Next.REST
        memory = self._memories.of(view, authority)
        if not memory.live:
            return await self._memories.read_live(key, memory)
        if not memory.planned:
            self.touch(key)
            return STATUS_DELAY_S
        memory.mark_s = max(memory.mark_s, stored_mark_s(view))
        pool_problem = self._pool_problem(view) if view.checked is not None else ""
        runs = list(self._world.runs.of_dag(key))
        intent = dag_status(view, memory, runs, self._definitions, pool_problem, self._world.clock.now_s())
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
        """An Event for the first of a streak of what went wrong in one way."""
        news, memory.news = memory.news, {}
        for reason, why in news.items():
            await self._world.executor.execute(Announce(view.record, reason, why))
