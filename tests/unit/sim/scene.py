"""Everything there is in one simulation: the API server, the network, processes at their seats, and people's hands."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import orjson

from fencepost.api.names import API_VERSION, DAG_RUNS, DAGS, DEAD_LETTERS, WORKERS, Kind
from fencepost.core.names import DagKey, shard_of
from fencepost.kube.errors import ApiError
from fencepost.kube.protocol import Obj
from fencepost.memory.engine import Engine
from fencepost.memory.identity import ADMIN, worker_identity
from fencepost.memory.records import ObjectKey
from fencepost.worker.settings import WorkerSettings
from tests.unit.sim.cluster import SYSTEM, Job, ReplicaProcess, WorkerProcess
from tests.unit.sim.history import History
from tests.unit.sim.network import Network
from tests.unit.sim.plan import Plan, Seat
from tests.unit.sim.troubles import Troubles
from tests.unit.sim.virtual import Machine, VirtualLoop

T = TypeVar("T")

NAMESPACE: Final = "demo"
POOL: Final = "default"
TURNS_A_SECOND_MAX: Final = 45
"""Of the loop, for each process on average; more, and the code spins, however slowly."""
SYNCED_S: Final = 2.0
"""How wrong clocks are at most that somebody looks after."""
RESTART_S: Final = 2.0
"""Until whoever looks after processes has started the next one at a seat."""


@dataclass
class Scene:
    """Everything there is in one simulation."""

    plan: Plan
    loop: VirtualLoop = field(default_factory=VirtualLoop)
    coverage: "Counter[str]" = field(default_factory=Counter)
    note: Callable[[float, str, str], None] = lambda at_s, who, what: None
    """Told of what happens, for the story."""

    def __post_init__(self) -> None:
        plan, loop = self.plan, self.loop
        loop.begins_s = plan.calendar.begins_s
        loop.turns_max = int(TURNS_A_SECOND_MAX * plan.length_s) * len((*plan.replicas, *plan.workers))
        self.world = Machine(loop, "world")
        """The API server's clock."""
        self.engine = Engine(self.world, SYSTEM, plan.changes_max)
        self.troubles = Troubles(plan.latency_s, self.coverage)
        self.network = Network(loop, self.engine, self.troubles)
        self.history = History(self.network)
        self.book: list[Job] = []
        """All jobs that were ever started."""
        self.replicas: dict[str, ReplicaProcess] = {}
        """By seat: who sits there, or did last."""
        self.workers: dict[str, WorkerProcess] = {}
        self.deleted_by_people: set[str] = set()
        """UIDs."""
        self._incarnations: Counter[str] = Counter()
        self.closed_seats: set[str] = set()
        self.calm = False

    # The API server, as people and checkers use it.

    def put(self, kind: Kind, name: str, spec: Any, *, namespace: str = NAMESPACE) -> Obj | None:
        """Create an object as a person does; None if it is refused."""
        metadata = {"name": name, **({"namespace": namespace} if kind.namespaced else {})}
        body = {"apiVersion": API_VERSION, "kind": kind.kind, "metadata": metadata, "spec": spec}
        return self._by_person(lambda: self.engine.create(ADMIN, kind, orjson.dumps(body)))

    def edit(self, kind: Kind, name: str, change: Callable[[Obj], None]) -> Obj | None:
        """Read, change and write an object as a person does; None if it is gone, or this is refused."""
        stored = self.history.objects[kind].get(name)
        if stored is None:
            return None
        body = orjson.loads(orjson.dumps(stored.obj))
        change(body)
        return self._by_person(lambda: self.engine.replace(ADMIN, kind, orjson.dumps(body), ""))

    def delete(self, kind: Kind, name: str, namespace: str = NAMESPACE, *, propagation: str = "Background") -> None:
        """Delete an object as a person does."""
        stored = self.history.objects[kind].get(name)
        if stored is not None:
            self.deleted_by_people.add(stored.uid)
            self._by_person(lambda: self.engine.delete(ADMIN, kind, ObjectKey(namespace, name), {}, propagation))

    def _by_person(self, act: Callable[[], T]) -> T | None:
        try:
            return act()
        except ApiError as error:
            self.coverage[f"a person was refused: {error.status}"] += 1
            return None

    # Processes.

    def start(self, seat: Seat) -> None:
        """A new process at a seat."""
        if seat.name in self.closed_seats:
            return
        self._incarnations[seat.name] += 1
        count = self._incarnations[seat.name]
        synced = seat.synced or self.calm
        offset_s = min(seat.wall_offset_s, SYNCED_S, key=abs) if self.calm else seat.wall_offset_s
        name = f"{seat.name}-{count}"
        machine = Machine(self.loop, name, speed=seat.speed, wall_offset_s=offset_s, synced=synced)
        if seat.slots:
            settings = WorkerSettings(seat.name, f"{count:05d}", slots=seat.slots, drain_timeout_s=30.0)
            worker = self.workers[seat.name] = WorkerProcess(self.network, machine, settings, self.book)
            worker.task.add_done_callback(lambda _: self._ended(seat, worker), context=self.world.context)
        else:
            self.replicas[seat.name] = ReplicaProcess(self.network, machine, shards=self.plan.shards)
        self.note(self.loop.now_s, machine.name, "starts")

    def process(self, seat: str) -> ReplicaProcess | WorkerProcess:
        """Who sits there, or did last."""
        return self.replicas[seat] if seat in self.replicas else self.workers[seat]

    def seat(self, name: str) -> Seat:
        return next(seat for seat in (*self.plan.replicas, *self.plan.workers) if seat.name == name)

    def kill(self, seat: str, back_s: float) -> None:
        """SIGKILL, and another process after a while."""
        process = self.process(seat)
        if process.alive:
            self.note(self.loop.now_s, process.machine.name, "is killed")
            process.kill()
            self.loop.after(back_s, self.revive, seat)

    def revive(self, seat: str) -> None:
        """Another process, if there is none."""
        if not self.process(seat).alive:
            self.start(self.seat(seat))

    def _ended(self, seat: Seat, worker: WorkerProcess) -> None:
        if not worker.task.cancelled():
            how = worker.task.exception() or worker.task.result().name
            self.coverage[f"worker ended {how}"] += 1
            self.note(self.loop.now_s, worker.machine.name, f"ends: {how}")
            self.loop.after(RESTART_S, self.revive, seat.name)

    @property
    def machines(self) -> list[Machine]:
        """Of all processes that live."""
        processes: list[ReplicaProcess | WorkerProcess] = [*self.replicas.values(), *self.workers.values()]
        return [process.machine for process in processes if process.alive]

    def leads(self, shard: int) -> list[ReplicaProcess]:
        """Who says that it may act for a shard now."""
        return [replica for replica in self.replicas.values() if replica.holds(shard) is not None]

    def shard_of(self, dag: str) -> int:
        return shard_of(DagKey(NAMESPACE, dag), self.plan.shards)

    def unended(self) -> list[str]:
        """What has not ended yet, and can: runs, entries in mailboxes, rounds and replays that were asked for."""
        runs = [
            f"run {run.name} is {run.run.phase} ({run.run.reason or 'no reason'}: {run.run.message})"
            for run in self.history.objects[DAG_RUNS].values()
            if not run.run.phase.finished and (run.spec["dag"] in self.history.objects[DAGS] or run.run.leases)
        ]
        entries = [
            f"worker {worker.name} has entries {sorted(worker.entries)}"
            for worker in self.history.objects[WORKERS].values()
            if worker.entries
        ]
        rounds = [
            f"run {run.name} is in round {run.run.round}, {run.spec['round']} is asked for"
            for run in self.history.objects[DAG_RUNS].values()
            if run.spec.get("round", 0) > run.run.round and not run.spec.get("cancel")
        ]
        replays = [
            f"dead letter {letter.name} is asked for replay {asked} and says {dict(letter.status)}"
            for letter in self.history.objects[DEAD_LETTERS].values()
            if (asked := letter.spec.get("replay", 0)) > letter.status.get("replay", 0)
            or letter.status.get("phase") == "Replaying"
        ]
        return runs + entries + rounds + replays

    def lie(self, worker: str, obj: Obj, results: dict[str, str]) -> None:
        """A status under a worker's own identity, with whatever results; refused, if all is well."""
        body = orjson.loads(orjson.dumps(obj))
        if results == (body.get("status") or {}).get("results", {}):
            return
        body["status"] = {**(body.get("status") or {}), "results": results}
        identity = worker_identity(worker.rpartition("-")[0])
        try:
            self.engine.replace(identity, WORKERS, orjson.dumps(body), "status")
            self.coverage["a lie was believed"] += 1
        except ApiError as error:
            self.coverage[f"a lie was refused: {error.status}"] += 1
