"""Ghosts: scheduled runs of slots long decided, created by a leader long deposed. They are deleted, never planned."""

import logging

from fencepost.apply.executor import Answer
from fencepost.apply.writers import Next
from fencepost.core.intents import DeleteRun
from fencepost.core.run_state import Trigger
from fencepost.loops.dag_memory import DagMemory
from fencepost.loops.world import World
from fencepost.observe.runs import RunView

log = logging.getLogger(__name__)

GHOST = "is of a slot long decided: deleting it"
"""What is wrong with a run that should never have been: nobody plans it, however long its deletion takes."""


class Ghosts:
    """Finds them and sees them off."""

    def __init__(self, world: World) -> None:
        self._world = world

    def look(self, view: RunView, old: RunView | None, memory: DagMemory | None) -> None:
        """A run has appeared, or has changed."""
        if (old is None or old.problem == GHOST) and self._is_one(view, memory):
            view.problem = GHOST
            log.warning("run %s %s", view.key, GHOST, extra={"run": str(view.key)})
            self._world.writers.touch(("ghost", view.key, view.uid), lambda: self._exorcise(view), urgent=True)

    def _is_one(self, view: RunView, memory: DagMemory | None) -> bool:
        """A scheduled run that no leader of now has created, of a slot that it has fired or that lies below the mark: a
        late write of a deposed one. One at the mark itself, if it is not known who fired that, is kept: the write that
        moved the mark may have told of it."""
        if (
            memory is None
            or view.spec is None
            or view.spec.trigger is not Trigger.SCHEDULE
            or view.spec.round  # of a late write nobody has asked for more
            or view.key in memory.creating
            or view.finished
        ):
            return False
        fired_uid = memory.fired.get(view.spec.scheduled_s)
        return view.spec.scheduled_s < memory.mark_s if fired_uid is None else view.uid != fired_uid

    async def _exorcise(self, view: RunView) -> Next:
        authority = self._world.shards.authority(view.shard)
        if authority is None:
            return Next.REST
        written = await self._world.executor.execute(DeleteRun(authority, view.key, view.uid))
        return Next.REST if written.answer in (Answer.DONE, Answer.GONE, Answer.CONFLICT) else Next.RETRY
