"""What the server makes of an object that a client sends: the metadata that are its own, the parts it ignores.

Two sorts of kinds: those with a status subresource, where a plain PUT leaves the status alone and a PUT of the status
leaves all else alone; and those without, where everything is written at once. Generations are counted for custom kinds:
every change but one of metadata, or of a status that is a subresource, raises it by one.
"""

import re
from typing import Any

from fencepost.api.names import DAG_RUNS, DAGS, DEAD_LETTERS, PODS, WORKER_POOLS, WORKERS, Kind
from fencepost.core.names import DAG_NAME_LENGTH_MAX
from fencepost.kube.errors import ConflictError, InvalidError
from fencepost.kube.protocol import Obj

WITH_STATUS_SUBRESOURCE = frozenset({DAGS, DEAD_LETTERS, WORKER_POOLS, WORKERS, PODS})
WITH_GENERATION = frozenset({DAGS, DAG_RUNS, DEAD_LETTERS, WORKER_POOLS, WORKERS})
STATUS = "status"

NAME_LENGTH_MAX = 253
NAME_LENGTHS_MAX = {DAGS: DAG_NAME_LENGTH_MAX, DAG_RUNS: 63, DEAD_LETTERS: 63, WORKER_POOLS: 63, WORKERS: 63}
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")

_KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion")
"""Metadata that only the server writes."""
_DROPPED_EMPTY = ("labels", "annotations", "finalizers", "ownerReferences")


def check_name(kind: Kind, name: str) -> None:
    """InvalidError where an object of this kind cannot have this name."""
    custom = kind in NAME_LENGTHS_MAX
    pattern, length_max = (_LABEL, NAME_LENGTHS_MAX[kind]) if custom else (_SUBDOMAIN, NAME_LENGTH_MAX)
    if len(name) > length_max or not pattern.fullmatch(name):
        raise InvalidError(
            f"{kind} {name[:80]!r}: metadata.name is not {length_max} letters, digits and dashes at most"
        )


def check_kind(kind: Kind, obj: Obj) -> None:
    """InvalidError where an object says that it is of another kind than its path."""
    said = (obj.get("apiVersion"), obj.get("kind"))
    if said != (kind.api_version, kind.kind):
        raise InvalidError(f"the object says that it is {said}, and was sent to {kind.api_version} {kind}")


def note_edit(kind: Kind, obj: Obj, now: str) -> None:
    """Note when people have written a DAG last. The real server does so for all kinds, and by field; here it is done
    where somebody asks."""
    if kind is DAGS:
        obj["metadata"]["managedFields"] = [{"manager": "somebody", "operation": "Update", "time": now}]


def complete_new(kind: Kind, obj: Obj, *, uid: str, now: str) -> None:
    """Give an object the metadata of one that is made now."""
    metadata = obj["metadata"]
    for name in (*_KEPT, "managedFields"):
        metadata.pop(name, None)
    _drop_empty(metadata)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = now
    if kind in WITH_GENERATION:
        metadata["generation"] = 1
    note_edit(kind, obj, now)


def merged(kind: Kind, old: Obj, sent: Obj, subresource: str) -> Obj:
    """What is to be stored when `sent` is put over `old`; it shares parts with both, and may be equal to `old`.

    ConflictError when the versions or UIDs differ.
    """
    metadata = sent["metadata"]
    _check_version(kind, old["metadata"], metadata)
    if subresource == STATUS:
        new = {**old, "status": sent.get("status")}
        if new["status"] is None:
            del new["status"]
        return new
    for name in _KEPT:
        metadata.pop(name, None)
        if name in old["metadata"]:
            metadata[name] = old["metadata"][name]
    notes_dropped = metadata.pop("managedFields", None) == [{}]
    if "managedFields" in old["metadata"] and not notes_dropped:
        metadata["managedFields"] = old["metadata"]["managedFields"]
    _drop_empty(metadata)
    _check_finalizers(kind, old["metadata"], metadata)
    if kind in WITH_STATUS_SUBRESOURCE:
        sent.pop("status", None)
        if "status" in old:
            sent["status"] = old["status"]
    return sent


def count_generation(kind: Kind, old: Obj, new: Obj, now: str) -> None:
    """Raise the generation of an object whose content has changed now."""
    if kind not in WITH_GENERATION:
        return
    uncounted = ("metadata", "status") if kind in WITH_STATUS_SUBRESOURCE else ("metadata",)
    if any(old.get(name) != new.get(name) for name in old | new if name not in uncounted):
        new["metadata"]["generation"] += 1
        note_edit(kind, new, now)


def _check_version(kind: Kind, old: dict[str, Any], sent: dict[str, Any]) -> None:
    version = sent.get("resourceVersion")
    if not version:
        raise InvalidError(f"{kind} {sent['name']!r}: metadata.resourceVersion must be specified for an update")
    if version != old["resourceVersion"]:
        raise ConflictError(
            f"{kind} {sent['name']!r} is at version {old['resourceVersion']}, not {version}: read it again",
            reason="Conflict",
        )
    if sent.get("uid", old["uid"]) != old["uid"]:
        raise ConflictError(f"{kind} {sent['name']!r} has UID {old['uid']}, not {sent['uid']}", reason="Conflict")


def _check_finalizers(kind: Kind, old: dict[str, Any], sent: dict[str, Any]) -> None:
    added = set(sent.get("finalizers", ())) - set(old.get("finalizers", ()))
    if added and "deletionTimestamp" in old:
        raise InvalidError(f"{kind} {sent['name']!r} is being deleted: no finalizer can be added, got {sorted(added)}")


def _drop_empty(metadata: dict[str, Any]) -> None:
    for name in _DROPPED_EMPTY:
        if name in metadata and not metadata[name]:
            del metadata[name]
