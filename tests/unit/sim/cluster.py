"""Replicas and workers on machines of their own, wired as in `fencepost.main`, and jobs that take their time.

What a job does is in its command (see `scripts`). `Job` is what it does to the world outside: the checkers see each,
and that is all they believe of jobs.
"""

import asyncio
import signal
from collections.abc import Collection
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from fencepost.api.names import SYSTEM_NAMESPACE_DEFAULT, WORKER_POOLS
from fencepost.base.metrics import Metrics
from fencepost.core.lease import LeaseTimes
from fencepost.kube.errors import ApiError
from fencepost.kube.protocol import EventType
from fencepost.loops.clock_check import ClockCheck
from fencepost.loops.leadership import Leadership
from fencepost.loops.scheduler import Scheduler
from fencepost.memory.identity import Identity, Role, worker_identity
from fencepost.worker.runner import Ending, Launch
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.worker import Worker, WorkerEnd
from tests.unit.sim.network import Network
from tests.unit.sim.scripts import Script
from tests.unit.sim.virtual import Machine, VirtualLoop
from tests.unit.worker.stage import CountedMetrics

WINDOW_S: Final = 0.05
POOLS_AGAIN_S: Final = 1.0
SYSTEM: Final = SYSTEM_NAMESPACE_DEFAULT


@dataclass
class Job:
    """One start of a job, as the world outside sees it."""

    worker: str
    """Full name of the worker process."""
    execution: str
    token: int
    attempt: int
    started_at_s: float
    """True time."""
    launch: Launch
    ended_at_s: float | None = None
    exit_code: int | None = None
    """None while it runs, and of what was killed with its worker."""


class SimJob:
    """A process that runs for so long, or until it is signalled."""

    def __init__(self, loop: VirtualLoop, record: Job, script: Script) -> None:
        self._loop = loop
        self._record = record
        self._script = script
        self._ending: asyncio.Future[Ending] = loop.create_future()
        source = record.launch.source
        exit_code = script.exit_code(str(source.run), source.job, source.attempt)
        self._timer = loop.after(script.seconds, self._end, exit_code)

    async def wait(self) -> Ending:
        return await self._ending

    def signal(self, number: int) -> bool:
        if self._record.ended_at_s is not None:
            return False
        if number == signal.SIGKILL or not self._script.stubborn:
            self._timer.cancel()
            self._end(-number)
        return True

    def vanish(self) -> None:
        """Killed, and nobody is left to hear of it."""
        self._timer.cancel()
        if self._record.ended_at_s is None:
            self._record.ended_at_s = self._loop.now_s

    def _end(self, exit_code: int) -> None:
        self._record.ended_at_s, self._record.exit_code = self._loop.now_s, exit_code
        if not self._ending.done():
            output = self._script.output(self._record.execution, self._record.token) if exit_code == 0 else ""
            self._ending.set_result(Ending(exit_code, output=output))


class SimRunner:
    """Starts jobs for one worker; keeps them all in the book of jobs."""

    def __init__(self, loop: VirtualLoop, worker: str, book: list[Job]) -> None:
        self._loop = loop
        self._worker = worker
        self._book = book
        self._jobs: list[SimJob] = []

    async def start(self, launch: Launch) -> SimJob:
        execution, token = launch.env["FENCEPOST_EXECUTION_ID"], int(launch.env["FENCEPOST_TOKEN"])
        record = Job(self._worker, execution, token, launch.source.attempt, self._loop.now_s, launch)
        self._book.append(record)
        job = SimJob(self._loop, record, Script.of(launch.command))
        self._jobs.append(job)
        return job

    def vanish(self) -> None:
        """The worker's guardian, or the end of its container, kills whatever runs."""
        for job in self._jobs:
            job.vanish()


