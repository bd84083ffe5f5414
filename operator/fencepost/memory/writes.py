"""One write as the laws see it: who, what, the object before and after."""

from collections.abc import Callable
from typing import Any, NamedTuple

from fencepost.api.names import Kind
from fencepost.kube.protocol import Obj
from fencepost.memory.identity import Identity
from fencepost.memory.records import ObjectKey

Part = dict[str, Any]
NOTHING: Part = {}


class Write(NamedTuple):
    """A write on its way into the store. Laws look and change nothing."""

    identity: Identity
    verb: str
    """create, update or delete."""
    kind: Kind
    key: ObjectKey
    old: Obj | None
    """None on a create."""
    new: Obj | None
    """None on a delete."""
    old_spec: Part
    """Empty where there is no object or no spec."""
    new_spec: Part
    old_status: Part | None
    """None where there is no object or no status."""
    new_status: Part | None
    shard_epoch: Callable[[str], int | None]
    """The epoch that a shard's Lease records; None where there is no such Lease."""


Law = Callable[[Write], str | None]
"""None where the write keeps the law; else why it does not."""


def write_of(
    identity: Identity,
    verb: str,
    kind: Kind,
    key: ObjectKey,
    old: Obj | None,
    new: Obj | None,
    shard_epoch: Callable[[str], int | None],
) -> Write:
    """A write with the parts of its objects laid out."""
    old_parts, new_parts = old or NOTHING, new or NOTHING
    return Write(
        identity,
        verb,
        kind,
        key,
        old,
        new,
        old_parts.get("spec") or NOTHING,
        new_parts.get("spec") or NOTHING,
        old_parts.get("status"),
        new_parts.get("status"),
        shard_epoch,
    )


def label_of(obj: Obj | None, label: str) -> str:
    """The value of a label; empty where there is no object or no such label."""
    labels = obj["metadata"].get("labels") if obj else None
    return str(labels.get(label, "")) if labels else ""
