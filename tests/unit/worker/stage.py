"""A stage for stories about one worker: an API server in memory, an operator's hands, fake jobs, virtual time."""

import asyncio
import itertools
import signal
from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any

import looptime

from fencepost.api.codec import decode_result, encode_entry
from fencepost.api.names import CONTROLLER_REVISIONS, DAG_RUNS, LEASES, SYSTEM_NAMESPACE_DEFAULT, WORKERS, Kind
from fencepost.api.revisions import definition_hash
from fencepost.base.clock import LoopClock
from fencepost.core.names import JobKey, RunKey, mailbox_key, revision_name, shard_lease_name
from fencepost.core.run_state import Entry, Order, Result
from fencepost.kube.errors import ApiError, ConnectionLostError
from fencepost.kube.protocol import Obj
from fencepost.memory.faults import Fault, Request
from fencepost.memory.identity import ADMIN, OPERATOR, worker_identity
from fencepost.memory.server import MemoryServer
from fencepost.worker.runner import Ending, Launch
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.worker import Worker, WorkerEnd

START_S = 1_800_000_000.0
NOON_S = 1_796_040_000
POD = "default-5d9f7c-x2k4q"
RUN = RunKey("analytics", "etl-1796040000")
RUN_UID = "0a1b2c3d-0000-4000-8000-000000000001"
ETL: dict[str, Any] = {
    "params": {"region": "eu"},
    "tasks": [
        {"name": "load", "command": ["load", "--region=$(params.region)"], "forEach": {"count": 100}},
        {"name": "broken", "command": ["echo", "$(params.absent)"]},
    ],
}


def play(story: Callable[["Stage"], Coroutine[Any, Any, None]], **settings: Any) -> None:
    """Run a story in virtual time, with a worker of these settings that is not started yet."""

    async def scene() -> None:
        stage = Stage(settings)
        try:
            await story(stage)
        finally:
            await stage.close()

    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        runner.run(scene())


def key_of(index: int, task: str = "load", *, run: RunKey = RUN, run_uid: str = RUN_UID) -> str:
    """The mailbox key of a job."""
    return str(mailbox_key(run, run_uid, JobKey(task, index)))


def entry(
    token: int = 1,
    *,
    order: Order = Order.RUN,
    timeout_s: float | None = 600.0,
    grace_s: float = 30.0,
    revision: str = "",
    run_uid: str = RUN_UID,
    params: Mapping[str, str] | None = MappingProxyType({}),
) -> str:
    """An entry of the run on the stage; params None: they are to be read from the run."""
    return encode_entry(Entry(token, order, 1, timeout_s, grace_s, revision or ETL_REVISION, run_uid, NOON_S, params))


def revision_of(data: Mapping[str, Any]) -> str:
    """The name of the revision that holds these data, of the DAG `etl`."""
    return revision_name("etl", definition_hash(data))


ETL_REVISION = revision_of(ETL)
BY_HAND = RunKey(RUN.namespace, "by-hand")


class FakeJob:
    """A job that ends when the story says so, or when it is signalled."""

    def __init__(self, launch: Launch, stubborn: bool) -> None:
        self.launch = launch
        self.signals: list[signal.Signals] = []
        self._stubborn = stubborn
        self._ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    def end(self, exit_code: int = 0, **texts: str) -> None:
        """It ends by itself."""
        self._ending.set_result(Ending(exit_code, **texts))

    @property
    def ended(self) -> bool:
        return self._ending.done()

    async def wait(self) -> Ending:
        return await self._ending

    def signal(self, number: int) -> bool:
        if self._ending.done():
            return False
        self.signals.append(signal.Signals(number))
        if number == signal.SIGKILL or not self._stubborn:
            self._ending.set_result(Ending(-number))
        return True


class FakeRunner:
    """Starts FakeJobs. `stubborn` ones do not end at SIGTERM. `error`: what the next start raises."""

    def __init__(self) -> None:
        self.jobs: list[FakeJob] = []
        self.stubborn = False
        self.error: Exception | None = None

    async def start(self, launch: Launch) -> FakeJob:
        if self.error:
            raise self.error
        self.jobs.append(FakeJob(launch, self.stubborn))
        return self.jobs[-1]

    def job(self, index: int) -> FakeJob:
        """The newest job that was started for this index."""
        return next(job for job in reversed(self.jobs) if job.launch.source.job.index == index)

    def started(self) -> list[int]:
        """The indices of all jobs in the order of their start."""
        return [job.launch.source.job.index for job in self.jobs]


class CountedMetrics:
    """What a worker has counted."""

    def __init__(self) -> None:
        self.answered: list[str] = []
        self.refused = 0
        self.running = 0

    def job_answered(self, outcome: str) -> None:
        self.answered.append(outcome)

    def result_refused(self) -> None:
        self.refused += 1

    def jobs_running(self, count: int) -> None:
        self.running = count


