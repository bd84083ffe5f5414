"""Every write to the API server, in order, as values: what the checkers look at, and nothing else of the product.

A tap on the store sees each change at the moment it is made, whoever made it and whatever followed from what. Objects
are read once here, so that checkers share them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fencepost.api.codec import decode_run_status
from fencepost.api.names import CONTROLLER_REVISIONS, DAG_RUNS, DAGS, DEAD_LETTERS, LEASES, WORKER_POOLS, WORKERS, Kind
from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase
from fencepost.core.run_state import Lease, RunState, TaskState
from fencepost.kube.protocol import Obj
from fencepost.memory.identity import ADMIN
from fencepost.memory.records import Change, Record
from fencepost.memory.watches import Watch
from tests.unit.sim.network import Network

T = TypeVar("T")

KINDS = (DAGS, DAG_RUNS, WORKERS, LEASES, CONTROLLER_REVISIONS, DEAD_LETTERS, WORKER_POOLS)
NO_RUN = RunState()
NO_TASK = TaskState()
NOTHING: Mapping[str, Any] = {}


class once(Generic[T]):  # stands where a property stands
    """A property that is found out when it is first asked for: `functools.cached_property` without its lock."""

    def __init__(self, find: Callable[[Any], T]) -> None:
        self._find = find
        self._name = find.__name__

    def __get__(self, instance: object, owner: type) -> T:
        found = instance.__dict__[self._name] = self._find(instance)
        return found


class Stored:
    """One object at one version."""

    def __init__(self, record: Record) -> None:
        self._record = record

    @once
    def obj(self) -> Obj:
        return self._record.object()

    @property
    def size_bytes(self) -> int:
        return len(self._record.data)

    @property
    def labels(self) -> Mapping[str, str]:
        return self._record.labels

    @once
    def meta(self) -> Mapping[str, Any]:
        meta: Mapping[str, Any] = self.obj["metadata"]
        return meta

    @property
    def uid(self) -> str:
        return self._record.uid

    @property
    def name(self) -> str:
        return self._record.key.name

    @once
    def spec(self) -> Mapping[str, Any]:
        spec: Mapping[str, Any] = self.obj.get("spec") or NOTHING
        return spec

    @once
    def status(self) -> Mapping[str, Any]:
        status: Mapping[str, Any] = self.obj.get("status") or NOTHING
        return status

    @once
    def run(self) -> RunState:
        """Of a DAGRun: its record; of one that nobody has taken up, an empty one."""
        return decode_run_status(self.status) if self.status else NO_RUN

    @once
    def ended(self) -> Mapping[JobKey, JobPhase]:
        """Of a DAGRun: its jobs that have ended."""
        tasks = self.run.tasks.items()
        return {JobKey(name, index): phase for name, task in tasks for index, phase in _ends(task).items()}

    def end_of(self, job: JobKey) -> JobPhase | None:
        """Of a DAGRun: how one of its jobs has ended; None: it has not."""
        ended = self.run.tasks.get(job.task, NO_TASK).ended
        return next((phase for phase, indices in ended.items() if job.index in indices), None)

    @once
    def entries(self) -> Mapping[str, str]:
        """Of a Worker: its mailbox."""
        return self.spec.get("leases") or NOTHING

    @once
    def results(self) -> Mapping[str, str]:
        """Of a Worker."""
        return self.status.get("results") or NOTHING

    @property
    def fenced(self) -> bool:
        return bool(self.spec.get("fenced"))

    def key_of(self, job: JobKey) -> str:
        """Of a DAGRun: the mailbox key of one of its jobs, made by hand here, as the product may be wrong about it."""
        return f"{self.meta['namespace']}/{self.name}.{self.uid[:8]}/{job.task}/{job.index}"


@dataclass
class Written:
    """One change of one object."""

    at_s: float
    version: int
    sender: str
    """The machine whose request did it; `user` for people."""
    verb: str
    kind: Kind
    name: str
    before: Stored | None
    """None: it was created."""
    after: Stored | None
    """None: it was deleted."""
    clock_error_s: float = 0.0
    """How wrong the sender's wall clock was when it sent this."""

    @property
    def now(self) -> Stored:
        """As it is, or was at last."""
        stored = self.after or self.before
        assert stored is not None
        return stored

    @once
    def status_changed(self) -> bool:
        """Whether the object has a status, and had not this one."""
        before, after = self.before, self.after
        return after is not None and bool(after.status) and (before is None or before.status != after.status)

    @once
    def new_leases(self) -> Mapping[JobKey, Lease]:
        """Of a DAGRun: the leases that this write gives out."""
        if self.after is None:
            return {}
        old = self.before.run.leases if self.before is not None else {}
        return {job: lease for job, lease in self.after.run.leases.items() if old.get(job) != lease}

    @once
    def ends(self) -> Mapping[JobKey, tuple[JobPhase | None, JobPhase | None]]:
        """Of a DAGRun: its jobs whose end this write has changed, with what it was and what it is; None: none."""
        ends: dict[JobKey, tuple[JobPhase | None, JobPhase | None]] = {}
        olds = self.before.run.tasks if self.before is not None else {}
        news = self.after.run.tasks if self.after is not None else {}
        for name in {**olds, **news}:
            old, new = olds.get(name, NO_TASK), news.get(name, NO_TASK)
            if old is not new and old.ended != new.ended:
                was, now = _ends(old), _ends(new)
                for index in {**was, **now}:
                    before, after = was.get(index), now.get(index)
                    if before is not after:
                        ends[JobKey(name, index)] = (before, after)
        return ends


def _ends(task: TaskState) -> dict[int, JobPhase]:
    return {index: phase for phase, indices in task.ended.items() for index in indices}


class Tap(Watch):
    """A watch that never waits: it is told at once."""

    def __init__(self, kind: Kind, tell: Callable[[Kind, Change], None]) -> None:
        super().__init__()
        self._kind = kind
        self._tell = tell

    def offer(self, change: Change) -> None:
        self._tell(self._kind, change)


class History:
    """What stands in the API server now, and who is told of each change."""

    def __init__(self, network: Network) -> None:
        self.objects: dict[Kind, dict[str, Stored]] = {kind: {} for kind in KINDS}
        """By name; there is one namespace for each kind here."""
        self.left: dict[str, Stored] = {}
        """Workers that have been deleted, by their names, which are never used again: as each was at last."""
        self.writes = 0
        self.listeners: list[Callable[[Written], None]] = []
        self._network = network
        engine = network.engine
        for kind in KINDS:
            engine.subscribe(ADMIN, kind, Tap(kind, self._see), str(engine.version))

    def worker(self, name: str) -> Stored | None:
        """As it is, or was when it was deleted: who has read it may go by that ever after."""
        return self.objects[WORKERS].get(name) or self.left.get(name)

    def _see(self, kind: Kind, change: Change) -> None:
        objects, name = self.objects[kind], change.record.key.name
        sender = self._network.sender
        before = objects.get(name)
        after = None if change.after is None else Stored(change.after)
        if after is None:
            objects.pop(name, None)
            if kind is WORKERS and before is not None:
                self.left[name] = before
        else:
            objects[name] = after
        self.writes += 1
        written = Written(
            self._network.loop.now_s,
            change.version,
            "user" if sender is None else sender[0],
            "" if sender is None else sender[1].verb,
            kind,
            name,
            before,
            after,
            0.0 if sender is None else sender[2],
        )
        for listener in self.listeners:
            listener(written)
