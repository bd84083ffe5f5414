"""All Leases of shards and members as the API server tells of them, in one stream.

Both sorts come through one watch, and that is what makes an absence mean something: a member Lease is created before
its owner takes a shard, so whoever sees a shard held by a member that is not there knows that the member is gone, and
not that its news is late. For the same reason nothing but this stream may change what is kept here.

`version` says how far the stream has come. Resource versions of one kind compare as integers (Kubernetes promises it
since 1.35, and has kept it before), so our own write at a version has come back to us once `version` has reached it.

A connection that is half open looks like silence. Our own renewals come back through the watch, so a silence of a whole
lease duration cannot be: then we list again. Not promised: every state in between; a list skips some.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from fencepost.api.names import LEASES
from fencepost.base.clock import Clock
from fencepost.core.lease import LeaseTimes, MemberRecord, ShardRecord
from fencepost.kube.errors import ApiError
from fencepost.kube.protocol import Api, EventType, Obj, ObjectList
from fencepost.loops.lease_objects import (
    SELECTOR,
    counts_as_gone,
    member_of_lease,
    member_record,
    shard_of_lease,
    shard_record,
)

log = logging.getLogger(__name__)

RETRY_S = 0.5


@dataclass(frozen=True, slots=True)
class SeenMember:
    """A member Lease."""

    record: MemberRecord
    uid: str
    seen_s: float
    """On our steady clock: when we first saw it at this version."""


@dataclass(frozen=True, slots=True)
class SeenShard:
    """A shard's Lease."""

    record: ShardRecord
    obj: Obj
    """As stored, to compare and swap on."""


class LeaseWatch:
    """What is known of other replicas and of the shards; `on_change` is called after each change but a mere renewal."""

    def __init__(
        self, api: Api, clock: Clock, times: LeaseTimes, namespace: str, on_change: Callable[[], None]
    ) -> None:
        self._api = api
        self._clock = clock
        self._silence_max_s = times.duration_s
        self._namespace = namespace
        self._on_change = on_change
        self.version = 0
        """Everything up to this resource version is in here; 0: nothing has been listed yet."""
        self.members: dict[str, SeenMember] = {}
        """By identity."""
        self.shards: dict[int, SeenShard] = {}
        self.epochs: dict[int, int] = {}
        """The highest epoch ever seen of each shard, also when its Lease has gone since."""

    async def run(self) -> None:
        """List, watch, and list again when the watch ends; until cancelled."""
        while True:
            try:
                await self._list_and_watch()
            except (ApiError, TimeoutError) as error:
                log.warning("Leases in %s cannot be watched, trying again: %r", self._namespace, error)
            await self._clock.sleep(RETRY_S)

    async def _list_and_watch(self) -> None:
        async with asyncio.timeout(self._silence_max_s):
            listed = await self._api.list(LEASES, self._namespace, label_selector=SELECTOR)
        self._take_list(listed)
        watch = self._api.watch(
            LEASES, self._namespace, label_selector=SELECTOR, resource_version=listed.resource_version
        )
        clock = asyncio.get_running_loop()
        async with aclosing(watch) as events, asyncio.timeout(self._silence_max_s) as silence:
            async for event in events:
                silence.reschedule(clock.time() + self._silence_max_s)
                self.version = max(self.version, int(event.object["metadata"]["resourceVersion"]))
                if event.type is not EventType.BOOKMARK and self._take(
                    event.object, gone=event.type is EventType.DELETED
                ):
                    self._on_change()

    def _take_list(self, listed: ObjectList) -> None:
        members = {member_of_lease(obj) for obj in listed.items}
        shards = {shard_of_lease(obj) for obj in listed.items}
        self.members = {identity: seen for identity, seen in self.members.items() if identity in members}
        self.shards = {shard: seen for shard, seen in self.shards.items() if shard in shards}
        for obj in listed.items:
            self._take(obj, gone=False)
        self.version = max(self.version, int(listed.resource_version))
        self._on_change()

    def _take(self, obj: Obj, *, gone: bool) -> bool:
        """Whether it tells more than that a member is still there."""
        if (shard := shard_of_lease(obj)) is not None:
            self._take_shard(shard, obj, gone=gone)
        elif (identity := member_of_lease(obj)) is not None:
            return self._take_member(identity, obj, gone=gone or counts_as_gone(obj))
        return True

    def _take_shard(self, shard: int, obj: Obj, *, gone: bool) -> None:
        if gone:
            self.shards.pop(shard, None)
            return
        record = shard_record(obj)
        self.shards[shard] = SeenShard(record, obj)
        self.epochs[shard] = max(self.epochs.get(shard, 0), record.epoch or 0)

    def _take_member(self, identity: str, obj: Obj, *, gone: bool) -> bool:
        if gone:
            self.members.pop(identity, None)
            return True
        record, uid = member_record(obj), str(obj["metadata"]["uid"])
        before = self.members.get(identity)
        if before is None or before.record.version != record.version:
            self.members[identity] = SeenMember(record, uid, self._clock.steady_s())
        return before is None or before.uid != uid or told(before.record) != told(record)


def told(record: MemberRecord) -> tuple[float, bool]:
    """What a member says that another replica acts on at once. A renewal puts the moment off at which its silence
    counts, and what waits there is looked up when a slot is free: for either nobody needs to be woken."""
    return record.duration_s, record.clock_right
