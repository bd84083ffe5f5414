"""What stands in the cluster at one moment, read as a person with kubectl would read it.

A picture is four lists, read one after the other, so it is no snapshot: a shard may change hands while the runs are
read. Whoever compares two pictures learns what has happened in between, but not in which order.
"""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fencepost.api.codec import decode_run_status
from fencepost.api.names import DAG_RUNS, DAGS, LEASES, WORKERS, Kind
from fencepost.core.names import JobKey, parse_mailbox_key
from fencepost.core.run_state import RunState
from fencepost.kube.access import access_from_kubeconfig
from fencepost.loops.lease_objects import member_of_lease, shard_of_lease, shard_record

ANSWER_LIMIT_S = 10.0
Obj = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One DAGRun."""

    name: str
    dag: str
    tasks: Mapping[str, int | None]
    """In the order of the DAG; how many jobs a fan-out has, None for a task that is none."""
    state: RunState

    def label(self, job: JobKey) -> str:
        """`pack[3]`; for a task without a fan-out its name alone."""
        return job.task if self.tasks.get(job.task) is None else f"{job.task}[{job.index}]"


@dataclass(frozen=True)
class Worker:
    """One Worker that has registered."""

    name: str
    slots: int
    fenced: bool
    jobs: tuple[JobKey, ...]
    """Given to it, and not answered yet."""

    @property
    def pod(self) -> str:
        """The process, without the nonce."""
        return without_nonce(self.name)


@dataclass(frozen=True)
class Shard:
    """A shard that somebody leads."""

    replica: str
    epoch: int


@dataclass(frozen=True)
class Picture:
    """All that the demo tells of."""

    runs: Mapping[str, Run] = field(default_factory=dict)
    """By name, oldest first."""
    workers: Mapping[str, Worker] = field(default_factory=dict)
    """By pod; of several Workers of one pod the last that registered."""
    shards: Mapping[int, Shard] = field(default_factory=dict)

    def shards_of(self, replica: str) -> int:
        """How many shards a replica leads."""
        return sum(shard.replica == replica for shard in self.shards.values())


class Cluster:
    """One API server, asked over one connection that is kept."""

    def __init__(self, kubeconfig: Path) -> None:
        access = access_from_kubeconfig(kubeconfig)
        address = urlsplit(access.server)
        self._connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, context=access.ssl_context(), timeout=ANSWER_LIMIT_S
        )

    def picture(self) -> Picture:
        """What stands there now. OSError or HTTPException where it cannot be read; then ask again."""
        try:
            tasks = {_name(dag): _tasks(dag) for dag in self._items(DAGS)}
            runs = [_run(run, tasks) for run in sorted(self._items(DAG_RUNS), key=_creation)]
            workers = [_worker(worker) for worker in sorted(self._items(WORKERS), key=_creation)]
            return Picture(
                {run.name: run for run in runs},
                {worker.pod: worker for worker in workers},
                _shards(self._items(LEASES)),
            )
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise

    def _items(self, kind: Kind) -> list[Obj]:
        """Of all namespaces."""
        self._connection.request("GET", f"/apis/{kind.api_version}/{kind.plural}")
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != http.client.OK:
            raise http.client.HTTPException(f"{kind} cannot be listed: {answer.status} {body[:200]!r}")
        items: list[Obj] = json.loads(body)["items"]
        return items


def without_nonce(identity: str) -> str:
    """The name that a process was started with; each process adds a nonce to it."""
    return identity.rpartition("-")[0]


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def _creation(obj: Obj) -> tuple[str, str]:
    return obj["metadata"]["creationTimestamp"], _name(obj)


def _tasks(dag: Obj) -> dict[str, int | None]:
    return {task["name"]: task.get("forEach", {}).get("count") for task in dag["spec"]["tasks"]}


def _run(run: Obj, tasks: Mapping[str, Mapping[str, int | None]]) -> Run:
    dag = run["spec"]["dag"]
    state = decode_run_status(run["status"]) if "status" in run else RunState()
    return Run(_name(run), dag, tasks.get(dag, {}), state)


def _worker(worker: Obj) -> Worker:
    spec, results = worker["spec"], worker.get("status", {}).get("results", {})
    open_keys = [key for key in spec.get("leases", {}) if key not in results]
    jobs = tuple(sorted(parse_mailbox_key(key).job for key in open_keys))
    return Worker(_name(worker), spec["slots"], spec.get("fenced", False), jobs)


def _shards(leases: list[Obj]) -> dict[int, Shard]:
    """A shard is led by its Lease's holder for as long as that member's own Lease is there."""
    members = {member_of_lease(lease) for lease in leases}
    led = {}
    for lease in leases:
        number, record = shard_of_lease(lease), shard_record(lease)
        if number is not None and record.holder in members and record.epoch is not None:
            led[number] = Shard(without_nonce(record.holder), record.epoch)
    return led
