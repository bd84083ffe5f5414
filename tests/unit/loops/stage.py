"""A stage for stories about whole schedulers: one API server in memory, replicas, workers with fake jobs, virtual time.

The replicas and workers are the real ones (`tests.unit.loops.processes`); only who leads is decided by the story.

After each story the referee (`tests.unit.loops.referee`) reads the whole history of the API server and looks for broken
laws; a story that wants none of them watched says so.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import looptime
import orjson

from fencepost.api.codec import decode_run_status
from fencepost.api.names import (
    API_VERSION,
    DAG_RUNS,
    DAGS,
    LEASES,
    SYSTEM_NAMESPACE_DEFAULT,
    WORKER_POOLS,
    WORKERS,
    Kind,
)
from fencepost.base.clock import LoopClock
from fencepost.core.names import scheduled_run_name, shard_lease_name
from fencepost.core.run_state import RunState
from fencepost.kube.errors import NotFoundError, UnreachableError
from fencepost.kube.protocol import Obj, WatchEvent
from fencepost.loops.history import AGE_MIN_S
from fencepost.loops.lease_objects import shard_object
from fencepost.memory.faults import Fault, Request
from fencepost.memory.identity import ADMIN, Role
from fencepost.memory.server import MemoryServer
from fencepost.worker.settings import WorkerSettings
from tests.unit.loops.processes import Replica, StageWorker
from tests.unit.worker.stage import FakeJob

SYSTEM = SYSTEM_NAMESPACE_DEFAULT
NAMESPACE = "demo"
NOON_S = 1_796_040_000
"""2026-11-30T12:00:00Z: when every story begins; a whole minute."""
SAME_REQUESTS_MAX = 100
"""More than so many for one object at one and the same moment are a loop that has forgotten to wait."""

Trouble = Callable[[str, Request], Fault | None]
"""Asked with a process's name about each of its requests, and each event on its way to it."""


def play(
    story: Callable[["Stage"], Coroutine[Any, Any, None]],
    *,
    shards: int = 1,
    history_age_min_s: float = AGE_MIN_S,
    lawful: bool = True,
) -> None:
    """Run a story in virtual time, on an empty stage; then let the referee judge, unless the story breaks laws."""
    from tests.unit.loops.referee import broken_laws

    async def scene() -> None:
        stage = Stage(shards, history_age_min_s)
        try:
            await story(stage)
            assert not stage.fallen(), "a part that never ends has ended"
            assert not stage.storm, stage.storm
            if lawful:
                assert not (broken := await broken_laws(stage)), "\n".join(broken)
        finally:
            await stage.close()

    # Nothing here waits for real I/O, so the loop need not look for any before it moves time on.
    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(noop_cycles=0)) as runner:
        runner.run(scene())


