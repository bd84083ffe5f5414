"""The epoch of each shard, as its Lease records it.

Every write of a run asks for one, and a Lease changes seldom: it is read once for each change of it.
"""

from fencepost.core.names import SHARDS_DEFAULT, shard_lease_name
from fencepost.memory.records import ObjectKey, Record
from fencepost.memory.store import Collection


class ShardEpochs:
    """Epochs by shard, out of the Leases in the system namespace."""

    def __init__(self, leases: Collection, system_namespace: str) -> None:
        self._leases = leases
        self._keys = {
            str(shard): ObjectKey(system_namespace, shard_lease_name(shard)) for shard in range(SHARDS_DEFAULT)
        }
        self._read: dict[str, tuple[Record, int]] = {}

    def of(self, shard: str) -> int | None:
        """The epoch of a shard; None where it has no Lease."""
        record = self._leases.objects.get(self._keys[shard])
        if record is None:
            return None
        read = self._read.get(shard)
        if read is None or read[0] is not record:
            read = self._read[shard] = (record, record.object()["spec"].get("leaseTransitions") or 0)
        return read[1]