class Stage:
    """One worker and what is around it."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.clock = LoopClock(START_S)
        self.server = MemoryServer(self.clock, faults=self._on_request)
        self.operator = self.server.client(OPERATOR)
        self.admin = self.server.client(ADMIN)
        self.settings = WorkerSettings(**{"pod": POD, "nonce": "n0001", "slots": 10, **settings})
        self.runner = FakeRunner()
        self.metrics = CountedMetrics()
        self.worker = Worker(
            self.server.client(worker_identity(POD)), self.clock, self.settings, self.runner, self.metrics
        )
        self.requests: list[Request] = []
        """Of the worker, in order."""
        self.fault: Callable[[Request], Fault | None] = lambda request: None
        """What goes wrong with a request of the worker."""
        self._run: asyncio.Task[WorkerEnd] | None = None

    @property
    def name(self) -> str:
        return self.settings.name

    async def open(self) -> None:
        """Store the definition, start the worker, and wait until it follows its mailbox."""
        await self.store_revision(ETL)
        self.start()
        await self.until(lambda: bool(self.seen("watch", WORKERS)))

    def start(self) -> None:
        self._run = asyncio.create_task(self.worker.run())

    async def end(self, limit_s: float = 600.0) -> WorkerEnd:
        """How the worker came to its end."""
        assert self._run is not None
        async with asyncio.timeout(limit_s):
            return await asyncio.shield(self._run)

    @property
    def over(self) -> bool:
        return self._run is not None and self._run.done()

    async def close(self) -> None:
        if self._run:
            self._run.cancel()
            await asyncio.gather(self._run, return_exceptions=True)

    async def store_revision(self, data: Mapping[str, Any], *, name: str = "") -> None:
        metadata = {"namespace": RUN.namespace, "name": name or revision_of(data)}
        await self.admin.create(CONTROLLER_REVISIONS, _object(CONTROLLER_REVISIONS, metadata, data=data, revision=1))

    async def store_run(self, params: Mapping[str, str]) -> str:
        """The run BY_HAND with these params; its UID."""
        metadata = {"namespace": BY_HAND.namespace, "name": BY_HAND.name}
        spec = {"dag": "etl", "params": dict(params)}
        stored = await self.admin.create(DAG_RUNS, _object(DAG_RUNS, metadata, spec=spec))
        uid: str = stored["metadata"]["uid"]
        return uid

    async def lead_shard(self, shard: int) -> None:
        """There is a leader of this shard, in its epoch 0."""
        metadata = {"namespace": SYSTEM_NAMESPACE_DEFAULT, "name": shard_lease_name(shard)}
        await self.admin.create(LEASES, _object(LEASES, metadata, spec={"leaseTransitions": 0}))

    async def stored(self) -> Obj:
        """The Worker as it is."""
        return await self.admin.get(WORKERS, self.settings.namespace, self.name)

    async def lease(self) -> Obj:
        return await self.admin.get(LEASES, self.settings.namespace, self.name)

    async def write_mailbox(self, change: Callable[[dict[str, str]], None], *, fence: bool = False) -> None:
        """A compare-and-swap on the mailbox, as the operator makes it."""
        worker = await self.operator.get(WORKERS, self.settings.namespace, self.name)
        entries = worker["spec"].setdefault("leases", {})
        change(entries)
        if fence:
            worker["spec"]["fenced"] = True
        await self.operator.replace(WORKERS, worker)

    async def deliver(self, entries: Mapping[str, str]) -> None:
        await self.write_mailbox(lambda mailbox: mailbox.update(entries))

    async def take(self, *keys: str) -> None:
        """Take entries away."""

        def take(mailbox: dict[str, str]) -> None:
            for key in keys:
                del mailbox[key]

        await self.write_mailbox(take)

    async def fence(self) -> None:
        await self.write_mailbox(lambda mailbox: None, fence=True)

    async def results(self) -> dict[str, Result]:
        """What the worker has answered."""
        status = (await self.stored()).get("status") or {}
        return {key: decode_result(text) for key, text in (status.get("results") or {}).items()}

    async def answer(self, key: str, limit_s: float = 60.0) -> Result:
        """The result of a key, once it is there."""
        async with asyncio.timeout(limit_s):
            while key not in (results := await self.results()):  # noqa: ASYNC110 - time is virtual
                await asyncio.sleep(0.05)
        return results[key]

    async def until(self, condition: Callable[[], bool], limit_s: float = 60.0) -> None:
        """Wait for something, in virtual time."""
        async with asyncio.timeout(limit_s):
            while not condition():  # noqa: ASYNC110 - time is virtual
                await asyncio.sleep(0.02)

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def seen(self, verb: str, kind: Kind, subresource: str = "") -> list[Request]:
        """The requests of this sort that the worker has made."""
        return [
            request
            for request in self.requests
            if (request.verb, request.kind, request.subresource) == (verb, kind, subresource)
        ]

    @property
    def status_writes(self) -> int:
        return len(self.seen("update", WORKERS, "status"))

    @property
    def renewals(self) -> int:
        return len(self.seen("update", LEASES))

    def break_down(self, *verbs: str, error: ApiError | None = None) -> None:
        """From now on these requests of the worker get no answer (no verb: all of them)."""
        gone = error or ConnectionLostError("no answer")
        self.fault = lambda request: Fault(error=gone) if not verbs or request.verb in verbs else None

    def recover(self) -> None:
        self.fault = lambda request: None

    def _on_request(self, request: Request) -> Fault | None:
        if request.identity.pod != POD:
            return None
        if request.verb != "event":
            self.requests.append(request)
        return self.fault(request)


def failing_once(verb: str, kind: Kind, fault: Fault, subresource: str = "") -> Callable[[Request], Fault | None]:
    """The first request of this sort goes wrong."""
    count = itertools.count()

    def find(request: Request) -> Fault | None:
        same = (request.verb, request.kind, request.subresource) == (verb, kind, subresource)
        return fault if same and next(count) == 0 else None

    return find


def _object(kind: Kind, metadata: Obj, **content: Any) -> Obj:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content}


async def running(stage: Stage, *keys: str) -> list[FakeJob]:
    """Have these jobs running."""
    await stage.open()
    return await running_on(stage, *keys)


async def running_on(stage: Stage, *keys: str) -> list[FakeJob]:
    """Have these jobs running on a worker that has been started."""
    await stage.deliver(dict.fromkeys(keys, entry(7)))
    await stage.until(lambda: len(stage.runner.jobs) == len(keys))
    return stage.runner.jobs
