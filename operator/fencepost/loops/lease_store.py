"""The writes to the shards' own Leases: made when a shard changes hands, and at no other time.

Each is a compare-and-swap on the object that the decision was made on. A Lease is stored first with no holder and then
taken, so that an epoch is raised in one place only.

The Lease of shard 0 also says how many shards the cluster has. It is made before any other, so two replicas that start
with different numbers meet at its name, and one of them refuses.
"""

import asyncio
import logging

from fencepost.api.names import DAG_RUNS, LEASES, ROLE_LABEL, SHARD_LABEL, SHARDS_ANNOTATION
from fencepost.base.clock import Clock
from fencepost.core.names import shard_lease_name
from fencepost.kube.errors import AlreadyExistsError, NotFoundError
from fencepost.kube.protocol import Api, Obj
from fencepost.loops.lease_objects import ROLE_SHARD, over, shard_object, shards_recorded

log = logging.getLogger(__name__)

PAGE_SIZE = 500
WRITE_S_MAX = 5.0
"""How long an answer is waited for. A shard stands still while a step of ours for it is under way."""


class ShardCountError(Exception):
    """This replica was started for another number of shards than the cluster has."""


class LeaseStore:
    """The Leases of `shards` shards in one namespace. A write raises ApiError, or TimeoutError: then it may be done."""

    def __init__(self, api: Api, clock: Clock, namespace: str, shards: int) -> None:
        self._api = api
        self._clock = clock
        self._namespace = namespace
        self._shards = shards

    async def settle_count(self) -> None:
        """See that the cluster has as many shards as we; ShardCountError if not."""
        name = shard_lease_name(0)
        try:
            stored = await self._api.get(LEASES, self._namespace, name)
        except NotFoundError:
            await self.mend(0, None, epoch_floor=0)
            stored = await self._api.get(LEASES, self._namespace, name)
        recorded = shards_recorded(stored)
        if recorded != str(self._shards):
            raise ShardCountError(
                f"Lease {self._namespace}/{name} says that this cluster has {recorded or 'an unknown number of'} "
                f"shards (annotation {SHARDS_ANNOTATION}), but this replica was started for {self._shards}: "
                f"start it with the cluster's number, or set the annotation if it was lost"
            )

    async def mend(self, shard: int, stored: Obj | None, epoch_floor: int) -> int:
        """Store a Lease that nobody holds, at `epoch_floor` or the highest epoch in the shard's runs; its version.

        `stored` is the Lease that has lost its epoch; None: there seems to be none.
        """
        epoch = max(epoch_floor, await self._epoch_max(shard))
        wanted = shard_object(self._namespace, shard, self._shards, epoch)
        log.info("the Lease of shard %d is made, at epoch %d", shard, epoch, extra={"shard": shard, "epoch": epoch})
        if stored is not None:
            return await self._replace(stored, wanted)
        try:
            async with asyncio.timeout(WRITE_S_MAX):
                return _version(await self._api.create(LEASES, wanted))
        except AlreadyExistsError:
            return await self._relabel(wanted)

    async def acquire(self, shard: int, stored: Obj, identity: str, epoch: int) -> int:
        """Take the shard for this member under this epoch; the resourceVersion of that. ConflictError: too late."""
        wanted = shard_object(self._namespace, shard, self._shards, epoch, identity, self._clock.now_s())
        return await self._replace(stored, wanted)

    async def release(self, shard: int, stored: Obj, epoch: int) -> int:
        """Let the shard go; the resourceVersion of that. ConflictError: it was not ours any more."""
        wanted = shard_object(self._namespace, shard, self._shards, epoch)
        return await self._replace(stored, wanted)

    async def _replace(self, stored: Obj, wanted: Obj) -> int:
        async with asyncio.timeout(WRITE_S_MAX):
            return _version(await self._api.replace(LEASES, over(stored, wanted)))

    async def _relabel(self, wanted: Obj) -> int:
        """The Lease is there, but not in our watch: either news of it is on its way, or its label was taken off."""
        metadata = wanted["metadata"]
        stored = await self._api.get(LEASES, self._namespace, metadata["name"])
        if (stored["metadata"].get("labels") or {}).get(ROLE_LABEL) == ROLE_SHARD:
            return _version(stored)
        return await self._replace(stored, {"metadata": metadata, "spec": stored["spec"]})

    async def _epoch_max(self, shard: int) -> int:
        """The highest epoch stored in the shard's runs; 0 if there is none."""
        epoch, token = 0, ""
        while True:
            page = await self._api.list(
                DAG_RUNS, label_selector=f"{SHARD_LABEL}={shard}", limit=PAGE_SIZE, continue_token=token
            )
            epoch = max([epoch, *map(_epoch_of_run, page.items)])
            if not (token := page.continue_token):
                return epoch


def _epoch_of_run(run: Obj) -> int:
    epoch = (run.get("status") or {}).get("epoch")
    return epoch if isinstance(epoch, int) else 0


def _version(stored: Obj) -> int:
    return int(stored["metadata"]["resourceVersion"])
