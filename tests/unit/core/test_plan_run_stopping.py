"""Runs that are cancelled or out of time, and runs that are over."""

import pytest

from fencepost.core.phases import JobPhase, RunPhase
from fencepost.core.run_state import Outcome
from tests.unit.support.builders import NOW_S, a_job, a_result, a_task
from tests.unit.support.run_stage import RunStage


def test_a_cancelled_run_starts_nothing_more_and_ends_when_its_last_lease_has_been_answered() -> None:
    run = RunStage(a_task("load", count=3, retries=1), a_task("report", "load"))
    run.plan(("load", "w1"), ("load", "w1"))
    run.says("load/1", Outcome.FAILED)
    run.plan()
    run.cancelled = True

    plan = run.plan()

    assert (plan.stopping, plan.demands, plan.wake_at_s) == (True, (), None)
    assert run.phases(["load/1", "load/2", "report"]) == [JobPhase.CANCELLED] * 3
    assert (run.state.phase, run.state.reason) == (RunPhase.RUNNING, "Cancelling")
    assert run.state.message == "1 job is being stopped"
    run.says("load/0", Outcome.STOPPED)
    plan = run.plan()
    assert (run.state.phase, run.state.reason, plan.stopping) == (RunPhase.CANCELLED, "Cancelled", False)


@pytest.mark.parametrize(
    ("outcome", "want"),
    [
        (Outcome.SUCCEEDED, JobPhase.SUCCEEDED),
        (Outcome.FAILED, JobPhase.FAILED),
        (Outcome.TIMED_OUT, JobPhase.FAILED),
        (Outcome.INVALID, JobPhase.FAILED),
        (Outcome.MISSING, JobPhase.FAILED),
        (Outcome.STOPPED, JobPhase.CANCELLED),
        (Outcome.HANDED_BACK, JobPhase.CANCELLED),
    ],
)
def test_a_job_of_a_cancelled_run_ends_with_its_next_answer_and_is_never_retried(
    outcome: Outcome, want: JobPhase
) -> None:
    run = RunStage(a_task("a", retries=5), a_task("b"))
    run.plan_all()
    run.says("b")
    run.plan()
    run.cancelled = True

    run.says("a", outcome)
    run.plan()

    assert run.phase("a") is want
    assert run.state.phase is (RunPhase.SUCCEEDED if want is JobPhase.SUCCEEDED else RunPhase.CANCELLED)


@pytest.mark.parametrize("how", ["lost", "withdrawn", "refused"])
def test_a_lease_of_a_cancelled_run_that_will_have_no_answer_is_cancelled(how: str) -> None:
    run = RunStage(a_task("a"))
    run.plan_all()
    run.cancelled = True

    setattr(run, how, {"w1"} if how == "lost" else {(a_job("a"), 1)})
    run.plan()

    assert (run.phase("a"), run.state.phase) == (JobPhase.CANCELLED, RunPhase.CANCELLED)


def test_a_run_that_takes_too_long_is_woken_stopped_and_failed() -> None:
    run = RunStage(a_task("a"), a_task("b", "a"), timeout_s=60)
    plan = run.plan_all()
    assert (plan.wake_at_s, plan.stopping) == (NOW_S + 60, False)

    run.now_s += 60
    plan = run.plan()

    assert (plan.wake_at_s, plan.stopping, run.state.reason) == (None, True, "TimingOut")
    run.says("a", Outcome.STOPPED)
    run.plan()
    assert (run.state.phase, run.state.reason) == (RunPhase.FAILED, "RunTimedOut")
    assert run.state.message == "the run took longer than its timeout of 60 s; raise spec.timeout or shorten it"


def test_a_run_looks_again_at_whatever_comes_first_a_retry_or_its_timeout() -> None:
    run = RunStage(a_task("a", retries=9), timeout_s=15)
    run.plan_all()
    run.says("a", Outcome.FAILED)

    assert run.plan().wake_at_s == NOW_S + 10
    run.now_s += 10
    run.plan_all()
    run.says("a", Outcome.FAILED)
    assert run.plan().wake_at_s == NOW_S + 15


def test_a_finished_run_stays_as_it_is_whatever_is_said() -> None:
    run = RunStage(a_task("a"))
    run.plan_all()
    run.says("a")
    run.plan()
    want = run.state

    run.hears("w1", "a", a_result(1, Outcome.FAILED))
    run.cancelled, run.lost, run.epoch = True, {"w1"}, 9
    run.now_s += 1000

    assert run.look().state is run.state
    assert run.look().state == want
    assert run.look().demands == ()
