"""What people see of a pool: workers, slots, how many are busy, how many jobs wait.

Written by whoever leads shard 0, as every replica sees the same workers; `queued` is that replica's part of the queue.
Numbers that change all the time are worth a write every few seconds and no more.
"""

from fencepost.api import names as wire
from fencepost.apply.executor import Answer
from fencepost.apply.writers import Next
from fencepost.core.intents import WritePoolStatus
from fencepost.kube.errors import ApiError, NotFoundError
from fencepost.kube.protocol import Obj
from fencepost.loops.pool_desk import PoolDesk
from fencepost.loops.world import World
from fencepost.observe.reflector import version_of

PERIOD_S = 5.0
LEADING_SHARD = 0


class PoolStatus:
    """The status of every pool."""

    def __init__(self, world: World, desk: PoolDesk) -> None:
        self._world = world
        self._desk = desk
        self._records: dict[str, Obj] = {}

    def follow(self, pool: Obj) -> None:
        """A pool's object, from whoever has seen it last."""
        name = pool["metadata"]["name"]
        known = self._records.get(name)
        if known is None or version_of(pool) > version_of(known):
            self._records[name] = pool
        self.touch(name)

    def take_up(self) -> None:
        """Whoever has written the statuses before may not have come to write the last changes."""
        for name in self._records:
            self.touch(name)

    def forget(self, name: str) -> None:
        """The pool is gone."""
        self._records.pop(name, None)

    def touch(self, name: str) -> None:
        """The pool's numbers may have changed. Whether they are ours to tell is asked when they are to be written."""
        self._world.writers.touch(("pool-status", name), lambda: self._turn(name), after_s=PERIOD_S)

    async def _turn(self, name: str) -> Next:
        record, pool = self._records.get(name), self._desk.get(name)
        if record is None or pool is None or self._world.shards.authority(LEADING_SHARD) is None:
            return Next.REST
        status = {
            "workers": len(pool.slots),
            "slots": pool.slots.live,
            "reserved": pool.slots.reserved,
            "busy": pool.slots.live - pool.slots.free,
            "free": pool.slots.open,
            "queued": pool.waiting(),
        }
        if {key: record.get("status", {}).get(key) for key in status} == status:
            return Next.REST
        written = await self._world.executor.execute(WritePoolStatus(record, record.get("status", {}) | status))
        if written.object is not None:
            self._records[name] = written.object
        elif written.answer is Answer.CONFLICT:
            return await self._read_again(name)
        return Next.REST

    async def _read_again(self, name: str) -> Next:
        try:
            self._records[name] = await self._world.api.get(wire.WORKER_POOLS, None, name)
        except NotFoundError:
            self.forget(name)
            return Next.REST
        except ApiError:
            return Next.RETRY
        return Next.AGAIN
