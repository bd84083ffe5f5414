"""When a fan-out has succeeded, when it no longer can, and what becomes of the rest of it."""

from typing import Any

import pytest

from fencepost.core.definition import SuccessThreshold
from fencepost.core.phases import JobPhase, RunPhase
from fencepost.core.plan_run import Report
from fencepost.core.run_state import Outcome
from fencepost.core.thresholds import successes_wanted, threshold_problems
from tests.unit.support.builders import a_definition, a_job, a_result, a_task
from tests.unit.support.run_stage import RunStage

QUEUED, RUNNING = JobPhase.QUEUED, JobPhase.RUNNING
SUCCEEDED, FAILED, SKIPPED, CANCELLED = JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.SKIPPED, JobPhase.CANCELLED
SHARDS = [f"load/{index}" for index in range(4)]


def a_fan_out(threshold: SuccessThreshold | None = None, **more: Any) -> RunStage:
    """Four jobs, and one that depends on them; all four are with workers."""
    run = RunStage(a_task("load", count=4, success_threshold=threshold, **more), a_task("report", "load"))
    run.plan_all()
    return run


def end(run: RunStage, *outcomes: Outcome) -> None:
    for index, outcome in enumerate(outcomes):
        run.says(f"load/{index}", outcome, 1 if outcome is Outcome.FAILED else None)
    run.plan()


# The threshold.


@pytest.mark.parametrize(
    ("threshold", "size", "want"),
    [
        (None, 7, 7),
        (SuccessThreshold(3), 7, 3),
        (SuccessThreshold(0), 7, 0),
        (SuccessThreshold(9), 7, 7),
        (SuccessThreshold(80, is_percent=True), 10, 8),
        (SuccessThreshold(50, is_percent=True), 7, 4),
        (SuccessThreshold(29, is_percent=True), 100, 29),
        (SuccessThreshold(0, is_percent=True), 7, 0),
        (SuccessThreshold(100, is_percent=True), 7, 7),
        (SuccessThreshold(50, is_percent=True), 0, 0),
    ],
)
def test_a_threshold_is_a_number_or_a_share_rounded_up(
    threshold: SuccessThreshold | None, size: int, want: int
) -> None:
    assert successes_wanted(a_task("load", count=size, success_threshold=threshold), size) == want


def test_with_enough_successes_the_task_has_succeeded_and_what_depends_on_it_runs() -> None:
    run = a_fan_out(SuccessThreshold(50, is_percent=True))

    end(run, Outcome.SUCCEEDED, Outcome.FAILED, Outcome.SUCCEEDED, Outcome.FAILED)

    assert [demand.task for demand in run.look().demands] == ["report"]
    run.plan_all()
    run.says("report")
    run.plan()
    assert run.phases(SHARDS) == [SUCCEEDED, FAILED, SUCCEEDED, FAILED]
    assert (run.state.phase, run.state.reason) == (RunPhase.SUCCEEDED, "EnoughSucceeded")
    assert run.state.message == (
        "as many as successThreshold asks for succeeded, though job load/1 failed: Failed exit 1 (and 1 more)"
    )


def test_what_depends_on_a_fan_out_waits_for_its_last_job_though_enough_have_succeeded() -> None:
    run = a_fan_out(SuccessThreshold(1))

    end(run, Outcome.SUCCEEDED, Outcome.SUCCEEDED, Outcome.SUCCEEDED)

    assert run.look().demands == ()
    assert run.phase("load/3") is RUNNING


def test_with_one_success_too_few_the_task_has_failed_and_what_depends_on_it_is_skipped() -> None:
    run = a_fan_out(SuccessThreshold(2))

    end(run, Outcome.SUCCEEDED, Outcome.FAILED, Outcome.FAILED, Outcome.FAILED)

    assert run.phase("report") is SKIPPED
    assert (run.state.phase, run.state.reason) == (RunPhase.FAILED, "JobsFailed")


def test_a_fan_out_that_is_skipped_has_not_succeeded_though_no_success_is_asked_for() -> None:
    any_number = SuccessThreshold(0)
    run = RunStage(a_task("first"), a_task("load", "first", count=2, success_threshold=any_number), a_task("b", "load"))
    run.plan_all()

    run.says("first", Outcome.FAILED)
    run.plan()

    assert run.phases(["load/0", "load/1", "b"]) == [SKIPPED] * 3


def test_a_threshold_of_one_task_excuses_no_failure_of_another() -> None:
    run = RunStage(a_task("load", count=2, success_threshold=SuccessThreshold(1)), a_task("other"))
    run.plan_all()

    run.says("load/0", Outcome.FAILED)
    run.says("load/1")
    run.says("other", Outcome.FAILED)
    run.plan()

    assert run.state.phase is RunPhase.FAILED


