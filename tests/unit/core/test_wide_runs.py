"""The widest fan-outs, with whatever is worst for the record: no stored object is larger than what was computed."""

from collections.abc import Callable
from random import Random

import pytest

from fencepost.core.definition import FAN_OUT_MAX, RUN_BYTES_MAX, Definition, Task
from fencepost.core.names import WORKER_NAME_LENGTH_MAX, JobKey
from fencepost.core.phases import JobPhase, RunPhase
from fencepost.core.placement import Grant
from fencepost.core.plan_run import Report, advance_run, lease_jobs
from fencepost.core.run_size import jobs_open_max, run_bytes_max
from fencepost.core.run_state import Outcome, RunState
from tests.unit.core.test_run_size import written
from tests.unit.support.builders import NOW_S, RUN, a_result, a_task, stored
from tests.unit.support.run_stage import RunStage

WORKER = "w" * WORKER_NAME_LENGTH_MAX
OUTPUT = "\x01" * 1024
"""Takes six bytes a character in JSON."""

Adversary = Callable[[JobKey, int], Outcome]
"""What the worker says of this attempt of a job."""


def alternating(job: JobKey, attempt: int) -> Outcome:
    """No two neighbours end alike."""
    return Outcome.FAILED if job.index % 2 else Outcome.SUCCEEDED


def at_random(job: JobKey, attempt: int) -> Outcome:
    """Drawn, the same at each attempt."""
    return Random(f"{job}").choice([Outcome.SUCCEEDED, Outcome.FAILED, Outcome.TIMED_OUT])


def all_retried(job: JobKey, attempt: int) -> Outcome:
    """Every job fails as often as it may, then every other one succeeds."""
    return Outcome.FAILED if attempt == 1 else alternating(job, attempt)


def carried_out(definition: Definition, adversary: Adversary, width: int) -> RunStage:
    """The run to its end, `width` jobs at most being answered at a time, those with the highest index first; each
    state that would be stored is held against the computed size."""
    run = RunStage(*definition.tasks)
    memory = run.state
    while not run.state.phase.finished:
        for job, lease in sorted(run.state.leases.items(), reverse=True)[:width]:
            result = a_result(lease.token, adversary(job, lease.attempt), -15, NOW_S, run.now_s, OUTPUT)
            run.reports.append(Report(lease.worker, job, result))
        plan = run.look()
        grants = [Grant(RUN, demand.task, WORKER) for demand in plan.demands for _ in range(demand.count)]
        state, _ = lease_jobs(plan, run.graph, grants, run.now_s)
        assert len(state.leases) + len(state.waiting) <= jobs_open_max(definition, {})
        assert written(definition, state) <= run_bytes_max(definition, {}) <= RUN_BYTES_MAX
        check_totals(state, definition)
        # whoever has planned all along decides the same as whoever reads what is stored
        straight = advance_run(memory, run.graph, definition, run.facts(), run.now_s)
        memory, _ = lease_jobs(straight, run.graph, grants, run.now_s)
        run.state, run.reports = stored(state), []
        assert stored(memory) == run.state
        run.now_s += 60
    return run


def check_totals(state: RunState, definition: Definition) -> None:
    """Every job is in one place."""
    ended = sum(task.ended_count for task in state.tasks.values())
    assert (state.done, state.total) == (ended, definition.size)
    assert ended + len(state.leases) + len(state.waiting) <= definition.size


@pytest.mark.parametrize(
    ("adversary", "width"),
    [(alternating, FAN_OUT_MAX), (at_random, 1_000), (all_retried, FAN_OUT_MAX)],
    ids=["alternating", "at random, some at a time", "all retried"],
)
def test_ten_thousand_jobs_end_within_the_computed_size_whatever_they_say(adversary: Adversary, width: int) -> None:
    task: Task = a_task("load", count=FAN_OUT_MAX, retries=1, queue_timeout_s=1e6)
    definition = Definition((task,))

    run = carried_out(definition, adversary, width)

    load = run.state.tasks["load"]
    succeeded = sum(adversary(JobKey("load", index), 2) is Outcome.SUCCEEDED for index in range(FAN_OUT_MAX))
    assert (load.count(JobPhase.SUCCEEDED), load.ended_count) == (succeeded, FAN_OUT_MAX)
    assert run.state.phase is RunPhase.FAILED
