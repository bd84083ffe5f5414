"""How long jobs wait for a slot before they fail, and from when on it counts."""

from typing import Any

from fencepost.core.phases import JobPhase, RunPhase
from fencepost.core.run_size import JOBS_OPEN_MAX
from fencepost.core.run_state import Outcome, Waiting
from tests.unit.support.builders import NOW_S, a_job, a_result, a_task
from tests.unit.support.run_stage import RunStage

LIMIT_S = 60.0
FACT = "QueueTimeout: it found no slot within 60 s; raise queueTimeout, or give the pool more slots"


def a_run_of(name: str, *parents: str, **more: Any) -> RunStage:
    """One task with a limit, after those it depends on."""
    return RunStage(*[a_task(parent) for parent in parents], a_task(name, *parents, queue_timeout_s=LIMIT_S, **more))


def at(run: RunStage, seconds: float) -> RunStage:
    """The same run, planned so many seconds after its beginning with no slot to be had."""
    run.now_s = NOW_S + seconds
    run.plan()
    return run


def test_a_job_that_finds_no_slot_in_time_fails_and_says_why() -> None:
    run = a_run_of("a")

    assert run.plan().wake_at_s == NOW_S + LIMIT_S
    assert at(run, LIMIT_S - 1).state.phase is RunPhase.PENDING
    run.now_s = NOW_S + LIMIT_S
    plan = run.plan()

    assert (run.state.phase, run.state.message) == (RunPhase.FAILED, f"job a/0 failed: {FACT}")
    assert plan.failed == (a_job("a"),)


def test_a_job_that_is_leased_at_the_last_moment_runs_as_long_as_it_likes() -> None:
    run = a_run_of("a")
    at(run, LIMIT_S - 1)
    run.plan_all()

    assert at(run, 10 * LIMIT_S).phase("a") is JobPhase.RUNNING
    assert run.look().wake_at_s is None


def test_time_in_the_queue_counts_from_when_the_leader_saw_that_a_job_could_start() -> None:
    """And not from when the worker of what it depends on says to have ended it, by a clock that is an hour late."""
    run = a_run_of("b", "a")
    run.plan_all()
    run.now_s += 100

    run.hears("w1", "a", a_result(1, ended_at_s=NOW_S - 3600))
    run.plan()

    assert run.phase("b") is JobPhase.PENDING
    assert run.look().wake_at_s == NOW_S + 100 + LIMIT_S


def test_a_leader_that_has_taken_over_counts_on_from_what_is_stored() -> None:
    run = a_run_of("a", count=3)
    run.plan()
    run.epoch += 1

    assert at(run, LIMIT_S - 1).state.failures == {}
    assert at(run, LIMIT_S).phases(["a/0", "a/1", "a/2"]) == [JobPhase.FAILED] * 3


def test_a_retry_waits_anew_from_the_end_of_its_back_off() -> None:
    run = a_run_of("a", retries=1)
    run.plan_all()
    run.now_s += 100
    run.says("a", Outcome.FAILED)
    run.plan()

    assert run.look().wake_at_s == NOW_S + 110
    assert at(run, 110 + LIMIT_S - 1).phase("a") is JobPhase.QUEUED
    assert run.look().wake_at_s == NOW_S + 110 + LIMIT_S
    assert at(run, 110 + LIMIT_S).state.message == f"job a/0 failed: {FACT}"


def test_a_job_that_lost_its_worker_waits_anew_from_the_loss() -> None:
    run = a_run_of("a")
    run.plan_all("w1")
    run.now_s += 100
    run.lost.add("w1")
    run.plan()

    assert at(run, 100 + LIMIT_S - 1).phase("a") is JobPhase.QUEUED
    assert at(run, 100 + LIMIT_S).phase("a") is JobPhase.FAILED


def test_of_a_fan_out_those_fail_that_have_not_been_started_in_time() -> None:
    run = a_run_of("load", count=3)
    run.plan(("load", "w1"))

    at(run, LIMIT_S)

    assert run.phases(["load/0", "load/1", "load/2"]) == [JobPhase.RUNNING, JobPhase.FAILED, JobPhase.FAILED]
    assert len(run.state.failures) == 2
    assert run.look().wake_at_s is None