class ReplicaProcess:
    """One operator process."""

    def __init__(self, network: Network, machine: Machine, *, shards: int) -> None:
        self.machine = machine
        self.name = machine.name
        self._nonces = 0
        self._network = network
        machine.call(lambda: self._build(network, shards))
        works = {"scheduler": self.scheduler.run(), "leadership": self._lead(), "pools": self._follow_pools()}
        self.tasks = [machine.run(work, name) for name, work in works.items()]

    def _build(self, network: Network, shards: int) -> None:
        identity = Identity(Role.OPERATOR, self.name)
        self.metrics = Metrics()
        self.clock_check = ClockCheck(self.machine, self.metrics)
        self._api = network.client(self.machine, identity, self.clock_check.note)
        self.scheduler = Scheduler(
            self._api,
            self.machine,
            self.clock_check,
            self.metrics,
            system_namespace=SYSTEM,
            shards=shards,
            window_s=WINDOW_S,
            holds=lambda shard: self.leadership.holds(shard),
            rivals=lambda pool: self.leadership.rivals(pool),
            on_critical=lambda: self.leadership.hurry(),
        )
        self.leadership = Leadership(
            network.client(self.machine, identity, self.clock_check.note),
            self.machine,
            namespace=SYSTEM,
            replica=self.name,
            shards=shards,
            times=LeaseTimes(),
            nonce=self._nonce,
            progress=lambda: not self.scheduler.stuck(),
            clock_right=lambda: not self.clock_check.wrong,
            on_acquired=self.scheduler.acquired,
            on_released=self.scheduler.released,
            waiting=self.scheduler.backlogs,
        )

    @property
    def alive(self) -> bool:
        return not self.machine.dead

    @property
    def fallen(self) -> bool:
        """Whether a part of it has ended though nobody has ended it."""
        return self.alive and any(task.done() for task in self.tasks)

    @property
    def held(self) -> Collection[int]:
        """The shards for which it would act now."""
        return self.leadership.held if self.alive else ()

    def holds(self, shard: int) -> int | None:
        """The epoch under which it would act for the shard now."""
        return self.leadership.holds(shard) if self.alive else None

    def kill(self) -> None:
        """SIGKILL."""
        self.machine.kill()
        self._network.hang_up(self.machine)

    def stop(self) -> None:
        """SIGTERM."""
        self.machine.run(self._stop(), "stop")

    async def _lead(self) -> None:
        await self.scheduler.filled.wait()
        await self.leadership.run()

    async def _follow_pools(self) -> None:
        """As kopf does it in production."""
        while True:
            try:
                pools = await self._api.list(WORKER_POOLS)
                for pool in pools.items:
                    self.scheduler.pool_changed(pool)
                watch = self._api.watch(WORKER_POOLS, resource_version=pools.resource_version)
                async with aclosing(watch) as events:
                    async for event in events:
                        if event.type is not EventType.BOOKMARK:
                            self.scheduler.pool_changed(event.object)
            except ApiError:
                pass
            await self.machine.sleep(POOLS_AGAIN_S)

    async def _stop(self) -> None:
        await self.leadership.step_down()
        await self.scheduler.close()
        self.kill()

    def _nonce(self) -> str:
        self._nonces += 1
        return f"{self._nonces:05d}"


class WorkerProcess:
    """One worker process."""

    def __init__(self, network: Network, machine: Machine, settings: WorkerSettings, book: list[Job]) -> None:
        self.machine = machine
        self.pod = settings.pod
        self.name = settings.name
        """Of its Worker and its Lease."""
        self._network = network
        self.runner = SimRunner(network.loop, settings.name, book)
        api = network.client(machine, worker_identity(settings.pod))
        self.worker = machine.call(lambda: Worker(api, machine, settings, self.runner, CountedMetrics()))
        self.task: asyncio.Task[WorkerEnd] = machine.run(self._run(), "worker")

    @property
    def alive(self) -> bool:
        return not self.machine.dead

    def kill(self) -> None:
        """SIGKILL; its guardian kills its jobs."""
        self.machine.kill()
        self.runner.vanish()
        self._network.hang_up(self.machine)

    def stop(self) -> None:
        """SIGTERM."""
        self.machine.call(self.worker.drain)

    async def _run(self) -> WorkerEnd:
        end = await self.worker.run()
        self.kill()
        return end
