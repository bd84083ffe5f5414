"""Old runs go: by count and by time for each DAG, and by count over all DAGs; oldest first.

A run is deleted only when the DAG's stored mark is at or above its slot: else a leader that took over just now could
fire the slot again. And never within two minutes of its creation, so that a create whose answer was lost finds it.

Nor does a leader delete anything in its own first two minutes. While a run stands, its name keeps out the late create
of a leader before; once it is gone, only the epoch fence does, and each API server hears of a new epoch in its own
time.

Deletions go through a few lanes, one write at a time in each, a batch of one DAG after a batch of another: however much
there is to delete, it never stands in the way of what is to start.
"""

import asyncio
import heapq
import logging

from fencepost.apply.executor import Answer
from fencepost.apply.writers import Next
from fencepost.core.history import Ended, HistoryLimits, HistoryPlan, plan_history, progress_kept_for_s
from fencepost.core.intents import DeleteRevision, DeleteRun
from fencepost.core.names import DagKey, shard_of
from fencepost.core.phases import RunPhase
from fencepost.core.run_state import Trigger
from fencepost.loops.clock_check import LOOK_AGAIN_S
from fencepost.loops.dags import Dags
from fencepost.loops.definitions import Definitions
from fencepost.loops.world import World
from fencepost.observe.dags import DagView
from fencepost.observe.letters import LetterView
from fencepost.observe.runs import RunView

log = logging.getLogger(__name__)

AGE_MIN_S = 120.0
"""No run is deleted sooner than this after its creation, nor by a leader that has led for less."""
TOTAL_MAX = 20_000
"""Finished runs kept over all DAGs: each takes the API server some 36 KB of memory."""
NO_DAG_LIMITS = HistoryLimits(succeeded=TOTAL_MAX, failed=TOTAL_MAX, ttl_s=24 * 3600.0)
"""For finished runs whose DAG is not there: never begun, or left over when it was deleted without them."""
DELAY_S = 2.0
"""How long a run that ended waits for company before its DAG's history is looked at."""
RETRY_S = 5.0
BATCH_MAX = 20
"""Deletions of one DAG's runs before other DAGs have their turn."""
LANES = 4
TOTAL_PERIOD_S = 10.0
"""Between looks at the number of all finished runs; more are deleted at once only as far as a batch goes."""
TOTAL_BATCH_MAX = 500