def test_more_successes_than_there_are_jobs_can_never_be_reached() -> None:
    tasks = [
        a_task("a", count=4, success_threshold=SuccessThreshold(4)),
        a_task("b", count=4, success_threshold=SuccessThreshold(5)),
        a_task("c", count=4, success_threshold=SuccessThreshold(100, is_percent=True)),
        a_task("d"),
    ]

    [problem] = threshold_problems(a_definition(*tasks))

    assert problem.path == "spec.tasks[1].forEach.successThreshold"
    assert problem.fact == "5 of the 4 jobs of task 'b' can never succeed"


# Failing fast.


def test_the_first_job_that_fails_for_good_stops_those_that_run_and_cancels_those_that_wait() -> None:
    run = RunStage(a_task("load", count=4, fail_fast=True, max_parallel=2), a_task("report", "load"), a_task("other"))
    run.plan_all()

    run.says("load/0", Outcome.FAILED)
    plan = run.plan()

    assert run.phases(SHARDS) == [FAILED, RUNNING, CANCELLED, CANCELLED]
    assert (plan.stops(a_job("load/1")), plan.stops(a_job("other"))) == (True, False)
    assert run.phase("report") is JobPhase.PENDING, "what depends on it hears of the end when nothing of it runs"
    run.says("load/1", Outcome.STOPPED)
    run.says("other")
    run.plan()
    assert run.phases([*SHARDS, "report"]) == [FAILED, CANCELLED, CANCELLED, CANCELLED, SKIPPED]
    assert (run.state.phase, run.state.reason) == (RunPhase.FAILED, "JobsFailed")


def test_a_failure_that_is_retried_stops_nothing() -> None:
    run = a_fan_out(fail_fast=True, retries=1)

    end(run, Outcome.FAILED)

    assert run.phases(SHARDS) == [QUEUED, RUNNING, RUNNING, RUNNING]
    assert not run.look().stops(a_job("load/1"))


def test_with_a_threshold_nothing_is_stopped_as_long_as_it_can_be_reached() -> None:
    run = a_fan_out(SuccessThreshold(3), fail_fast=True)

    end(run, Outcome.FAILED)
    assert not run.look().stops(a_job("load/1"))
    run.says("load/1", Outcome.FAILED)
    assert run.plan().stops(a_job("load/2"))


def test_a_job_that_waits_for_its_next_attempt_is_cancelled_when_a_sibling_fails_for_good() -> None:
    run = a_fan_out(fail_fast=True, retries=1)
    end(run, Outcome.FAILED, Outcome.FAILED)
    run.now_s += 10
    run.plan(("load", "w1"))
    assert run.phases(SHARDS) == [RUNNING, QUEUED, RUNNING, RUNNING]

    run.says("load/0", Outcome.FAILED)
    run.plan()

    assert run.phases(SHARDS) == [FAILED, CANCELLED, RUNNING, RUNNING]


@pytest.mark.parametrize(
    ("outcome", "want"),
    [
        (Outcome.SUCCEEDED, SUCCEEDED),
        (Outcome.FAILED, FAILED),
        (Outcome.TIMED_OUT, FAILED),
        (Outcome.STOPPED, CANCELLED),
        (Outcome.HANDED_BACK, CANCELLED),
        (Outcome.INVALID, FAILED),
    ],
)
def test_a_job_that_is_told_to_stop_ends_as_it_says_and_is_not_tried_again(outcome: Outcome, want: JobPhase) -> None:
    run = a_fan_out(fail_fast=True, retries=3)
    run.hears("w1", "load/0", a_result(1, Outcome.INVALID))
    run.plan()

    stopped = a_result(1, outcome)
    run.reports.append(Report("w1", a_job("load/1"), stopped, told_to_stop=True))
    run.plan()

    assert run.phase("load/1") is want


@pytest.mark.parametrize("how", ["lost", "withdrawn"])
def test_a_job_that_is_told_to_stop_and_falls_silent_is_cancelled(how: str) -> None:
    run = a_fan_out(fail_fast=True)
    run.hears("w1", "load/0", a_result(1, Outcome.INVALID))
    run.plan()

    setattr(run, how, {"w1"} if how == "lost" else {(a_job("load/1"), 1)})
    run.plan()

    assert run.phase("load/1") is CANCELLED


def test_a_run_cancelled_while_a_task_fails_fast_is_cancelled() -> None:
    run = a_fan_out(fail_fast=True)
    end(run, Outcome.FAILED)

    run.cancelled = True
    run.plan()
    for index in (1, 2, 3):
        run.says(f"load/{index}", Outcome.STOPPED)
    run.plan()

    assert run.state.phase is RunPhase.CANCELLED