class Stage:
    """Everything there is."""

    def __init__(self, shards: int, history_age_min_s: float) -> None:
        self.shards = shards
        self.history_age_min_s = history_age_min_s
        self.clock = LoopClock(NOON_S)
        self.server = MemoryServer(self.clock, faults=self._on_request, changes_max=1_000_000)
        self.admin = self.server.client(ADMIN)
        self.began_at = str(self.server.engine.version)
        self.replicas: dict[str, Replica] = {}
        self.workers: dict[str, StageWorker] = {}
        """By pod; where a pod's name is used again, the newest one."""
        self.all_workers: list[StageWorker] = []
        self.started: list[tuple[str, FakeJob]] = []
        """Worker and job, of everything that was ever started."""
        self.troubles: list[Trouble] = []
        """The first fault counts."""
        self.requests: list[tuple[float, str, Request]] = []
        """When, who, what; without events and reads of watches."""
        self.storm = ""
        """A request that somebody has sent without end."""
        self.deleted_by_people: set[str] = set()
        """Names of runs."""
        self._extras: list[asyncio.Task[None]] = []
        self._moment_s = 0.0
        self._at_this_moment: Counter[Request] = Counter()
        for shard in range(shards):
            self.put(LEASES, shard_object(SYSTEM, shard, shards, 0))
        self.put(WORKER_POOLS, an_object(WORKER_POOLS, "default", spec={"maxSharePerDAG": "100%"}))

    # Who is there.

    def replica(self, name: str) -> Replica:
        """A new operator process, which leads nothing yet."""
        replica = self.replicas[name] = Replica(
            self.server, name, shards=self.shards, history_age_min_s=self.history_age_min_s
        )
        return replica

    def lead(self, replica: Replica, *shards: int, noticed: bool = True) -> None:
        """The replica acquires shards (none named: all of them) under the next epoch. Whoever has led them before may
        not act any more, but what has passed that question is on its way; unless it has not noticed."""
        for shard in shards or range(self.shards):
            lease = self.get(LEASES, shard_lease_name(shard), SYSTEM)
            epoch = lease["spec"]["leaseTransitions"] + 1
            lease["spec"] |= {"leaseTransitions": epoch, "holderIdentity": replica.name}
            self.put(LEASES, lease)
            for other in self.replicas.values() if noticed else ():
                if other.held.pop(shard, None) is not None and other is not replica and not other.dead:
                    self.spawn(other.scheduler.released(shard))
            replica.held[shard] = epoch
            replica.scheduler.acquired(shard, epoch)

    def leader(self, name: str = "Ann") -> Replica:
        """A new replica that leads all shards."""
        replica = self.replica(name)
        self.lead(replica)
        return replica

    def worker(
        self, pod: str = "w1", *, nonce: str = "aaaaa", slots: int = 4, job_s: float | None = 1.0, **settings: Any
    ) -> StageWorker:
        """A new worker process, whose jobs take so long, or end when the story says so."""
        settings_ = WorkerSettings(pod, nonce, slots=slots, **settings)
        worker = self.workers[pod] = StageWorker(self.server, settings_, self.started, job_s)
        self.all_workers.append(worker)
        return worker

    # What goes wrong.

    def trouble(self, trouble: Trouble) -> Callable[[], None]:
        """Let this go wrong until the returned function is called."""
        self.troubles.append(trouble)
        return lambda: self.troubles.remove(trouble)

    def cut_off(self, *names: str) -> Callable[[], None]:
        """No request of these processes reaches the API server, and no event them, until the function is called."""
        gone = Fault(error=UnreachableError("no route to host"))
        return self.trouble(lambda name, request: gone if name in names else None)

    def once(self, name: str, verb: str, kind: Kind, fault: Fault, subresource: str = "", *, skip: int = 0) -> None:
        """The next such request of a process (after `skip` more) goes wrong."""
        count = iter(range(skip + 1))

        def find(asked: str, request: Request) -> Fault | None:
            same = (asked, request.verb, request.kind, request.subresource) == (name, verb, kind, subresource)
            return fault if same and next(count, None) == skip else None

        self.trouble(find)

    # What people do.

    def dag(self, name: str, *tasks: Mapping[str, Any], cron: str | None = None, **spec: Any) -> Obj:
        """Create a DAG."""
        schedule = {} if cron is None else {"schedule": {"cron": [cron]}}
        return self.put(
            DAGS, an_object(DAGS, name, NAMESPACE, spec={"tasks": list(tasks or [a_task("only")]), **schedule, **spec})
        )

    def edit(self, kind: Kind, name: str, **spec: Any) -> Obj:
        """Change fields of an object's spec; None removes one."""
        obj = self.get(kind, name)
        obj["spec"] = {key: value for key, value in (obj["spec"] | spec).items() if value is not None}
        return self.put(kind, obj)

    def manual_run(self, name: str, dag: str, **spec: Any) -> Obj:
        """Create a run by hand."""
        return self.put(DAG_RUNS, an_object(DAG_RUNS, name, NAMESPACE, spec={"dag": dag, **spec}))

    async def delete(self, kind: Kind, name: str, **options: Any) -> None:
        """Delete an object as a person does."""
        if kind is DAG_RUNS:
            self.deleted_by_people.add(name)
        await self.admin.delete(kind, NAMESPACE, name, **options)

    # What stands in the API server.

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Obj:
        """An object; NotFoundError."""
        where = (NAMESPACE if namespace is None else namespace) if kind.namespaced else ""
        return self.server.engine.get(ADMIN, kind, where, name)

    def find(self, kind: Kind, name: str, namespace: str | None = None) -> Obj | None:
        """An object, or None."""
        try:
            return self.get(kind, name, namespace)
        except NotFoundError:
            return None

    def all(self, kind: Kind) -> list[Obj]:
        """All objects of a kind."""
        return self.server.engine.list(ADMIN, kind, "", "", 0, "").items

    def put(self, kind: Kind, obj: Obj) -> Obj:
        """Write an object at once, with nothing that could go wrong on the way: create it, or replace that version."""
        engine = self.server.engine
        if "resourceVersion" in obj["metadata"]:
            return engine.replace(ADMIN, kind, orjson.dumps(obj), "")
        return engine.create(ADMIN, kind, orjson.dumps(obj))

    def run(self, name: str) -> RunState:
        """A run's record; before a leader has taken it up, or when it is gone, that of a run in which nothing was."""
        obj = self.find(DAG_RUNS, name)
        return decode_run_status(obj["status"]) if obj is not None and "status" in obj else RunState()

    def mailbox(self, worker: StageWorker) -> dict[str, str]:
        """The entries of a worker; none if it is gone."""
        obj = self.find(WORKERS, worker.full_name, SYSTEM)
        return {} if obj is None else dict(obj["spec"].get("leases") or {})

    def is_fenced(self, worker: StageWorker) -> bool:
        """Whether it is shut out, or its object gone."""
        obj = self.find(WORKERS, worker.full_name, SYSTEM)
        return obj is None or bool(obj["spec"].get("fenced"))

    def finished(self, *names: str) -> bool:
        """Whether these runs have ended."""
        return all(self.run(name).phase.finished for name in names)

    def quiet(self) -> bool:
        """Whether every run has ended and every mailbox is empty."""
        return all(
            "status" in run and decode_run_status(run["status"]).phase.finished for run in self.all(DAG_RUNS)
        ) and not any(worker["spec"].get("leases") for worker in self.all(WORKERS))

    async def history(self, kind: Kind) -> list[WatchEvent]:
        """All that has ever happened to objects of a kind, in order."""
        events = self.admin.watch(kind, resource_version=self.began_at, timeout_s=0.0)
        return [event async for event in events]

    async def slots_fired(self, dag: str) -> Counter[int]:
        """Minutes after the beginning of the story, each with how many runs were ever created for it."""
        created: dict[str, str] = {}
        for event in await self.history(DAG_RUNS):
            meta = event.object["metadata"]
            if event.object["spec"]["dag"] == dag and event.object["spec"].get("trigger") == "Schedule":
                created[meta["uid"]] = meta["name"]
        return Counter((int(name.rpartition("-")[2]) - NOON_S) // 60 for name in created.values())

    def writes(self, verb: str, kind: Kind, subresource: str = "", by: str = "") -> int:
        """How many requests of this sort were made, by whom (empty: by anyone)."""
        wanted = (verb, kind, subresource)
        return sum(
            (request.verb, request.kind, request.subresource) == wanted and by in ("", name)
            for _, name, request in self.requests
        )

    # Time.

    @property
    def now_s(self) -> float:
        """Since the story began."""
        return self.clock.steady_s()

    async def until(self, condition: Callable[[], bool], limit_s: float = 60.0) -> float:
        """Wait for a condition; how many seconds it took."""
        began_s = self.now_s
        while not condition():
            waited_s = self.now_s - began_s
            assert waited_s < limit_s, f"not within {limit_s:g} s"
            await asyncio.sleep(0.05)
        return self.now_s - began_s

    async def at(self, moment_s: float) -> None:
        """Wait until this second of the story."""
        assert moment_s >= self.now_s, f"it is {self.now_s:g} s already"
        await asyncio.sleep(moment_s - self.now_s)

    async def pass_time(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    def fallen(self) -> list[str]:
        """Schedulers that have ended though nobody ended them."""
        return [replica.name for replica in self.replicas.values() if not replica.dead and replica.tasks[0].done()]

    def spawn(self, aside: Coroutine[Any, Any, None]) -> None:
        """Let something happen besides."""
        self._extras.append(asyncio.create_task(aside))

    async def close(self) -> None:
        """End everything."""
        for extra in self._extras:
            extra.cancel()
        for process in (*self.replicas.values(), *self.all_workers):
            process.kill()
        await asyncio.sleep(0)

    def _on_request(self, request: Request) -> Fault | None:
        name = request.identity.pod or request.identity.user
        if request.identity.role is Role.ADMIN:
            return None
        self._count(request)
        if request.verb not in ("event", "watch"):
            self.requests.append((self.now_s, name, request))
        faults = (trouble(name, request) for trouble in self.troubles)
        return next((fault for fault in faults if fault is not None), None)

    def _count(self, request: Request) -> None:
        if self.now_s != self._moment_s:
            self._moment_s = self.now_s
            self._at_this_moment.clear()
        self._at_this_moment[request] += 1
        if request.verb != "event" and self._at_this_moment[request] > SAME_REQUESTS_MAX:
            self.storm = f"a storm of requests: {request}"
            raise AssertionError(self.storm)


def a_task(name: str, *parents: str, **more: Any) -> dict[str, Any]:
    """A task of one job."""
    return {"name": name, "command": ["true"], **({"dependsOn": list(parents)} if parents else {}), **more}


def an_object(kind: Kind, name: str, namespace: str = "", **content: Any) -> Obj:
    """An object of ours."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": API_VERSION, "kind": kind.kind, "metadata": metadata, **content}


def slot(minute: int, dag: str = "etl") -> str:
    """The name of a DAG's run for this minute of the story."""
    return scheduled_run_name(dag, NOON_S + 60 * minute)
