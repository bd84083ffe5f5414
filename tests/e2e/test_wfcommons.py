"""Real workflow graphs, all at once on twelve slots: every edge is kept, by the jobs' own clock and by the record."""

import pytest

from fencepost.core.phases import JobPhase
from tests.e2e.support.ledger import Ledger
from tests.e2e.support.stage import Stage
from tests.e2e.support.wfcommons import Workflow, load

WORKFLOWS = {
    "chain": "helloworld-chain-5-chameleon",
    "forkjoin": "helloworld-forkjoin-10-chameleon",
    "epigenomics": "epigenomics-chameleon-hep-1seq-100k-001",
    "genome": "1000genome-chameleon-2ch-100k-001",
    "srasearch": "srasearch-chameleon-30a-001",
    "cycles": "cycles-chameleon-1l-1c-9p-001",
    "seismology": "seismology-chameleon-100p-001",
    "montage": "montage-chameleon-2mass-01d-001",
    "airrflow": "airrflow-dirt02-001",
}
RUN_LIMIT_S = 120.0
ROUNDING_S = 0.002
"""The record keeps milliseconds."""


@pytest.fixture(scope="module")
def runs(stage: Stage) -> dict[str, str]:
    """A run of each workflow; all are started before any is waited for."""
    return {
        name: stage.launch(load(stem).dag(f"wf-{name}", ledger_of(stage, name))) for name, stem in WORKFLOWS.items()
    }


def ledger_of(stage: Stage, name: str) -> Ledger:
    return stage.ledger(f"wf-{name}")


def violations(workflow: Workflow, starts: dict[str, float], ends: dict[str, float], slack_s: float = 0.0) -> list[str]:
    """The edges whose child has begun before its parent had ended."""
    return [f"{parent} -> {child}" for parent, child in workflow.edges if starts[child] < ends[parent] - slack_s]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_real_workflow_keeps_every_edge_and_runs_each_job_once(stage: Stage, runs: dict[str, str], name: str) -> None:
    workflow, ledger = load(WORKFLOWS[name]), ledger_of(stage, name)
    stage.wait_for_phase(runs[name], "Succeeded", limit_s=RUN_LIMIT_S)
    state = stage.state(runs[name])

    starts, ends = ({line.task: line.at_s for line in ledger.lines(what)} for what in ("start", "end"))
    assert starts.keys() == ends.keys() == workflow.tasks.keys()
    assert not ledger.repeated()
    assert violations(workflow, starts, ends) == []
    assert state.tasks.keys() == workflow.tasks.keys()
    assert all(task.count(JobPhase.SUCCEEDED) == 1 for task in state.tasks.values())
    recorded = {name: (task.first_start_s or 0.0, task.last_end_s or 0.0) for name, task in state.tasks.items()}
    recorded_starts, recorded_ends = ({name: times[place] for name, times in recorded.items()} for place in (0, 1))
    assert violations(workflow, recorded_starts, recorded_ends, ROUNDING_S) == []
    assert all(
        recorded_starts[task] <= starts[task] + ROUNDING_S and ends[task] <= recorded_ends[task] + ROUNDING_S
        for task in starts
    )
