"""Which shards this replica plans for: led, and past the barrier.

Leading is not enough. After an acquisition the caches may lag behind what the leader before has stored, so a shard is
planned only once consistent lists, begun after the acquisition, are in the caches.
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
        self._ready: dict[int, int] = {}

    def open(self, shard: int, epoch: int) -> None:
        """The barrier has been passed under this epoch."""
        self._ready[shard] = epoch

    def close(self, shard: int) -> None:
        """The shard is another's from now on, or nobody's."""
        self._ready.pop(shard, None)

    def authority(self, shard: int) -> Authority | None:
        """Under which to plan for a shard; None when it is not ours to plan for."""
        epoch = self._ready.get(shard)
        return Authority(shard, epoch) if epoch is not None and self._holds(shard) == epoch else None

    def leads(self, authority: Authority) -> bool:
        """Whether a write may still be sent under this authority."""
        return self._holds(authority.shard) == authority.epoch

    def of_entry(self, key: str, revision: str) -> int:
        """The shard that owns a mailbox entry: its revision's name begins with the DAG's. ValueError for a bad key."""
        namespace = parse_mailbox_key(key).run.namespace
        return shard_of(DagKey(namespace, dag_of_revision(revision)), self.count)

    def ready(self) -> Sequence[int]:
        """The shards that are ready."""
        return tuple(self._ready)
