"""Objects as the server keeps them: bytes, and beside them the few facts that it looks at without reading the bytes.

Whoever needs an object makes a new one from the bytes, so nobody can change what is stored, and history, pages and
watches share one record at no cost.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from fencepost.kube.protocol import EventType, Obj, WatchEvent


class ObjectKey(NamedTuple):
    """Where an object stands in its kind; sorts as a list does."""

    namespace: str
    """Empty for a kind that has none."""
    name: str


class Record(NamedTuple):
    """One object at one version."""

    key: ObjectKey
    uid: str
    version: int
    labels: Mapping[str, str]
    owners: tuple[str, ...]
    """UIDs."""
    data: bytes

    def object(self) -> Obj:
        """A copy that the caller owns."""
        parsed: Obj = orjson.loads(self.data)
        return parsed


def record_of(obj: Obj, version: int) -> Record:
    """The record of an object whose metadata are complete; puts the version into it."""
    metadata: dict[str, Any] = obj["metadata"]
    metadata["resourceVersion"] = str(version)
    return Record(
        key=ObjectKey(metadata.get("namespace", ""), metadata["name"]),
        uid=metadata["uid"],
        version=version,
        labels=dict(metadata.get("labels") or ()),
        owners=tuple(owner["uid"] for owner in metadata.get("ownerReferences") or ()),
        data=orjson.dumps(obj),
    )


class Change(NamedTuple):
    """One write as history keeps it."""

    version: int
    before: Record | None
    """None: it was created."""
    after: Record | None
    """None: it was deleted."""

    @property
    def record(self) -> Record:
        """The object after the write, or its last state."""
        record = self.after or self.before
        assert record is not None
        return record

    def event(self, type: EventType) -> WatchEvent:
        """The event as a watcher gets it: a deleted object carries the version of its deletion."""
        source = self.before if type is EventType.DELETED else self.after
        assert source is not None
        obj = source.object()
        obj["metadata"]["resourceVersion"] = str(self.version)
        return WatchEvent(type, obj)
