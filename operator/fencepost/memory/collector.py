"""Deletion and what follows from it: finalizers, and dependents that have lost their last owner.

Here it all happens in the same step. The garbage collector of a cluster comes to the same, but takes its time.
"""

from fencepost.memory.records import Record
from fencepost.memory.store import Collection, Store


def delete_object(store: Store, collection: Collection, record: Record, now: str) -> None:
    """Delete an object, or mark it as being deleted (at `now`, RFC 3339) while it has finalizers."""
    obj = record.object()
    metadata = obj["metadata"]
    if not metadata.get("finalizers"):
        remove_object(store, collection, record, now)
    elif "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = now
        metadata["deletionGracePeriodSeconds"] = 0
        if "generation" in metadata:
            metadata["generation"] += 1
        store.put(collection, obj)


def remove_object(store: Store, collection: Collection, record: Record, now: str) -> None:
    """Take an object out whatever its finalizers, then see to its dependents."""
    store.remove(collection, record)
    for dependents, dependent in store.dependents(record.uid):
        drop_dead_owners(store, dependents, dependent, now)


def drop_dead_owners(store: Store, collection: Collection, record: Record, now: str) -> None:
    """Delete an object all of whose owners are gone; of several owners forget those that are."""
    if collection.objects.get(record.key) is not record:
        return  # it fell with another owner a moment ago
    alive = [owner for owner in record.owners if store.alive(owner)]
    if not alive:
        delete_object(store, collection, record, now)
    elif len(alive) < len(record.owners):
        _keep_owners(store, collection, record, alive)


def orphan_dependents(store: Store, uid: str) -> None:
    """Let all objects that name this owner forget it."""
    for collection, record in store.dependents(uid):
        _keep_owners(store, collection, record, [owner for owner in record.owners if owner != uid])


def _keep_owners(store: Store, collection: Collection, record: Record, kept: list[str]) -> None:
    obj = record.object()
    references = [owner for owner in obj["metadata"]["ownerReferences"] if owner["uid"] in kept]
    if references:
        obj["metadata"]["ownerReferences"] = references
    else:
        del obj["metadata"]["ownerReferences"]
    store.put(collection, obj)
