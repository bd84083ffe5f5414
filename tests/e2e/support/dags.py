"""Builders of what a user writes: each takes what a story is about and fills in the rest.

    dag("etl", task("extract", command=["true"]), task("load", "extract", command=["true"], forEach={"count": 5}))

Fields of the spec keep the names that they have on the wire.
"""

from typing import Any

from fencepost.api import names as wire
from fencepost.core.names import SHARDS_DEFAULT, DagKey, shard_of

Obj = dict[str, Any]

NAMESPACE = "fencepost-stories"
"""Of all DAGs in these tests."""
TRUE = ["true"]


def task(name: str, *parents: str, command: list[str] | None = None, **more: Any) -> Obj:
    """A task that runs after its parents; it does nothing unless a command is given."""
    made: Obj = {"name": name, "command": command or TRUE, **more}
    return made | ({"dependsOn": list(parents)} if parents else {})


def retries(limit: int, base: str = "1s") -> Obj:
    """A policy whose waits are base, 2·base, 4·base exactly."""
    return {"limit": limit, "backoff": {"base": base, "factor": 2.0, "jitter": 0.0}}


def dag(name: str, *tasks: Obj, **spec: Any) -> Obj:
    """A DAG; without a schedule unless one is given."""
    return _object(wire.DAGS, name, {"tasks": list(tasks) or [task("only")], **spec}, NAMESPACE)


def every_minute() -> Obj:
    """A schedule."""
    return {"cron": ["* * * * *"]}


def run_of(dag_name: str, name: str, **spec: Any) -> Obj:
    """A run made by hand."""
    return _object(wire.DAG_RUNS, name, {"dag": dag_name, **spec}, NAMESPACE)


def pool(name: str, **spec: Any) -> Obj:
    """A WorkerPool of which one DAG may have all, unless a share is given."""
    return _object(wire.WORKER_POOLS, name, {"maxSharePerDAG": "100%", **spec})


def shard_of_dag(name: str) -> int:
    """The shard of a DAG in these tests' namespace."""
    return shard_of(DagKey(NAMESPACE, name), SHARDS_DEFAULT)


def name_in_shard(prefix: str, shard: int) -> str:
    """A DAG's name that belongs to this shard."""
    return next(name for name in (f"{prefix}-{n}" for n in range(10_000)) if shard_of_dag(name) == shard)


def _object(kind: wire.Kind, name: str, spec: Obj, namespace: str = "") -> Obj:
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}
