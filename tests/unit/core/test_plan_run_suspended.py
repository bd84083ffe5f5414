"""Runs that a person has suspended: what runs goes on, nothing more is started, and time limits count on."""

from fencepost.core.phases import JobPhase, RunPhase
from fencepost.core.run_state import Outcome
from tests.unit.support.builders import NOW_S, a_task
from tests.unit.support.run_stage import RunStage


def test_a_suspended_run_starts_nothing_more_and_says_how_many_jobs_still_run() -> None:
    run = RunStage(a_task("load", count=3), a_task("report", "load"))
    run.plan(("load", "w1"), ("load", "w1"))
    run.suspended = True

    plan = run.plan()

    assert (plan.demands, plan.stopping, run.state.phase) == ((), False, RunPhase.RUNNING)
    assert (run.state.reason, run.state.suspended_s) == ("Suspended", NOW_S)
    assert run.state.message == "nothing more is started, 2 jobs are still running; set spec.suspend to false to go on"


def test_results_of_a_suspended_run_count_and_its_retries_wait_until_it_goes_on() -> None:
    run = RunStage(a_task("a", retries=1), a_task("b", "a"))
    run.plan_all()
    run.suspended = True
    run.says("a", Outcome.FAILED)

    plan = run.plan()

    assert (run.phase("a"), plan.wake_at_s) == (JobPhase.QUEUED, None)
    run.now_s += 3600
    assert run.plan().demands == ()
    assert run.state.suspended_s == NOW_S, "it is suspended since then, however often it is looked at"
    run.suspended = False
    assert [demand.task for demand in run.plan().demands] == ["a"]
    assert run.state.reason == ""
    assert not run.state.suspended_s


def test_a_suspended_run_whose_last_job_ends_is_over() -> None:
    run = RunStage(a_task("a"))
    run.plan_all()
    run.suspended = True
    run.says("a")
    run.plan()
    assert (run.state.phase, run.state.suspended_s) == (RunPhase.SUCCEEDED, None)


def test_a_suspended_run_can_be_cancelled_and_runs_out_of_time() -> None:
    run = RunStage(a_task("a"), a_task("b", "a"), timeout_s=60)
    run.plan_all()
    run.suspended = True
    assert run.plan().wake_at_s == NOW_S + 60
    run.now_s += 60
    plan = run.plan()
    assert (plan.stopping, run.state.reason, run.state.suspended_s) == (True, "TimingOut", None)
    run.cancelled = True
    run.plan()
    assert run.state.reason == "Cancelling"


def test_time_in_the_queue_counts_from_the_moment_at_which_a_suspended_run_goes_on() -> None:
    run = RunStage(a_task("a", queue_timeout_s=60, retries=1), a_task("b", queue_timeout_s=60), a_task("c"))
    run.plan(("a", "w1"))
    run.says("a", Outcome.FAILED)
    run.plan()
    run.suspended = True
    run.plan()
    run.now_s += 3600
    assert run.plan().failed == ()
    run.suspended = False

    plan = run.plan()

    assert (plan.failed, plan.wake_at_s) == ((), run.now_s + 60)
    run.now_s += 60
    assert [job.task for job in run.plan().failed] == ["a", "b"]
