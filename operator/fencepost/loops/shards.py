"""Which shards this replica plans for: led, and past the barrier.

Leading is not enough. After an acquisition the caches may lag behind what the leader before has stored, so a shard is
planned only once consistent lists, begun after the acquisition, are in the caches.

And leading goes on for a while when a shard is given up, for the requests that are under way. Whatever has not been
sent by then was planned, or will be, by a memory that has been forgotten: it is not sent.

A trust window can close and open again under the same epoch, as when the API server is away for some seconds. Whoever
asks meanwhile is told no and lets go of what it had in mind. So it is noted for which shards that has happened: when
they are trusted again, all that they own is to be looked at anew, as after a barrier.
"""

from collections.abc import Callable, Sequence

from fencepost.core.intents import Authority
from fencepost.core.names import DagKey, dag_of_revision, parse_mailbox_key, shard_of


class Shards:
    """The shards that are ready, each with the epoch it was acquired under."""

    def __init__(self, count: int, holds: Callable[[int], int | None]) -> None:
        """`holds` gives the epoch of a shard while its trust window is open, else None."""
        self.count = count
        self._holds = holds
        self._ready: dict[int, Authority] = {}
        self._opened_s: dict[int, float] = {}
        self._refused: set[int] = set()
        """Ready shards for which somebody was told no since they were last looked at."""

    def open(self, shard: int, epoch: int, steady_s: float) -> None:
        """The barrier has been passed under this epoch, and all that the shard owns is looked at now."""
        self._ready[shard] = Authority(shard, epoch)
        self._opened_s[shard] = steady_s
        self._refused.discard(shard)

    def close(self, shard: int) -> None:
        """The shard is another's from now on, or nobody's."""
        self._ready.pop(shard, None)
        self._refused.discard(shard)

    def is_open(self, shard: int) -> bool:
        """Whether the shard is this replica's, be its trust window open at this moment or not."""
        return shard in self._ready

    def authority(self, shard: int) -> Authority | None:
        """Under which to plan for a shard; None when it is not ours to plan for."""
        authority = self._ready.get(shard)
        return authority if authority is not None and self.leads(authority) else None

    def leads(self, authority: Authority) -> bool:
        """Whether a write may still be sent under this authority: not before the barrier, nor once the shard is given
        up, as what its runs hold and how many are under way is counted in between."""
        if self._ready.get(authority.shard) != authority:
            return False
        leads = self._holds(authority.shard) == authority.epoch
        if not leads:
            self._refused.add(authority.shard)
        return leads

    def opened_s(self, shard: int) -> float:
        """When a shard was opened, on the steady clock: since then at the latest its epoch stands in its Lease."""
        return self._opened_s[shard]

    def regained(self) -> frozenset[int]:
        """The shards that are trusted again after somebody was told no; each is told of once."""
        regained = frozenset(shard for shard in self._refused if self._holds(shard) == self._ready[shard].epoch)
        self._refused -= regained
        return regained

    def of_entry(self, key: str, revision: str) -> int:
        """The shard that owns a mailbox entry: its revision's name begins with the DAG's. ValueError for a bad key."""
        namespace = parse_mailbox_key(key).run.namespace
        return shard_of(DagKey(namespace, dag_of_revision(revision)), self.count)

    def ready(self) -> Sequence[int]:
        """The shards that are ready."""
        return tuple(self._ready)
