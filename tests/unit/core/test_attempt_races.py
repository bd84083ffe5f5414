"""What two things come to that happen at once: the table in `operator/docs/attempts.md`, row by row, for the planner.

That the API server refuses what comes too late is shown by the contract suite, that a worker tells an end from a stop
by its own tests, and the whole of it by the plays.
"""

from typing import Any

from fencepost.core.phases import JobPhase, RunPhase
from fencepost.core.plan_run import Report
from fencepost.core.run_state import Outcome, Waiting
from tests.unit.support.builders import NOW_S, a_job, a_result, a_task
from tests.unit.support.run_stage import RunStage


def a_leased_job(timeout_s: float | None = None, **more: Any) -> RunStage:
    """One job, which is with worker w1 under token 1."""
    run = RunStage(a_task("a", **more), timeout_s=timeout_s)
    run.plan_all("w1")
    return run


def test_a_job_that_ended_well_before_it_heard_of_the_stop_has_succeeded() -> None:
    run = a_leased_job(retries=1)

    run.reports.append(Report("w1", a_job("a"), a_result(1, Outcome.SUCCEEDED), told_to_stop=True))
    run.plan()

    assert (run.phase("a"), run.state.phase) == (JobPhase.SUCCEEDED, RunPhase.SUCCEEDED)


def test_a_job_that_failed_as_its_run_was_cancelled_has_failed_and_is_not_tried_again() -> None:
    run = a_leased_job(retries=1)

    run.cancelled = True
    run.says("a", Outcome.FAILED)
    run.plan()

    assert (run.phase("a"), run.state.phase) == (JobPhase.FAILED, RunPhase.CANCELLED)


def test_a_job_that_ended_well_as_its_run_ran_out_of_time_has_succeeded_and_so_has_the_run() -> None:
    run = a_leased_job(timeout_s=60)

    run.now_s += 60
    run.says("a")
    run.plan()

    assert (run.phase("a"), run.state.phase) == (JobPhase.SUCCEEDED, RunPhase.SUCCEEDED)


def test_a_result_counts_though_its_entry_was_taken_away_in_the_same_moment() -> None:
    run = a_leased_job(retries=1)

    run.withdrawn = {(a_job("a"), 1)}
    run.says("a")
    run.plan()

    assert run.phase("a") is JobPhase.SUCCEEDED


def test_a_result_counts_though_its_worker_was_lost_in_the_same_moment_and_uses_up_no_loss() -> None:
    run = a_leased_job(retries=1)

    run.lost.add("w1")
    run.says("a", Outcome.FAILED)
    run.plan()

    assert run.state.waiting == {a_job("a"): Waiting(2, 0, NOW_S + 10)}


def test_a_result_for_an_attempt_that_was_given_up_changes_nothing() -> None:
    run = a_leased_job(retries=1)
    run.withdrawn = {(a_job("a"), 1)}
    run.plan()
    run.now_s += 10
    run.plan_all("w2")

    run.hears("w1", "a", a_result(1, Outcome.SUCCEEDED))
    run.plan()

    assert (run.phase("a"), run.lease("a").worker, run.lease("a").token) == (JobPhase.RUNNING, "w2", 2)


def test_a_result_that_comes_while_the_job_waits_for_its_next_attempt_changes_nothing() -> None:
    run = a_leased_job(retries=1)
    run.withdrawn = {(a_job("a"), 1)}
    run.plan()

    run.hears("w1", "a", a_result(1, Outcome.SUCCEEDED))
    run.plan()

    assert run.phase("a") is JobPhase.QUEUED


def test_a_retry_that_fell_due_under_one_leader_is_given_away_by_the_next_one_once() -> None:
    run = a_leased_job(retries=1)
    run.says("a", Outcome.FAILED)
    run.plan()

    run.now_s += 1000
    run.epoch += 1
    run.plan_all("w2")
    run.plan_all("w3")

    assert (run.lease("a").worker, run.lease("a").token, run.lease("a").attempt) == ("w2", 2, 2)


def test_a_retry_that_falls_due_as_its_run_runs_out_of_time_is_cancelled() -> None:
    run = a_leased_job(timeout_s=60, retries=1)
    run.now_s += 50
    run.says("a", Outcome.FAILED)
    run.plan()

    run.now_s += 10
    run.plan_all("w2")

    assert (run.phase("a"), run.state.reason) == (JobPhase.CANCELLED, "RunTimedOut")


def test_a_slot_that_comes_free_as_the_time_in_the_queue_ends_comes_too_late() -> None:
    run = RunStage(a_task("a", queue_timeout_s=60.0))
    run.plan()

    run.now_s += 60
    run.plan_all("w1")

    assert run.phase("a") is JobPhase.FAILED


def test_a_job_that_runs_as_its_time_in_the_queue_would_have_ended_goes_on() -> None:
    run = RunStage(a_task("a", queue_timeout_s=60.0))
    run.plan_all("w1")

    run.now_s += 60
    run.plan()

    assert run.phase("a") is JobPhase.RUNNING


def test_a_job_handed_back_as_its_run_is_cancelled_is_cancelled() -> None:
    run = a_leased_job()

    run.cancelled = True
    run.says("a", Outcome.HANDED_BACK)
    run.plan()

    assert run.phase("a") is JobPhase.CANCELLED


def test_two_jobs_that_fail_for_good_at_once_have_both_failed_and_the_rest_of_the_fan_out_is_cancelled() -> None:
    run = RunStage(a_task("a", count=4, fail_fast=True, max_parallel=3))
    run.plan_all()

    run.says("a/0", Outcome.FAILED)
    run.says("a/1", Outcome.FAILED)
    run.plan()
    run.says("a/2")
    run.plan()

    wanted = [JobPhase.FAILED, JobPhase.FAILED, JobPhase.SUCCEEDED, JobPhase.CANCELLED]
    assert run.phases([f"a/{index}" for index in range(4)]) == wanted
