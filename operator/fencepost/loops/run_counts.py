"""What a write of a run adds to the metrics: how its jobs and the run itself have moved on."""

from fencepost.core.phases import JobPhase, RunPhase
from fencepost.core.run_state import RunState
from fencepost.loops.world import World
from fencepost.observe.runs import RunView


def count(world: World, view: RunView, before: RunState, after: RunState) -> None:
    """A run's state has been stored in the place of another."""
    metrics = world.metrics
    leased = sum(lease.token == after.lease_counter for lease in after.leases.values())
    if after.lease_counter > before.lease_counter:
        metrics.jobs_leased(leased)
    if before.phase is RunPhase.PENDING and after.phase is RunPhase.RUNNING and view.spec is not None:
        due_s = view.created_s if view.in_background else view.spec.scheduled_s or view.created_s
        metrics.start_lag(str(view.spec.trigger), world.clock.now_s() - due_s)
    ended_before = _ended(before)
    for phase, number in _ended(after).items():
        if (more := number - ended_before.get(phase, 0)) > 0:
            metrics.jobs_ended(str(phase), more)
    if after.phase.finished and not before.phase.finished:
        metrics.run_finished(str(after.phase))


def _ended(state: RunState) -> dict[JobPhase, int]:
    """How many jobs ended in each phase."""
    ended: dict[JobPhase, int] = {}
    for task in state.tasks.values():
        for phase, indices in task.ended.items():
            ended[phase] = ended.get(phase, 0) + len(indices)
    return ended
