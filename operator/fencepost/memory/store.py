"""All objects at their present versions, under one counter of versions, with the history of each kind.

As in etcd every write raises one version by one, whatever it writes. Nothing here knows of laws, identities or what
follows from a deletion.
"""

from fencepost.api.names import Kind
from fencepost.kube.protocol import Obj
from fencepost.memory.records import Change, ObjectKey, Record, record_of
from fencepost.memory.watches import KindHistory

VERSION_FIRST = 1000
"""Where versions begin: above 1, so that what is older than the server can be asked for, and is refused."""
CHANGES_MAX_DEFAULT = 10_000
"""Changes of one kind from which one can still watch."""


class Collection:
    """The objects of one kind."""

    def __init__(self, kind: Kind, changes_max: int) -> None:
        self.kind = kind
        self.objects: dict[ObjectKey, Record] = {}
        self.history = KindHistory(changes_max, VERSION_FIRST)

    def sorted(self, namespace: str = "") -> list[Record]:
        """All objects, or those in one namespace, in the order of a list."""
        return [self.objects[key] for key in sorted(self.objects) if not namespace or key.namespace == namespace]


class Store:
    """Collections by kind. Dictionaries stand in for sets, since their order is that of insertion."""

    def __init__(self, changes_max: int = CHANGES_MAX_DEFAULT) -> None:
        self.version = VERSION_FIRST
        """Of the last write."""
        self._changes_max = changes_max
        self._collections: dict[Kind, Collection] = {}
        self._alive: set[str] = set()
        """UIDs of all objects."""
        self._dependents: dict[str, dict[tuple[Collection, ObjectKey], None]] = {}
        """By the owner's UID."""

    def collection(self, kind: Kind) -> Collection:
        """The objects of this kind."""
        collection = self._collections.get(kind)
        if collection is None:
            collection = self._collections[kind] = Collection(kind, self._changes_max)
        return collection

    def alive(self, uid: str) -> bool:
        """Whether any object has this UID."""
        return uid in self._alive

    def dependents(self, uid: str) -> list[tuple[Collection, Record]]:
        """The objects that name this UID as an owner."""
        return [(collection, collection.objects[key]) for collection, key in self._dependents.get(uid, ())]

    def put(self, collection: Collection, obj: Obj) -> Record:
        """Store an object whose metadata are complete but for the version, and tell the watches."""
        self.version += 1
        record = record_of(obj, self.version)
        before = collection.objects.get(record.key)
        collection.objects[record.key] = record
        if before is None:
            self._alive.add(record.uid)
        elif before.owners != record.owners:
            self._forget_owners(collection, before)
        for owner in record.owners:
            self._dependents.setdefault(owner, {})[collection, record.key] = None
        collection.history.append(Change(self.version, before, record))
        return record

    def remove(self, collection: Collection, record: Record) -> None:
        """Take an object out, and tell the watches."""
        self.version += 1
        del collection.objects[record.key]
        self._alive.discard(record.uid)
        self._forget_owners(collection, record)
        collection.history.append(Change(self.version, record, None))

    def _forget_owners(self, collection: Collection, record: Record) -> None:
        for owner in record.owners:
            dependents = self._dependents[owner]
            del dependents[collection, record.key]
            if not dependents:
                del self._dependents[owner]
