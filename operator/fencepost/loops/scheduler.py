"""One replica's scheduler: the caches, the loops over them, and who tells whom of what.

Events come in through the reflectors and through the answers to our own writes; both end in a cache, and the cache
tells the loops. A loop never writes by itself: it touches the writer of the object concerned.

The barrier stands between an acquired shard and its first plan: consistent lists of its runs, of all workers and of
the pools, begun after the acquisition.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping

from fencepost.api import names as wire
from fencepost.api.read import read_pool
from fencepost.apply.executor import Executor
from fencepost.apply.writers import Writers
from fencepost.base.clock import Clock
from fencepost.base.metrics import Metrics
from fencepost.core.names import DagKey, MailboxKey, RunKey, parse_mailbox_key
from fencepost.core.placement import PoolSpec
from fencepost.core.plan_workers import token_of
from fencepost.core.turns import NOBODY, Backlog, Rivals
from fencepost.kube.errors import ApiError
from fencepost.kube.protocol import Api, Obj
from fencepost.loops.admissions import Admissions
from fencepost.loops.audit import Audit
from fencepost.loops.clock_check import ClockCheck
from fencepost.loops.dags import Dags
from fencepost.loops.definitions import Definitions
from fencepost.loops.history import AGE_MIN_S, TOTAL_MAX, History
from fencepost.loops.keeper import Keeper
from fencepost.loops.letters import Letters
from fencepost.loops.mailboxes import Mailboxes
from fencepost.loops.pool_desk import PoolDesk
from fencepost.loops.pool_status import PoolStatus
from fencepost.loops.replays import Replays
from fencepost.loops.reserves import Reserves
from fencepost.loops.runs import Runs
from fencepost.loops.shards import Shards
from fencepost.loops.world import World
from fencepost.observe.dags import DagCache, DagView
from fencepost.observe.letters import LetterCache, LetterView
from fencepost.observe.reflector import ObjectName, list_page_by_page, version_of
from fencepost.observe.runs import RunCache, RunView
from fencepost.observe.workers import WorkerCache, WorkerView

log = logging.getLogger(__name__)

CHECK_PERIOD_S = 1.0
"""Between looks at what has expired: workers' leases, jobs' limits."""
BARRIER_RETRY_S = 0.5
STUCK_S = 10.0
"""Longer than this without a turn of the loops, and the replica neither renews nor counts as alive."""


class Scheduler:
    """Everything that plans and writes, for the shards that leadership gives it."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        clock_check: ClockCheck,
        metrics: Metrics,
        *,
        system_namespace: str,
        shards: int,
        window_s: float,
        holds: Callable[[int], int | None],
        rivals: Callable[[str], Rivals] = lambda _: NOBODY,
        on_critical: Callable[[], None] = lambda: None,
        history_age_min_s: float = AGE_MIN_S,
        history_total: int = TOTAL_MAX,
    ) -> None:
        """`holds` gives a shard's epoch while its trust window is open; `rivals` what other replicas tell of a pool;
        `on_critical` is called while a critical job waits for a slot; `window_s` is how long a write waits for company
        when the API server is quick."""
        ready = Shards(shards, holds)
        writers = Writers(window_s)
        self._acquired: dict[int, int] = {}
        """Shard to epoch, of those that have not passed the barrier yet."""
        self._checked_s: float | None = None
        """When `_check` last had its turn; None until its first one, however long the caches take to fill."""
        self._pool_versions: dict[str, int] = {}
        """Of the pools that were ever told of: the version at which each was last."""
        self.filled = asyncio.Event()
        """Set once every cache has had its first list, and the pools are known."""
        self._news = asyncio.Event()
        self.world = World(
            api=api,
            clock=clock,
            clock_check=clock_check,
            metrics=metrics,
            system_namespace=system_namespace,
            shards=ready,
            executor=Executor(api, ready.leads, metrics, clock, writers.note_latency),
            writers=writers,
            dags=DagCache(shards, self._dag_changed, self._dag_gone, metrics.set_aside),
            runs=RunCache(shards, self._run_changed, self._run_gone, metrics.set_aside),
            letters=LetterCache(shards, self._letter_changed, self._letter_gone, metrics.set_aside),
            workers=WorkerCache(self._worker_changed, self._worker_gone, metrics.set_aside),
        )
        self._desk = PoolDesk(self.world.workers, clock, writers, rivals, self._touch_run, on_critical)
        self._reserves = Reserves(self.world.workers, ready, writers, self._desk.reserved_percent, self._mark_worker)
        self._mailboxes = Mailboxes(self.world, self._reserves, self._slots_changed, self._touch_entry)
        self._desk.mailboxes = self._mailboxes
        self._definitions = definitions = Definitions(api, self.world.dags, self.world.executor)
        admissions = Admissions(self.world.runs)
        self._letters = Letters(self.world, self._touch_run, self._letters_missed)
        self._replays = Replays(self.world, definitions, self._touch_run)
        self._runs = Runs(
            self.world, definitions, self._desk, self._mailboxes, self._letters, self._replays, admissions
        )
        self._dags = Dags(self.world, definitions, self._desk, self._runs, self._letters, admissions)
        self._audit = Audit(clock, self._look_closely)
        self._history = History(self.world, self._dags, definitions, history_age_min_s, history_total)
        self._keeper = Keeper(self.world, self._mailboxes)
        self._pool_status = PoolStatus(self.world, self._desk)
        metrics.watch_queue(self._desk.sizes)
        metrics.watch_letters(self._letters.depth)
        self._reflectors = self.world.reflectors(self._keeper, self._keeper.contact)

    async def run(self) -> None:
        """Follow the API server and plan, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())
            for reflector in self._reflectors:
                await reflector.synced.wait()
            await self._know_pools()
            self.filled.set()
            group.create_task(self._dags.tick())
            group.create_task(self._audit.run())
            group.create_task(self._check())
            group.create_task(self._keeper.stay_in_contact())
            group.create_task(self._history.run())
            await self._pass_barriers()

    def backlogs(self) -> Mapping[str, Backlog]:
        """By pool, the best job that waits for a slot: what other replicas are to be told."""
        return self._desk.backlogs()

    async def close(self) -> None:
        """Start no write any more, and wait for those in flight."""
        await self.world.writers.close()

    def stuck(self) -> str:
        """Which loop has made no progress for too long; empty when all have. A replica that is stuck must not lead."""
        if self._checked_s is None:
            return ""
        silent_s = self.world.clock.steady_s() - self._checked_s
        return f"the scheduler has made no progress for {silent_s:.0f} s" if silent_s > STUCK_S else ""

    def acquired(self, shard: int, epoch: int) -> None:
        """Leadership has acquired a shard: it is planned for once the barrier has been passed."""
        self._acquired[shard] = epoch
        self._news.set()

    async def released(self, shard: int) -> None:
        """Leadership gives a shard up: on return nothing acts for it any more."""
        self._acquired.pop(shard, None)
        self.world.shards.close(shard)
        self.world.metrics.shards_held(len(self.world.shards.ready()))
        self._runs.release(shard)
        self._dags.release(shard)
        self._replays.release(shard)
        self._definitions.forget()
        await self.world.writers.settle()

    def pool_changed(self, pool: Obj) -> None:
        """A WorkerPool is there or has changed; one that cannot be read keeps its last good spec. Lists and a watch
        tell of it, which may overtake each other."""
        name, version = pool["metadata"]["name"], version_of(pool)
        known = self._pool_versions.get(name, 0)
        if version < known or (version == known and self._desk.get(name) is None):
            return  # it has changed since, or is gone
        self._pool_versions[name] = version
        spec = read_pool(pool)
        self._pool_status.follow(pool)
        if isinstance(spec, PoolSpec):
            if self._desk.set_spec(spec):
                self._reserves.look(spec.name)
                self._touch_all_dags()
        else:
            self.world.metrics.set_aside("WorkerPool", str(spec[0]))
            log.error("pool %s is set aside: %s", name, spec[0])

    def pool_gone(self, name: str) -> None:
        """A WorkerPool has been deleted."""
        self._desk.drop(name)
        self._pool_status.forget(name)
        self._touch_all_dags()

    async def _know_pools(self) -> None:
        """Know every pool before the first plan: a DAG whose pool is merely not known yet is not at fault."""
        while True:
            try:
                return await self._read_pools()
            except ApiError as error:
                log.warning("the pools cannot be read: %s; trying again", error)
                await self.world.clock.sleep(BARRIER_RETRY_S)

    async def _read_pools(self) -> None:
        pools = await self.world.api.list(wire.WORKER_POOLS)
        for pool in pools.items:
            self.pool_changed(pool)

    async def _pass_barriers(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            batch = dict(self._acquired)
            try:
                if batch:
                    await self._pass_barrier(batch)
            except ApiError as error:
                log.warning("barrier for shards %s: %s; trying again", sorted(batch), error)
                self._news.set()
                await self.world.clock.sleep(BARRIER_RETRY_S)

    async def _pass_barrier(self, batch: dict[int, int]) -> None:
        """List, open, and look at everything that the shards own; those that were given up meanwhile stay closed."""
        world = self.world
        numbers = ",".join(str(shard) for shard in sorted(batch))

        def ours(name: ObjectName) -> bool:
            view = world.runs.get(RunKey(*name))
            # A run that no leader has taken up bears no label yet, so that such a list does not hold it.
            return view is not None and view.shard in batch and view.state is not None

        await list_page_by_page(
            world.api, wire.DAG_RUNS, world.runs, label_selector=f"{wire.SHARD_LABEL} in ({numbers})", gone_if=ours
        )
        await list_page_by_page(
            world.api, wire.WORKERS, world.workers, namespace=world.system_namespace, gone_if=lambda _: True
        )
        await self._read_pools()
        passed = [shard for shard, epoch in batch.items() if self._acquired.get(shard) == epoch]
        for shard in passed:
            world.shards.open(shard, self._acquired.pop(shard), world.clock.steady_s())
        world.metrics.shards_held(len(world.shards.ready()))
        log.info("planning for shards %s", ",".join(map(str, sorted(passed))))
        self._take_up(passed)

    def _take_up(self, shards: Collection[int]) -> None:
        """Look at everything that these shards own: what has happened to it so far, nobody may have followed."""
        world = self.world
        runs = [run for run in world.runs.all() if run.shard in shards and not run.finished]
        for run in runs:
            self._adopt(run)
        for run in runs:
            self._runs.touch(run.key)
        for worker in list(world.workers.all()):
            self._keeper.sweep(worker)
            self._keeper.worker_changed(worker, worker)
            self._mailboxes.tell_interval(worker)
        ours = [dag for dag in world.dags.all() if dag.shard in shards]
        for dag in ours:
            self._dags.take_up(dag)
        runs_alone = {run.dag for run in world.runs.all() if run.shard in shards and world.dags.get(run.dag) is None}
        self._audit.take_up([*(dag.key for dag in ours), *runs_alone])
        for letter in list(world.letters.all()):
            if letter.shard in shards:
                self._letters.take_up(letter.dag)
        self._replays.take_up(shards)
        self._pool_status.take_up()
        self._reserves.take_up()

    def _adopt(self, run: RunView) -> None:
        """A run has become ours: what it holds counts for its DAG's share, before any run is planned. Of which pool,
        its workers tell: its DAG may be gone, or name another one by now."""
        leases = run.state.leases if run.state is not None else {}
        workers = (self.world.workers.get(lease.worker) for lease in leases.values())
        worker = next((view for view in workers if view is not None), None)
        if worker is not None:
            self._desk.adopt(worker.worker.pool, run.dag, run.key, len(leases))

    async def _check(self) -> None:
        while True:
            if regained := self.world.shards.regained():
                log.info("trusted again: taking up shards %s", ",".join(map(str, sorted(regained))))
                self._take_up(regained)
            self.world.clock_check.look()
            self._keeper.check()
            self._mailboxes.press_overdue()
            self._mailboxes.pace_renewals()
            self._checked_s = self.world.clock.steady_s()
            await self.world.clock.sleep(CHECK_PERIOD_S)

    def _look_closely(self, key: DagKey) -> None:
        if self.world.dags.get(key) is not None:
            self._dags.touch(key)
        self._history.look(key)

    def _touch_run(self, key: RunKey) -> None:
        self._runs.touch(key)

    def _mark_worker(self, worker: str) -> None:
        self._mailboxes.mark(worker)

    def _slots_changed(self, worker: str) -> None:
        pool = self._desk.slots_changed(worker)
        if pool:
            self._pool_status.touch(pool)

    def _touch_entry(self, key: str) -> None:
        """Something happened to a lease: its run plans, if it is one of ours."""
        try:
            parsed: MailboxKey = parse_mailbox_key(key)
        except ValueError:
            return
        run = self.world.runs.get(parsed.run)
        if run is not None and self.world.shards.authority(run.shard) is not None:
            self._runs.touch(parsed.run)

    def _touch_missed(self, view: WorkerView, old: WorkerView | None) -> None:
        """Entries that have gone though their leases are on record: nothing else tells their runs, now or when the
        worker is lost."""
        before = old.worker.leases if old is not None else {}
        for key in before.keys() - view.worker.leases.keys():
            if self._keeper.is_recorded(view.name, key, token_of(before[key])):
                self._touch_entry(key)

    def _touch_all_dags(self) -> None:
        for dag in list(self.world.dags.all()):
            if self.world.shards.authority(dag.shard) is not None:
                self._dags.touch(dag.key)
                for run in self.world.runs.of_dag(dag.key):
                    if not run.finished:
                        self._runs.touch(run.key)

    def _dag_changed(self, view: DagView, old: DagView | None) -> None:
        self._dags.changed(view, old)
        self._history.dag_changed(view, old)
        self._runs.touch_rounds(view.key)
        self._letters.take_up(view.key)

    def _dag_gone(self, view: DagView) -> None:
        self._dags.gone(view)
        self._history.dag_gone(view)
        for run in list(self.world.runs.of_dag(view.key)):
            if not run.finished and run.spec is not None and not run.spec.revision:
                self._runs.touch(run.key)  # it has not begun, and says why: that has changed

    def _letters_missed(self, dag: DagKey, count: int, why: str) -> None:
        self._dags.letters_missed(dag, count, why)

    def _letter_changed(self, view: LetterView, old: LetterView | None) -> None:
        self._letters.letter_changed(view, old)
        self._replays.letter_changed(view)

    def _letter_gone(self, view: LetterView) -> None:
        self._replays.letter_gone(view)
        self._dags.letter_gone(view.dag)
        self._history.letter_gone(view)

    def _run_changed(self, view: RunView, old: RunView | None) -> None:
        self._runs.changed(view, old)
        self._dags.run_changed(view, old)
        self._replays.run_changed(view, old)
        self._history.run_changed(view)

    def _run_gone(self, view: RunView) -> None:
        self._runs.gone(view)
        self._dags.run_gone(view)
        self._replays.run_gone(view)
        self._history.run_gone(view)

    def _worker_changed(self, view: WorkerView, old: WorkerView | None) -> None:
        self._mailboxes.changed(view, old)
        self._keeper.worker_changed(view, old)
        self._reserves.worker_changed(view, old)
        self._slots_changed(view.name)
        self._touch_missed(view, old)
        before = old.worker.results if old is not None else {}
        fenced_now = view.worker.fenced and not (old is not None and old.worker.fenced)
        for key in view.worker.leases if fenced_now else view.worker.results:
            if fenced_now or view.worker.results[key] != before.get(key):
                self._touch_entry(key)

    def _worker_gone(self, view: WorkerView) -> None:
        self._mailboxes.gone(view.name)
        self._keeper.worker_gone(view)
        self._reserves.worker_gone(view)
        self._slots_changed(view.name)
        for key in view.worker.leases:
            self._touch_entry(key)
