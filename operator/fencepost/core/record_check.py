"""Whether a run's record belongs to its definition.

Nobody but the operator writes records, and a definition never changes under its name. So a record that speaks of jobs
which the definition does not have was edited by hand, or restored from elsewhere. No plan can be made from it.
"""

from fencepost.core.fan_out import size_of
from fencepost.core.graph import Graph
from fencepost.core.run_state import RunState, TaskState

_NOTHING = TaskState()


def foreign_job(state: RunState, graph: Graph) -> str:
    """A job (or a task) of the record that the graph does not have; empty when there is none."""
    for name in state.tasks:
        if name not in graph.tasks:
            return name
    for jobs in (state.leases, state.waiting):
        for job in jobs:
            task = graph.tasks.get(job.task)
            if task is None or job.index >= size_of(task, state.tasks.get(job.task, _NOTHING)):
                return str(job)
    return ""
