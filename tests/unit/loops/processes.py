"""Processes on the stage: replicas and workers, which can be frozen and killed.

A process is its client and the tasks behind it. A dead one's client falls silent for ever, so that whatever its tasks
still have in mind stays there; what it has already sent arrives.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from fencepost.api.names import SYSTEM_NAMESPACE_DEFAULT, Kind
from fencepost.base.clock import Clock, Timer
from fencepost.base.metrics import Metrics
from fencepost.core.turns import NOBODY, Rivals
from fencepost.kube.errors import ApiError
from fencepost.kube.protocol import Api, Obj, ObjectList, WatchEvent
from fencepost.loops.clock_check import ClockCheck
from fencepost.loops.scheduler import Scheduler
from fencepost.memory.identity import Identity, Role, worker_identity
from fencepost.memory.server import MemoryServer
from fencepost.worker.runner import Launch
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.worker import Worker, WorkerEnd
from tests.unit.worker.stage import CountedMetrics, FakeJob, FakeRunner

T = TypeVar("T")

WINDOW_S = 0.05


class ProcessApi:
    """A client that sends nothing and hears nothing while its process is frozen, or for ever when it is dead."""

    def __init__(self, api: Api, awake: asyncio.Event) -> None:
        self._api = api
        self._awake = awake

    async def _through(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        await self._awake.wait()
        try:
            answer = await call()
        except ApiError:
            await self._awake.wait()
            raise
        await self._awake.wait()
        return answer

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Obj:
        return await self._through(lambda: self._api.get(kind, namespace, name))

    async def list(self, kind: Kind, namespace: str | None = None, **options: Any) -> ObjectList:
        return await self._through(lambda: self._api.list(kind, namespace, **options))

    async def create(self, kind: Kind, obj: Obj) -> Obj:
        return await self._through(lambda: self._api.create(kind, obj))

    async def replace(self, kind: Kind, obj: Obj, *, subresource: str = "") -> Obj:
        return await self._through(lambda: self._api.replace(kind, obj, subresource=subresource))

    async def delete(self, kind: Kind, namespace: str | None, name: str, **options: Any) -> None:
        await self._through(lambda: self._api.delete(kind, namespace, name, **options))

    async def watch(self, kind: Kind, namespace: str | None = None, **options: Any) -> AsyncGenerator[WatchEvent, None]:
        await self._awake.wait()
        async with aclosing(self._api.watch(kind, namespace, **options)) as events:
            async for event in events:
                await self._awake.wait()
                yield event


class WallClock:
    """The clocks of a process: a wall clock of its own, which may jump, over the stage's steady one."""

    def __init__(self, stage_clock: Clock) -> None:
        self._stage_clock = stage_clock
        self.ahead_s = 0.0
        """Of the API server's clock."""

    def now_s(self) -> float:
        return self._stage_clock.now_s() + self.ahead_s

    def steady_s(self) -> float:
        return self._stage_clock.steady_s()

    async def sleep(self, seconds: float) -> None:
        await self._stage_clock.sleep(seconds)

    def call_later(self, seconds: float, act: Callable[[], None]) -> Timer:
        return self._stage_clock.call_later(seconds, act)