def test_jobs_that_max_parallel_holds_back_are_not_in_the_queue() -> None:
    run = a_run_of("load", count=3, max_parallel=1)
    run.plan_all()

    assert at(run, 10 * LIMIT_S).phases(["load/0", "load/1"]) == [JobPhase.RUNNING, JobPhase.PENDING]
    run.says("load/0")
    run.plan()
    assert at(run, 11 * LIMIT_S - 1).phase("load/1") is JobPhase.PENDING
    assert at(run, 11 * LIMIT_S).phases(["load/1", "load/2"]) == [JobPhase.FAILED, JobPhase.FAILED]


def test_a_retry_that_max_parallel_holds_back_is_not_in_the_queue_either() -> None:
    run = a_run_of("load", count=2, max_parallel=1, retries=1)
    run.plan_all()
    run.says("load/0", Outcome.FAILED)
    run.plan(("load", "w1"))
    assert run.phases(["load/0", "load/1"]) == [JobPhase.QUEUED, JobPhase.RUNNING]

    at(run, 10 * LIMIT_S)
    run.says("load/1")
    run.plan()

    assert at(run, 11 * LIMIT_S - 1).phase("load/0") is JobPhase.QUEUED
    assert at(run, 11 * LIMIT_S).phase("load/0") is JobPhase.FAILED


def test_in_a_run_with_more_jobs_than_may_be_open_the_clock_begins_anew_when_one_ends() -> None:
    run = RunStage(a_task("other"), a_task("load", count=JOBS_OPEN_MAX, queue_timeout_s=LIMIT_S))
    run.plan(("other", "w1"))
    run.now_s += 50

    run.says("other")
    run.plan()

    assert at(run, 50 + LIMIT_S - 1).phase("load/0") is JobPhase.PENDING
    assert at(run, 50 + LIMIT_S).phase("load/0") is JobPhase.FAILED


def test_jobs_that_a_crowded_run_holds_back_do_not_fail_with_a_retry_that_waits() -> None:
    run = RunStage(a_task("load", count=JOBS_OPEN_MAX + 5, retries=1, queue_timeout_s=LIMIT_S))
    run.plan_all()
    run.says("load/0", Outcome.FAILED)
    run.plan()
    assert run.state.waiting == {a_job("load/0"): Waiting(2, 0, NOW_S + 10)}

    at(run, 10 + LIMIT_S)

    assert run.phase("load/0") is JobPhase.FAILED
    assert run.phase(f"load/{JOBS_OPEN_MAX}") is JobPhase.PENDING


def test_what_depends_on_a_job_that_waited_too_long_is_skipped_and_what_does_not_goes_on() -> None:
    run = RunStage(a_task("a", queue_timeout_s=LIMIT_S), a_task("b", "a"), a_task("other"))
    run.plan(("other", "w1"))

    at(run, LIMIT_S)

    assert run.phases(["a", "b", "other"]) == [JobPhase.FAILED, JobPhase.SKIPPED, JobPhase.RUNNING]


def test_a_fan_out_that_fails_fast_is_cancelled_when_a_retry_of_it_waits_too_long() -> None:
    run = a_run_of("load", count=3, retries=1, fail_fast=True, max_parallel=2)
    run.plan(("load", "w1"), ("load", "w1"))
    run.says("load/0", Outcome.FAILED)
    run.says("load/1", Outcome.FAILED)
    run.plan()

    run.now_s += 10
    run.plan(("load", "w1"))
    at(run, 10 + LIMIT_S)

    assert run.phases(["load/0", "load/1", "load/2"]) == [JobPhase.RUNNING, JobPhase.FAILED, JobPhase.CANCELLED]


def test_nothing_of_the_clock_is_left_in_the_record_when_nobody_waits() -> None:
    run = a_run_of("a")
    run.plan()
    assert run.state.tasks["a"].queued_s == NOW_S

    run.plan_all()

    assert run.state.tasks == {}
