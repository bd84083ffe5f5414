"""What a worker writes: its Lease, its Worker, and the Worker's status."""

from collections.abc import Mapping
from typing import Any, Final

from fencepost.api.names import API_VERSION, LEASES, MAILBOX_SEEN_ANNOTATION, POOL_LABEL, ROLE_LABEL, WORKERS
from fencepost.api.objects import status_object
from fencepost.api.times import format_micro_time
from fencepost.kube.protocol import Obj
from fencepost.worker.settings import WorkerSettings

ROLE_WORKER: Final = "worker"


def lease_object(settings: WorkerSettings, now_s: float) -> Obj:
    """A new worker's Lease; it has no mailbox yet."""
    moment = format_micro_time(now_s)
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {
            "namespace": settings.namespace,
            "name": settings.name,
            "labels": {ROLE_LABEL: ROLE_WORKER, POOL_LABEL: settings.pool},
        },
        "spec": {
            "holderIdentity": settings.name,
            "leaseDurationSeconds": settings.lease_duration_s,
            "acquireTime": moment,
            "renewTime": moment,
        },
    }


def renewed_lease(lease: Obj, mailbox_seen: str, duration_s: int, now_s: float) -> Obj:
    """The stored Lease, renewed for so long, with the version of the mailbox that has been acted on."""
    metadata = lease["metadata"]
    annotations = (metadata.get("annotations") or {}) | {MAILBOX_SEEN_ANNOTATION: mailbox_seen}
    return lease | {
        "metadata": metadata | {"annotations": annotations},
        "spec": lease["spec"] | {"renewTime": format_micro_time(now_s), "leaseDurationSeconds": duration_s},
    }


def owned_lease(lease: Obj, worker: Obj) -> Obj:
    """The Lease with its Worker as owner."""
    owner = {"apiVersion": API_VERSION, "kind": WORKERS.kind, "name": worker["metadata"]["name"], "uid": uid_of(worker)}
    return {**lease, "metadata": {**lease["metadata"], "ownerReferences": [owner]}}


def worker_object(settings: WorkerSettings) -> Obj:
    """A new Worker, with an empty mailbox."""
    return {
        "apiVersion": API_VERSION,
        "kind": WORKERS.kind,
        "metadata": {
            "namespace": settings.namespace,
            "name": settings.name,
            "labels": {POOL_LABEL: settings.pool},
        },
        "spec": {"pool": settings.pool, "slots": settings.slots},
    }


def answered_worker(worker: Obj, results: Mapping[str, str], *, draining: bool, left: bool) -> Obj:
    """The Worker with another status: a compare-and-swap on the version that `worker` has."""
    status: dict[str, Any] = {"results": dict(results), "seen": version_of(worker)}
    status |= {name: True for name, said in (("draining", draining), ("left", left)) if said}
    return status_object(WORKERS, worker, status)


def version_of(obj: Obj) -> str:
    """The resourceVersion."""
    version: str = obj["metadata"]["resourceVersion"]
    return version


def uid_of(obj: Obj) -> str:
    """The UID."""
    uid: str = obj["metadata"]["uid"]
    return uid


def results_of(worker: Obj) -> dict[str, str]:
    """The results that are stored."""
    return (worker.get("status") or {}).get("results") or {}


def draining_of(worker: Obj) -> bool:
    """Whether it is stored that the worker takes nothing new."""
    return bool((worker.get("status") or {}).get("draining"))


def renewal_interval_of(worker: Obj) -> float:
    """How often the operator asks it to renew its Lease; 0 where it does not, or not legibly."""
    interval_s = (worker.get("spec") or {}).get("renewalIntervalSeconds")
    return float(interval_s) if isinstance(interval_s, int) else 0.0


def left_of(worker: Obj) -> bool:
    """Whether it is stored that the worker has ended."""
    return bool((worker.get("status") or {}).get("left"))


def entries_of(worker: Obj) -> Mapping[str, object]:
    """The mailbox."""
    return (worker.get("spec") or {}).get("leases") or {}