class History:
    """Deletes what the limits do not keep."""

    def __init__(
        self,
        world: World,
        dags: Dags,
        definitions: Definitions,
        age_min_s: float = AGE_MIN_S,
        total_max: int = TOTAL_MAX,
    ) -> None:
        self._world = world
        self._dags = dags
        self._definitions = definitions
        self._age_min_s = age_min_s
        self._total_max = total_max
        self._queue: asyncio.Queue[DagKey] = asyncio.Queue()
        self._queued: set[DagKey] = set()

    async def run(self) -> None:
        """Delete, for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(LANES):
                group.create_task(self._serve_lane())
            group.create_task(self._limit_total())

    def run_changed(self, view: RunView) -> None:
        """A run of a DAG has ended."""
        if view.finished and self._world.shards.authority(view.shard) is not None:
            self._touch(view.dag, DELAY_S)

    def look(self, key: DagKey) -> None:
        """A DAG has become ours some time ago: the leader before may have died with something left to delete."""
        if self._world.runs.has_any(key):
            self._touch(key, DELAY_S)
        dag = self._world.dags.get(key)
        if dag is not None:
            self._look_at_revisions(dag)

    def dag_changed(self, view: DagView, old: DagView | None) -> None:
        """A DAG has been edited: it may keep fewer runs now, and have no more use of what it was before."""
        if old is None or old.generation == view.generation or self._world.shards.authority(view.shard) is None:
            return
        if self._world.runs.has_any(view.key):
            self._touch(view.key, DELAY_S)
        self._look_at_revisions(view)

    def dag_gone(self, view: DagView) -> None:
        """A DAG is gone; its runs go with it, or are left over."""
        if self._world.runs.has_any(view.key):
            self._touch(view.key, DELAY_S)

    def run_gone(self, view: RunView) -> None:
        """A run is gone: with the last one of an old revision, the revision goes too."""
        self._unused(view.dag, view.spec.revision if view.spec is not None else "")

    def letter_gone(self, view: LetterView) -> None:
        """A dead letter is gone: it has kept its job's revision, so that it could be replayed."""
        self._unused(view.dag, view.letter.revision)

    def _look_at_revisions(self, dag: DagView) -> None:
        """Of a DAG's earlier definitions, nobody may be using one any more."""
        for revision in self._definitions.known_revisions(dag):
            if revision != dag.revision:
                self._unused(dag.key, revision)

    def _unused(self, dag: DagKey, revision: str) -> None:
        """Somebody uses this revision no more, or may not."""
        if revision:
            key = ("revision", dag.namespace, revision)
            self._world.writers.touch(key, lambda: self._revision_turn(dag, revision), after_s=DELAY_S)

    def _touch(self, key: DagKey, after_s: float) -> None:
        async def enqueue() -> Next:
            if key not in self._queued:
                self._queued.add(key)
                self._queue.put_nowait(key)
            return Next.REST

        self._world.writers.touch(("history", key), enqueue, after_s=after_s)

    async def _serve_lane(self) -> None:
        while True:
            key = await self._queue.get()
            self._queued.discard(key)
            try:
                wanted = await self._turn(key)
            except Exception:
                log.exception("the history of DAG %s could not be looked at; it is tried again", key)
                wanted = Next.RETRY
            if wanted is not Next.REST:
                delays_s = {Next.AGAIN: 0.0, Next.RETRY: RETRY_S}
                self._touch(key, wanted if isinstance(wanted, float) else delays_s[wanted])

    async def _turn(self, key: DagKey) -> Next | float:
        """Delete a batch of a DAG's runs; when to look again."""
        shards = self._world.shards
        if shards.authority(shard_of(key, shards.count)) is None:
            return Next.REST  # whoever takes it up looks at it then
        if self._world.clock_check.wrong:
            return LOOK_AGAIN_S
        plan = self._plan(key)
        now_s = self._world.clock.now_s()
        waits_s = [] if plan.next_s is None else [max(0.0, plan.next_s - now_s)]
        batch = 0
        for run in plan.surplus:
            wait_s = self._kept_for_s(run)
            if wait_s > 0:
                waits_s.append(wait_s)
            elif batch == BATCH_MAX:
                return Next.AGAIN
            else:
                batch += 1
                if not await self._delete(run):
                    return Next.RETRY
        return min(waits_s) + 0.001 if waits_s else Next.REST

    def _plan(self, key: DagKey) -> HistoryPlan[RunView]:
        """What is to go of a DAG's runs; nothing while nobody can read what it wants to keep."""
        ended = [
            Ended(run, run.state.phase is RunPhase.SUCCEEDED, run.state.finish_s or 0.0, run.in_background)
            for run in self._world.runs.of_dag(key)
            if run.state is not None and _has_ended(run)
        ]
        dag = self._world.dags.get(key)
        if not ended or (dag is not None and dag.checked is None):
            return HistoryPlan((), None)
        limits = NO_DAG_LIMITS if dag is None or dag.checked is None else dag.checked.spec.history
        return plan_history(ended, limits, self._world.clock.now_s())

    def _kept_for_s(self, run: RunView) -> float:
        """How long a run that is to go must stay at least; it may turn out to be longer then."""
        world = self._world
        too_young_s = run.created_s + self._age_min_s - world.clock.now_s()
        too_new_here_s = world.shards.opened_s(run.shard) + self._age_min_s - world.clock.steady_s()
        if (kept_s := max(too_young_s, too_new_here_s)) > 0:
            return kept_s
        dag_is_there = world.dags.get(run.dag) is not None
        if dag_is_there and _slot_s(run) > self._dags.stored_mark_s(run.dag):
            self._dags.touch_status(run.dag, urgent=True)
            return DELAY_S
        return self._progress_kept_for_s(run) if run.backfill else 0.0

    def _progress_kept_for_s(self, run: RunView) -> float:
        others = (other for other in self._world.runs.of_dag(run.dag) if other.backfill == run.backfill)
        slots_s = (other.spec.scheduled_s for other in others if other.spec is not None and not other.deleting)
        slot_s = 0.0 if run.spec is None else run.spec.scheduled_s
        return progress_kept_for_s(slot_s, _finish_s(run), slots_s, self._world.clock.now_s())

    async def _delete(self, run: RunView) -> bool:
        """Whether a run is gone, or another's to delete; False if it has to be tried again."""
        authority = self._world.shards.authority(run.shard)
        if authority is None:
            return True
        written = await self._world.executor.execute(DeleteRun(authority, run.key, run.uid, str(run.version)))
        if written.answer is Answer.DONE:
            run.deleting = True
        return written.answer in (Answer.DONE, Answer.GONE, Answer.CONFLICT, Answer.NOT_LEADING)

    async def _limit_total(self) -> None:
        """Keep the number of all finished runs within its limit; each replica deletes those of its own shards."""
        while True:
            await self._world.clock.sleep(TOTAL_PERIOD_S)
            if self._world.runs.count <= self._total_max:
                continue
            ended = [run for run in self._world.runs.all() if _has_ended(run)]
            oldest = heapq.nsmallest(max(0, len(ended) - self._total_max), ended, key=_finish_s)
            ours = [run for run in oldest if self._world.shards.authority(run.shard) is not None]
            for run in ours[:TOTAL_BATCH_MAX]:
                if self._kept_for_s(run) == 0 and not await self._delete(run):
                    break

    async def _revision_turn(self, key: DagKey, revision: str) -> Next | float:
        """Delete a revision that is used by nobody any more: not soon after an edit, nor after a takeover, as a write
        that gives it to a run may be on its way. One that comes into use meanwhile all the same is made again."""
        world = self._world
        authority = world.shards.authority(shard_of(key, world.shards.count))
        dag = world.dags.get(key)
        if authority is None or dag is None or dag.revision == revision:
            return Next.REST
        if any(run.spec is not None and run.spec.revision == revision for run in world.runs.of_dag(key)):
            return Next.REST
        if any(letter.letter.revision == revision for letter in world.letters.of_dag(key)):
            return Next.REST
        settled_s = max(dag.edited_s - world.clock.now_s(), world.shards.opened_s(dag.shard) - world.clock.steady_s())
        if (left_s := settled_s + self._age_min_s) > 0:
            return left_s
        if world.clock_check.wrong:
            return LOOK_AGAIN_S
        written = await world.executor.execute(DeleteRevision(authority, key.namespace, revision))
        if written.answer in (Answer.DONE, Answer.GONE):
            self._definitions.gone(dag, revision)
        if written.answer is Answer.GONE:  # the DAG's status names it still, and no other write of it may follow
            self._dags.touch_status(key)
        return Next.RETRY if written.answer in (Answer.BUSY, Answer.UNKNOWN, Answer.REFUSED) else Next.REST


def _has_ended(run: RunView) -> bool:
    """A run that cannot be read is kept until a person looks; so is one that a person wants to be run again."""
    return run.finished and not run.problem and not run.deleting


def _finish_s(run: RunView) -> float:
    return (run.state.finish_s or 0.0) if run.state is not None else 0.0


def _slot_s(run: RunView) -> float:
    return run.spec.scheduled_s if run.spec is not None and run.spec.trigger is Trigger.SCHEDULE else 0.0
