"""A record that speaks of jobs which its definition does not have."""

import pytest

from fencepost.core.names import JobKey
from fencepost.core.record_check import foreign_job
from fencepost.core.run_state import Lease, RunState, TaskState, Waiting
from tests.unit.support.builders import a_graph, a_task

GRAPH = a_graph(a_task("load", count=3), a_task("report", "load"))
LEASE = Lease(1, "w1", 1, 0, 0.0)


@pytest.mark.parametrize(
    ("state", "want"),
    [
        (RunState(), ""),
        (RunState(leases={JobKey("load", 2): LEASE}, tasks={"report": TaskState()}), ""),
        (RunState(leases={JobKey("load", 3): LEASE}), "load/3"),
        (RunState(leases={JobKey("ghost", 0): LEASE}), "ghost/0"),
        (RunState(waiting={JobKey("report", 1): Waiting(2, 0, 0.0)}), "report/1"),
        (RunState(tasks={"ghost": TaskState()}), "ghost"),
    ],
    ids=["empty", "its own", "an index too high", "leased", "waiting", "ended"],
)
def test_a_job_that_the_definition_does_not_have_is_named(state: RunState, want: str) -> None:
    assert foreign_job(state, GRAPH) == want
