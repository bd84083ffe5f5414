"""What this replica remembers of every DAG that it leads: one memory for each, under one epoch.

A memory is read from the cache when it is first wanted, and once more from the API server before anything is decided or
written by it: the cached mark may be older than what the leader before has stored.
"""

from collections.abc import Callable

from fencepost.apply.writers import Next
from fencepost.core.intents import Authority
from fencepost.core.names import DagKey
from fencepost.core.plan_dag import Fate, untold_between
from fencepost.loops.dag_memory import DagMemory
from fencepost.loops.world import World
from fencepost.observe.dags import DagView


class DagMemories:
    """Of all DAGs of the shards that this replica plans for."""

    def __init__(
        self, world: World, touch_status: Callable[[DagKey], None], dropped: Callable[[DagKey, DagMemory], None]
    ) -> None:
        """`dropped` is told of each memory that is good no longer."""
        self._world = world
        self._touch_status = touch_status
        self._dropped = dropped
        self._memories: dict[DagKey, DagMemory] = {}

    def get(self, key: DagKey) -> DagMemory | None:
        """What is remembered so far, whoever leads by now."""
        return self._memories.get(key)

    def __contains__(self, key: DagKey) -> bool:
        return key in self._memories

    def led(self, key: DagKey) -> DagMemory | None:
        """What the leader of this DAG knows of it; None where that is somebody else, or the DAG is gone."""
        view = self._world.dags.get(key)
        authority = self._world.shards.authority(view.shard) if view is not None else None
        return self.of(view, authority) if view is not None and authority is not None else None

    def of(self, view: DagView, authority: Authority) -> DagMemory:
        """What is known of a DAG under this authority; read from the cache if nothing is yet."""
        memory = self._memories.get(view.key)
        if memory is None or memory.authority != authority or memory.uid != view.uid:
            self.drop(view.key)
            memory = self._memories[view.key] = self._recall(view, authority)
        return memory

    async def read_live(self, key: DagKey, memory: DagMemory) -> Next:
        """Before the first decision or write under this epoch: mark and counters as stored, not as a cache has them."""
        if not await self._world.refresh_dag(key):
            return Next.RETRY
        if self._memories.get(key) is not memory:
            return Next.AGAIN
        view = self._world.dags.get(key)
        if view is None or view.uid != memory.uid:
            return Next.REST
        self._memories[key] = live = self._recall(view, memory.authority)
        live.follow(view, self._world.clock.now_s())
        live.keep_letters(memory)
        live.live = True
        return Next.AGAIN

    def drop(self, key: DagKey) -> None:
        """The DAG is gone, or is another one, or is led under another epoch."""
        memory = self._memories.pop(key, None)
        if memory is not None:
            self._dropped(key, memory)

    def release(self, shard: int) -> None:
        """The shard is no longer ours: forget what only a leader may believe."""
        for key in [key for key, memory in self._memories.items() if memory.authority.shard == shard]:
            self.drop(key)

    def _recall(self, view: DagView, authority: Authority) -> DagMemory:
        """What is stored of a DAG's schedule, and what the leader before has not come to store."""
        memory = DagMemory.read(view, authority)
        if not memory.schedule_hash and view.generation == 1:
            memory.follow(view, self._world.clock.now_s())  # never edited: so the leader before has seen it, if one has
        # Runs are created oldest slot first: where one exists, every slot up to it has had its fate.
        runs = [(memory.slot_of(run), run) for run in self._world.runs.of_dag(view.key)]
        untold = sorted((slot_s, run.key.name, run.created_s) for slot_s, run in runs if slot_s > memory.stored_mark_s)
        told_s = max(memory.stored_mark_s, memory.schedule_seen_s)
        for slot_s, name, created_s in untold:
            if view.checked is not None and view.schedule_hash == memory.schedule_hash:
                memory.missed(untold_between(view.checked.schedule, told_s, slot_s))
            told_s = slot_s
            memory.told_of(slot_s, name, Fate.of_run(slot_s, created_s))
        if untold:
            self._touch_status(view.key)
        return memory
