"""What people are told of a run beside its record: one Event for each thing that wants their eye."""

from fencepost.core.intents import Announce
from fencepost.core.marks import vain_marks
from fencepost.core.names import RunKey
from fencepost.core.phases import RunPhase
from fencepost.core.run_state import RunState
from fencepost.loops.definitions import Compiled
from fencepost.loops.world import World
from fencepost.observe.runs import RunView

VAIN_MARKS_TOLD_MAX = 5
"""How many marks that nothing can come of an Event names."""


class RunNews:
    """Of all runs that this replica plans for."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._vain: dict[RunKey, list[str]] = {}
        """Marks of jobs that a run does not have, of which people have been told."""

    async def tell_vain_marks(self, view: RunView, state: RunState, compiled: Compiled) -> None:
        """One Event for marks of jobs that the run does not have: nothing comes of them."""
        assert view.spec is not None
        assert view.record is not None
        vain = vain_marks(state, compiled.graph, view.spec.marks)
        if vain == self._vain.get(view.key, []):
            return
        self._vain[view.key] = vain
        if vain:
            jobs = ", ".join(vain[:VAIN_MARKS_TOLD_MAX])
            fact = f"spec.overrides marks {jobs}, which run {view.key} does not have, so nothing comes of it"
            await self._world.executor.execute(Announce(view.record, "UnknownJob", f"{fact}; correct the name"))

    async def tell_end(self, view: RunView, state: RunState) -> None:
        """One Event for a run that ended badly; its jobs are described in the run itself."""
        if state.phase in (RunPhase.FAILED, RunPhase.CANCELLED) and view.record is not None:
            await self._world.executor.execute(Announce(view.record, state.reason, state.message or state.reason))

    def leave(self, key: RunKey) -> None:
        """The run is over, gone, or another replica's."""
        self._vain.pop(key, None)
