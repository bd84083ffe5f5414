"""Objects for the contract tests: the smallest that the real schemas accept, and only what a test names besides."""

from typing import Any

from fencepost.api.names import (
    API_VERSION,
    CONFIG_MAPS,
    DAG_RUNS,
    DAGS,
    LEASES,
    ROLE_LABEL,
    SHARD_LABEL,
    SYSTEM_NAMESPACE_DEFAULT,
    WORKERS,
)
from fencepost.core.names import shard_lease_name
from fencepost.kube.protocol import Obj


def dag(namespace: str, name: str = "etl", **metadata: Any) -> Obj:
    """A DAG of one task."""
    return {
        "apiVersion": API_VERSION,
        "kind": DAGS.kind,
        "metadata": {"namespace": namespace, "name": name, **metadata},
        "spec": {"tasks": [{"name": "only", "command": ["true"]}]},
    }


def run(namespace: str, name: str = "etl-by-hand", *, status: Obj | None = None, **spec: Any) -> Obj:
    """A run of `etl`."""
    obj = {
        "apiVersion": API_VERSION,
        "kind": DAG_RUNS.kind,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"dag": "etl", **spec},
    }
    return obj if status is None else {**obj, "status": status}


def led_run(namespace: str, name: str = "etl-by-hand", *, shard: int, epoch: int, **status: Any) -> Obj:
    """A run as its shard's leader writes it."""
    obj = run(namespace, name, status=run_status(epoch=epoch, **status))
    obj["metadata"]["labels"] = {SHARD_LABEL: str(shard)}
    return obj


def run_status(**parts: Any) -> Obj:
    """The status of a run that has begun."""
    return {"phase": "Running", "epoch": 1, "leaseCounter": 1, "round": 0, "done": "0/1", **parts}


def worker(name: str, **spec: Any) -> Obj:
    """A worker of two slots, as it registers."""
    return {
        "apiVersion": API_VERSION,
        "kind": WORKERS.kind,
        "metadata": {"namespace": SYSTEM_NAMESPACE_DEFAULT, "name": name},
        "spec": {"pool": "default", "slots": 2, **spec},
    }


def lease(name: str, namespace: str = SYSTEM_NAMESPACE_DEFAULT, *, role: str = "", **spec: Any) -> Obj:
    """A Lease."""
    labels = {ROLE_LABEL: role} if role else {}
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": spec,
    }


def shard_lease(shard: int, *, epoch: int, holder: str = "contract") -> Obj:
    """The Lease of a shard."""
    return lease(shard_lease_name(shard), role="shard", leaseTransitions=epoch, holderIdentity=holder)


def config_map(namespace: str, name: str, **metadata: Any) -> Obj:
    """An object with nothing to it."""
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {"namespace": namespace, "name": name, **metadata},
    }


def owner_reference(owner: Obj) -> Obj:
    """To be put into a dependent's metadata."""
    metadata = owner["metadata"]
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