class Process:
    """What can be frozen and killed: one client, and the tasks behind it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.awake = asyncio.Event()
        self.awake.set()
        self.dead = False
        self.tasks: list[asyncio.Task[Any]] = []

    def freeze(self) -> None:
        """SIGSTOP: it sends nothing and hears nothing."""
        self.awake.clear()

    def thaw(self) -> None:
        """SIGCONT."""
        if not self.dead:
            self.awake.set()

    def kill(self) -> None:
        """SIGKILL: as frozen, and never thawed; what is of it in the loop is stopped as far as it can be found."""
        self.dead = True
        self.awake.clear()
        for task in self.tasks:
            task.cancel()


class Replica(Process):
    """One operator process; the story says what it leads."""

    def __init__(self, server: MemoryServer, name: str, *, shards: int, history_age_min_s: float) -> None:
        super().__init__(name)
        self.held: dict[int, int] = {}
        """Shard to epoch, as long as it may act; the story may take from it."""
        self.metrics = Metrics()
        self.clock = WallClock(server.clock)
        self.clock_check = ClockCheck(self.clock, self.metrics)
        self.scheduler = Scheduler(
            ProcessApi(server.client(Identity(Role.OPERATOR, name), self.clock_check.note), self.awake),
            self.clock,
            self.clock_check,
            self.metrics,
            system_namespace=SYSTEM_NAMESPACE_DEFAULT,
            shards=shards,
            window_s=WINDOW_S,
            holds=self.holds,
            rivals=self.rivals,
            on_critical=self.hurry,
            history_age_min_s=history_age_min_s,
        )
        self.tasks.append(asyncio.create_task(self.scheduler.run(), name=f"scheduler of {name}"))

    def count(self, metric: str, **labels: str) -> float:
        """A counter of its metrics, without the prefix; 0 where nothing was counted."""
        return self.metrics.registry.get_sample_value(f"fencepost_{metric}", labels) or 0.0

    def holds(self, shard: int) -> int | None:
        """The epoch under which it may act for a shard now."""
        return self.held.get(shard)

    def rivals(self, pool: str) -> Rivals:
        """What other replicas tell of a pool: nothing, where there is no leadership to tell it."""
        return NOBODY

    def hurry(self) -> None:
        """A critical job waits for a slot."""


class Runner(FakeRunner):
    """Fake jobs that end well after `job_s`, or, where that is None, when the story says so."""

    def __init__(self, worker: str, started: list[tuple[str, FakeJob]], job_s: float | None) -> None:
        super().__init__()
        self.job_s = job_s
        self.exit_codes: dict[str, list[int]] = {}
        """By task: how its next jobs end; 0 beyond them."""
        self.on_start: Callable[[Launch], tuple[float, int, str]] | None = None
        """After how many seconds a job ends by itself, with which exit code, and what it has put out."""
        self._worker = worker
        self._started = started

    async def start(self, launch: Launch) -> FakeJob:
        job = await super().start(launch)
        self._started.append((self._worker, job))
        if self.on_start is not None:
            seconds, code, output = self.on_start(launch)
            asyncio.get_running_loop().call_later(seconds, self._end, job, code, output)
        elif self.job_s is not None:
            codes = self.exit_codes.get(launch.source.job.task)
            asyncio.get_running_loop().call_later(self.job_s, self._end, job, codes.pop(0) if codes else 0)
        return job

    def of_task(self, task: str) -> list[FakeJob]:
        """The jobs of a task that run now."""
        return [job for job in self.jobs if job.launch.source.job.task == task and not job.ended]

    @staticmethod
    def _end(job: FakeJob, exit_code: int, output: str = "") -> None:
        if not job.ended:
            job.end(exit_code, output=output)


class StageWorker(Process):
    """One worker process."""

    def __init__(
        self,
        server: MemoryServer,
        settings: WorkerSettings,
        started: list[tuple[str, FakeJob]],
        job_s: float | None,
    ) -> None:
        super().__init__(settings.pod)
        self.settings = settings
        self.runner = Runner(settings.name, started, job_s)
        self.metrics = CountedMetrics()
        api = ProcessApi(server.client(worker_identity(settings.pod)), self.awake)
        self.worker = Worker(api, server.clock, settings, self.runner, self.metrics)
        self.process: asyncio.Task[WorkerEnd] = asyncio.create_task(self.worker.run(), name=settings.name)
        self.tasks.append(self.process)

    @property
    def full_name(self) -> str:
        """Of its Worker and its Lease."""
        return self.settings.name

    @property
    def over(self) -> bool:
        """Whether the process has ended."""
        return self.process.done()
