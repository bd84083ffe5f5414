"""Promises about who leads."""

from collections import Counter
from collections.abc import Iterator

from fencepost.api.names import DAG_RUNS, LEASES, SHARD_LABEL
from tests.unit.sim.checker import Checker
from tests.unit.sim.history import Stored, Written
from tests.unit.sim.scene import Scene


def shard_of_lease(lease: Stored) -> str:
    """The number of the shard whose Lease it is; empty if it is none."""
    shard = lease.labels.get(SHARD_LABEL, "")
    return shard if shard and "leaseTransitions" in lease.spec else ""


class EpochsGrow(Checker):
    promise = "every holder of a shard has a higher epoch than the one before"
    kinds = (LEASES,)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._epochs: dict[str, int] = {}

    def see(self, written: Written) -> Iterator[str]:
        lease, old = written.after, written.before
        if lease is None:
            if old is not None and shard_of_lease(old):
                yield f"the Lease of shard {shard_of_lease(old)} is deleted"
            return
        shard = shard_of_lease(lease)
        if not shard:
            return
        epoch, last = lease.spec["leaseTransitions"], self._epochs.get(shard, -1)
        if epoch < last:
            yield f"the epoch of shard {shard} falls from {last} to {epoch}"
        holder, held = lease.spec.get("holderIdentity"), old.spec.get("holderIdentity") if old else None
        if holder and holder != held:
            self.scene.coverage["shard acquired"] += 1
            if epoch <= last:
                yield f"{holder} takes shard {shard} after {held} under the same epoch {epoch}"
        self._epochs[shard] = epoch


class DeposedChangeNothing(Checker):
    """A run's status is written by whoever has acquired the epoch that the shard's Lease shows, and by nobody else."""

    promise = "no write of a replica that lost its shard lands"
    kinds = (DAG_RUNS, LEASES)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._acquired_by: dict[tuple[str, int], str] = {}
        """By shard and epoch: the machine."""
        self._epoch: dict[str, int] = {}

    def see(self, written: Written) -> Iterator[str]:
        after = written.after
        if after is None:
            return
        if written.kind is LEASES:
            shard = shard_of_lease(after)
            old = written.before.spec if written.before is not None else {}
            if shard:
                self._epoch[shard] = after.spec["leaseTransitions"]
                if after.spec.get("holderIdentity") and after.spec.get("holderIdentity") != old.get("holderIdentity"):
                    self._acquired_by[shard, after.spec["leaseTransitions"]] = written.sender
            return
        if not written.status_changed or written.sender == "user":
            return
        shard, epoch = after.labels[SHARD_LABEL], after.status["epoch"]
        if epoch != self._epoch.get(shard):
            yield f"{written.sender} writes {after.name} under epoch {epoch}, shard {shard} is at {self._epoch[shard]}"
        elif self._acquired_by.get((shard, epoch)) not in (None, written.sender):
            by = self._acquired_by[shard, epoch]
            yield f"{written.sender} writes {after.name} under epoch {epoch} of shard {shard}, which {by} has acquired"


class WindowsDoNotOverlap(Checker):
    """The one promise that no write tells of: asked of the replicas themselves.

    Clocks that stood still with their machine are beyond it, as nobody could tell; then the fences alone have to do.
    """

    promise = "no two replicas may act for one shard at a time"
    kinds = (DAG_RUNS, LEASES)

    def see(self, written: Written) -> Iterator[str]:
        shard = written.now.labels.get(SHARD_LABEL)
        if shard is not None:
            yield from self._ask(int(shard))

    def look(self) -> Iterator[str]:
        led = Counter(shard for replica in self.scene.replicas.values() for shard in replica.held)
        for shard, count in led.items():
            if count > 1:
                yield from self._ask(shard)

    def _ask(self, shard: int) -> Iterator[str]:
        leaders = [replica for replica in self.scene.leads(shard) if not replica.machine.clock_stopped]
        if len(leaders) > 1:
            yield f"shard {shard}: {[(leader.name, leader.holds(shard)) for leader in leaders]}"


LEADER_CHECKERS = (EpochsGrow, DeposedChangeNothing, WindowsDoNotOverlap)
