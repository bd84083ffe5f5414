"""Intents as the objects that are sent: the only place that builds a body."""

import hashlib
from collections.abc import Mapping
from typing import Any

from fencepost.api import names as wire
from fencepost.api.codec import encode_run_status
from fencepost.api.names import Kind
from fencepost.api.times import format_time
from fencepost.core.intents import (
    Announce,
    CreateLetter,
    CreateRevision,
    CreateRun,
    Record,
    WriteMailbox,
    WriteRun,
)
from fencepost.core.names import DagKey
from fencepost.core.renewals import INTERVAL_STEP_S

Obj = dict[str, Any]

EVENT_MESSAGE_LENGTH_MAX = 1024
COMPONENT = "fencepost-operator"
NO_NOTES: list[Obj] = [{}]
"""Sent as `managedFields`: the server drops its notes on who has written which field, and takes none from then on."""


def run_object(intent: CreateRun | WriteRun) -> Obj:
    """A whole DAGRun: spec and foreign metadata as they were read, our labels and owner, and the new status.

    A run that waits for its DAG, or ends without it, has neither owner nor revision: those are filled in but once, so
    that a run which somebody has orphaned outlives its DAG.
    """
    adopted = isinstance(intent, CreateRun) or ("revision" not in intent.record["spec"] and bool(intent.revision))
    if isinstance(intent, CreateRun):
        meta: Obj = {"namespace": intent.run.namespace, "name": intent.run.name}
        spec: Mapping[str, Any] = {
            "dag": intent.dag.name,
            "dagUID": intent.dag_uid,
            "revision": intent.revision,
            "trigger": str(intent.trigger),
            "scheduledTime": format_time(intent.scheduled_s),
            **({"params": dict(intent.params)} if intent.params else {}),
        }
    else:
        meta = _metadata_unnoted(intent.record)
        spec = {**intent.record["spec"], **intent.asked}
        if adopted:
            spec = {**spec, "dagUID": intent.dag_uid, "revision": intent.revision}
    ours = {wire.SHARD_LABEL: str(intent.authority.shard), wire.DAG_LABEL: intent.dag.name}
    meta["labels"] = {**meta.get("labels", {}), **ours}
    if adopted and not any(owner["uid"] == intent.dag_uid for owner in meta.get("ownerReferences", ())):
        meta["ownerReferences"] = [*meta.get("ownerReferences", ()), dag_owner(intent.dag, intent.dag_uid)]
    return {
        "apiVersion": wire.API_VERSION,
        "kind": wire.DAG_RUNS.kind,
        "metadata": meta,
        "spec": spec,
        "status": encode_run_status(intent.state),
    }


def dag_owner(dag: DagKey, uid: str) -> Obj:
    """The owner reference to a DAG; not blocking, as nothing here has a finalizer."""
    return {"apiVersion": wire.API_VERSION, "kind": wire.DAGS.kind, "name": dag.name, "uid": uid, "controller": True}


def revision_object(intent: CreateRevision) -> Obj:
    """The ControllerRevision of a definition. Its number is of no use here: the name is the content's hash."""
    return {
        "apiVersion": wire.CONTROLLER_REVISIONS.api_version,
        "kind": wire.CONTROLLER_REVISIONS.kind,
        "metadata": {
            "namespace": intent.dag.namespace,
            "name": intent.name,
            "labels": {wire.DAG_LABEL: intent.dag.name},
            "ownerReferences": [dag_owner(intent.dag, intent.dag_uid)],
        },
        "revision": 1,
        "data": intent.data,
    }


def letter_object(intent: CreateLetter) -> Obj:
    """A new DeadLetter. It belongs to the DAG and not to the run, which may be gone long before."""
    return {
        "apiVersion": wire.API_VERSION,
        "kind": wire.DEAD_LETTERS.kind,
        "metadata": {
            "namespace": intent.dag.namespace,
            "name": intent.name,
            "labels": {wire.DAG_LABEL: intent.dag.name, wire.RUN_LABEL: intent.job["run"]},
            "ownerReferences": [dag_owner(intent.dag, intent.dag_uid)],
        },
        "spec": {"job": intent.job},
    }


def mailbox_object(intent: WriteMailbox) -> Obj:
    """A whole Worker with another mailbox; its status is the worker's own and goes along unread."""
    spec = {**intent.record["spec"], "leases": dict(intent.leases)}
    if intent.renewal_interval_s != spec.get("renewalIntervalSeconds", INTERVAL_STEP_S):
        spec["renewalIntervalSeconds"] = intent.renewal_interval_s
    spec.pop("critical", None)
    if intent.critical:
        spec["critical"] = sorted(intent.critical)
    if intent.reserved_slots is not None:
        spec["reservedSlots"] = intent.reserved_slots
    return _worker_object(intent.record, spec)


def fenced_object(record: Record) -> Obj:
    """A whole Worker, fenced."""
    return _worker_object(record, {**record["spec"], "fenced": True})


def _worker_object(record: Record, spec: Obj) -> Obj:
    return {**record, "metadata": _metadata_unnoted(record), "spec": spec}


def _metadata_unnoted(record: Record) -> Obj:
    """The metadata of a run or Worker as they were read, but for notes on who has written which field. To take those
    down at each write costs the server an eighth of it, and they are a third of the object. They stay where somebody
    uses server-side apply, which goes by them."""
    meta = dict(record["metadata"])
    notes = meta.pop("managedFields", ())
    if notes and all(note.get("operation") != "Apply" for note in notes):
        meta["managedFields"] = NO_NOTES
    return meta


def status_object(kind: Kind, record: Record, status: Mapping[str, Any]) -> Obj:
    """What a write of a status subresource needs: the server takes all but the status from what it has stored."""
    kept = ("namespace", "name", "uid", "resourceVersion")
    meta = {name: value for name, value in record["metadata"].items() if name in kept}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "status": status}


def event_object(intent: Announce, now_s: float) -> Obj:
    """An Event; its name is hashed from object, reason and time, so that none is drawn."""
    involved = intent.involved
    meta = involved["metadata"]
    namespace = meta.get("namespace", "default")
    digest = hashlib.blake2b(f"{meta['uid']} {intent.reason} {now_s}".encode(), digest_size=8).hexdigest()
    moment = format_time(now_s)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": namespace, "name": f"{meta['name'][:200]}.{digest}", "labels": dict(intent.labels)},
        "involvedObject": {
            "apiVersion": involved["apiVersion"],
            "kind": involved["kind"],
            "namespace": meta.get("namespace", ""),
            "name": meta["name"],
            "uid": meta["uid"],
        },
        "reason": intent.reason,
        "message": intent.message[:EVENT_MESSAGE_LENGTH_MAX],
        "type": "Warning" if intent.warning else "Normal",
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
