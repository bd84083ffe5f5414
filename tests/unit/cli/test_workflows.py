"""Workflows that were really run somewhere, as DAGs on this machine: no task begins before its parents have ended."""

import json
from pathlib import Path

import pytest

from fencepost.cli import app
from tests.e2e.support.wfcommons import SHARE, load
from tests.unit.cli.files import dag, task, write

DURATION_MAX_S = 0.05


@pytest.mark.parametrize("name", ["helloworld-forkjoin-10-chameleon", "epigenomics-chameleon-hep-1seq-100k-001"])
def test_every_edge_of_a_workflow_is_kept(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workflow = load(name)
    tasks = [
        task(each, f"sleep {min(DURATION_MAX_S, seconds * SHARE)}", *parents)
        for each, (parents, seconds) in workflow.tasks.items()
    ]
    file = write(tmp_path / "dag.yaml", dag("workflow", *tasks))
    assert app.main(["run", file, "--output", "json", "--slots", "8"]) == 0
    jobs = {job["task"]: job for job in json.loads(capsys.readouterr().out)["jobs"]}
    assert jobs.keys() == workflow.tasks.keys()
    assert len(workflow.edges) >= len(jobs) - 1
    wrong = [(a, b) for a, b in workflow.edges if jobs[a]["finishTime"] > jobs[b]["startTime"]]
    assert wrong == []
