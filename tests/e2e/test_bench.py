"""The bench in its short form: what a job writes is exact on any machine, so a job that has grown dearer shows."""

import json
import subprocess
import sys

import pytest

from tests.e2e.controlplane.paths import REPOSITORY

RATE = 20
DURATION_S = 5
JOBS = RATE * DURATION_S


def bench(shape: str, limit_s: float = 280) -> dict[str, object]:
    command = [
        sys.executable,
        "-m",
        "tests.e2e.bench",
        f"--shape={shape}",
        f"--rate={RATE}",
        f"--duration={DURATION_S}",
    ]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=limit_s, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    line: dict[str, object] = json.loads(done.stdout)
    return line


def test_a_run_of_one_job_is_written_twice_and_costs_no_more_writes_than_its_budget() -> None:
    line = bench("single")
    writes = line["api_writes"]
    assert isinstance(writes, dict)
    assert (line["jobs"], line["failed_runs"]) == (JOBS, 0)
    assert writes["POST dagruns"] == JOBS
    assert writes["DELETE dagruns"] == JOBS
    assert 2 * JOBS <= writes["PUT dagruns"] <= 2.1 * JOBS, "leased and folded; a few may wait or lose a race"
    assert writes["PUT workers"] <= 2 * JOBS, "delivered and taken away at most once each"
    assert writes["PUT workers/status"] <= 1.1 * JOBS, "one result each"
    per_job = line["api_writes_per_job"]
    assert isinstance(per_job, float)
    assert per_job <= 8, "the budget of a run on an idle cluster"


@pytest.mark.timeout(1000)
def test_the_widest_fan_out_runs_to_its_end_at_less_than_a_write_a_job() -> None:
    line = bench("wide", limit_s=960)
    print(json.dumps(line))
    assert (line["jobs"], line["failed_runs"]) == (10_000, 0)
    per_job = line["api_writes_per_job"]
    assert isinstance(per_job, float)
    assert per_job <= 1, "the budget of a fan-out of a thousand jobs and more"
