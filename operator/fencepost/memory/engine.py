"""The API server itself, with no waiting in it: a request goes in, an answer or an error comes out.

A request passes the same stations as in kube-apiserver, in the same order, so that it is refused with the same code:
rights (403), what the object is now (404, 409), the laws of the schema (422), the policies (403), and on a create last
of all whether the name is free (409).
"""

import hashlib
from collections.abc import Mapping

import orjson

from fencepost.api.names import LEASES, Kind
from fencepost.api.times import format_time
from fencepost.base.clock import Clock
from fencepost.core.names import NONCE_LENGTH, content_hash
from fencepost.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    ServerError,
)
from fencepost.kube.protocol import Obj, ObjectList
from fencepost.memory.collector import delete_object, drop_dead_owners, orphan_dependents, remove_object
from fencepost.memory.epochs import ShardEpochs
from fencepost.memory.identity import Identity
from fencepost.memory.laws import LAWS
from fencepost.memory.objects import (
    STATUS,
    WITH_STATUS_SUBRESOURCE,
    check_kind,
    check_name,
    complete_new,
    count_generation,
    merged,
)
from fencepost.memory.pages import Pages
from fencepost.memory.policies import DELETION_POLICIES, POLICIES
from fencepost.memory.records import ObjectKey, Record
from fencepost.memory.rights import check_right
from fencepost.memory.selectors import parse_selector
from fencepost.memory.store import Collection, Store
from fencepost.memory.watches import Watch
from fencepost.memory.writes import Law, Write, write_of

OBJECT_BYTES_MAX = 1536 * 1024
"""As the default limit of a request to etcd."""
GENERATED_BASE_LENGTH_MAX = 63 - NONCE_LENGTH
PROPAGATIONS = ("Background", "Orphan")


class Engine:
    """Requests in, answers out; `kube.protocol.Api` says what each does. Objects come in as the bytes of their JSON."""

    def __init__(self, clock: Clock, system_namespace: str, changes_max: int, salt: str = "") -> None:
        self._clock = clock
        self._salt = salt
        self._system_namespace = system_namespace
        self._store = Store(changes_max)
        self._epochs = ShardEpochs(self._store.collection(LEASES), system_namespace)
        self._pages = Pages()
        self._uids = 0
        self._names = 0
        self._now_second = -1
        self._now_text = ""

    @property
    def version(self) -> int:
        """The resourceVersion of the last write."""
        return self._store.version

    def get(self, identity: Identity, kind: Kind, namespace: str, name: str) -> Obj:
        self._check_right(identity, "get", kind, namespace, name)
        return _find(self._store.collection(kind), namespace, name).object()

    def list(
        self, identity: Identity, kind: Kind, namespace: str, selector: str, limit: int, continue_token: str
    ) -> ObjectList:
        self._check_right(identity, "list", kind, namespace)
        if continue_token:
            return self._pages.next(kind, continue_token, limit)
        records = self._store.collection(kind).sorted(namespace)
        if selector:
            matches = parse_selector(selector)
            records = [record for record in records if matches(record.labels)]
        return self._pages.first(records, self._store.version, limit)

    def subscribe(self, identity: Identity, kind: Kind, watch: Watch, resource_version: str) -> None:
        """Open a watch: it is offered all that has happened since, and all that will; `unsubscribe` closes it."""
        self._check_right(identity, "watch", kind, watch.namespace, watch.name)
        if not resource_version.isdecimal() or resource_version == "0":
            raise ServerError(f"watch {kind}: resourceVersion {resource_version!r} is none: give that of a list")
        self._store.collection(kind).history.subscribe(watch, int(resource_version))

    def unsubscribe(self, kind: Kind, watch: Watch) -> None:
        self._store.collection(kind).history.unsubscribe(watch)

    def create(self, identity: Identity, kind: Kind, content: bytes) -> Obj:
        new = _parse(kind, content)
        namespace = _namespace_of(kind, new)
        self._check_right(identity, "create", kind, namespace)
        if new["metadata"].get("resourceVersion"):
            raise ServerError("resourceVersion should not be set on objects to be created")
        collection = self._store.collection(kind)
        key = ObjectKey(namespace, self._name_of(collection, namespace, new))
        check_name(kind, key.name)
        complete_new(kind, new, uid=self._next_uid(), now=self._now())
        if kind in WITH_STATUS_SUBRESOURCE:
            new.pop("status", None)
        self._judge(write_of(identity, "create", kind, key, None, new, self._epochs.of))
        if key in collection.objects:
            raise AlreadyExistsError(f"{kind} {key.name!r} already exists", reason="AlreadyExists")
        return self._put(collection, new)

    def replace(self, identity: Identity, kind: Kind, content: bytes, subresource: str) -> Obj:
        sent = _parse(kind, content)
        key = ObjectKey(_namespace_of(kind, sent), sent["metadata"]["name"])
        self._check_right(identity, f"update/{subresource}" if subresource else "update", kind, key.namespace, key.name)
        if subresource and (subresource != STATUS or kind not in WITH_STATUS_SUBRESOURCE):
            raise NotFoundError(f"the server could not find the requested resource: {kind}/{subresource}")
        collection = self._store.collection(kind)
        record = _find(collection, *key)
        old = record.object()
        new = merged(kind, old, sent, subresource)
        self._judge(write_of(identity, "update", kind, key, old, new, self._epochs.of))
        if new == old:
            return old
        if "deletionTimestamp" in new["metadata"] and "finalizers" not in new["metadata"]:
            remove_object(self._store, collection, record, self._now())
            return new
        count_generation(kind, old, new, self._now())
        return self._put(collection, new)

    def delete(
        self,
        identity: Identity,
        kind: Kind,
        key: ObjectKey,
        preconditions: Mapping[str, str],
        propagation: str,
    ) -> None:
        self._check_right(identity, "delete", kind, *key)
        if propagation not in PROPAGATIONS:
            raise InvalidError(f"the server in memory knows propagation {PROPAGATIONS}, not {propagation!r}")
        collection = self._store.collection(kind)
        record = _find(collection, *key)
        actual = {"uid": record.uid, "resourceVersion": str(record.version)}
        for name, wanted in preconditions.items():
            if wanted and wanted != actual[name]:
                raise ConflictError(
                    f"delete {kind} {key.name!r}: its {name} is {actual[name]}, not {wanted}: read it again",
                    reason="Conflict",
                )
        self._judge(write_of(identity, "delete", kind, key, record.object(), None, self._epochs.of))
        if propagation == "Orphan":
            orphan_dependents(self._store, record.uid)
        delete_object(self._store, collection, record, self._now())

    def plant(self, kind: Kind, obj: Obj) -> None:
        planted = orjson.loads(orjson.dumps(obj))
        complete_new(kind, planted, uid=self._next_uid(), now=self._now())
        self._store.put(self._store.collection(kind), planted)

    def _next_uid(self) -> str:
        self._uids += 1
        if not self._salt:
            return f"{self._uids:08x}-0000-4000-8000-{self._uids:012x}"
        drawn = hashlib.blake2b(f"{self._salt}/{self._uids}".encode(), digest_size=11).hexdigest()
        return f"{self._uids:08x}-{drawn[:4]}-4{drawn[4:7]}-8{drawn[7:10]}-{drawn[10:]}"

    def _put(self, collection: Collection, obj: Obj) -> Obj:
        """The object as stored: it was made for this request, so that its sender may have it."""
        record = self._store.put(collection, obj)
        if record.owners:
            drop_dead_owners(self._store, collection, record, self._now())
        return obj

    def _name_of(self, collection: Collection, namespace: str, new: Obj) -> str:
        """The object's name; made from generateName and put into the object where it has none."""
        metadata = new["metadata"]
        if metadata.get("name"):
            return str(metadata["name"])
        base = metadata.get("generateName")
        if not base:
            raise InvalidError(f"{collection.kind}: metadata.name: name or generateName is required")
        while True:
            self._names += 1
            name = base[:GENERATED_BASE_LENGTH_MAX] + content_hash(f"{self._salt}{self._names}".encode())[:NONCE_LENGTH]
            if ObjectKey(namespace, name) not in collection.objects:
                metadata["name"] = name
                return str(name)

    def _judge(self, write: Write) -> None:
        deletion = write.new is None
        laws = () if deletion else LAWS.get(write.kind, ())
        policies = (DELETION_POLICIES if deletion else POLICIES).get(write.kind, ())
        if refusal := _refusal(laws, write):
            raise InvalidError(refusal, reason="Invalid")
        if self._policed(write) and (refusal := _refusal(policies, write)):
            raise ForbiddenError(refusal, reason="Forbidden")

    def _policed(self, write: Write) -> bool:
        return write.kind != LEASES or write.key.namespace == self._system_namespace

    def _check_right(self, identity: Identity, verb: str, kind: Kind, namespace: str, name: str = "") -> None:
        check_right(identity, verb, kind, namespace, name, self._system_namespace)

    def _now(self) -> str:
        second = int(self._clock.now_s())
        if second != self._now_second:
            self._now_second, self._now_text = second, format_time(second)
        return self._now_text


def _find(collection: Collection, namespace: str, name: str) -> Record:
    record = collection.objects.get(ObjectKey(namespace, name))
    if record is None:
        raise NotFoundError(f"{collection.kind} {name!r} not found", reason="NotFound")
    return record


def _refusal(laws: tuple[Law, ...], write: Write) -> str | None:
    """Why the first law that the write breaks refuses it."""
    try:
        for law in laws:
            if refusal := law(write):
                return f"{write.verb} {write.kind} {write.key.name!r}: {refusal}"
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        # A real server's schema would have refused it before any law is asked.
        raise InvalidError(f"{write.kind} {write.key.name!r} is garbled ({error!r})", reason="Invalid") from error
    return None


def _parse(kind: Kind, content: bytes) -> Obj:
    if len(content) > OBJECT_BYTES_MAX:
        raise InvalidError(f"the object has {len(content)} bytes, at most {OBJECT_BYTES_MAX} can be stored", status=413)
    obj: Obj = orjson.loads(content)
    check_kind(kind, obj)
    return obj


def _namespace_of(kind: Kind, obj: Obj) -> str:
    namespace = obj["metadata"].get("namespace") or ""
    assert bool(namespace) is kind.namespaced, f"a {kind.kind} has namespace {namespace!r}"
    return str(namespace)
