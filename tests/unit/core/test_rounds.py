"""Another round of a finished run: what is run again, what stays, and when it may begin."""

from dataclasses import replace

import pytest

from fencepost.core.intervals import IntervalSet
from fencepost.core.phases import IllegalMoveError, JobPhase, RunPhase
from fencepost.core.rounds import begin_round, round_due, tasks_below
from fencepost.core.rules import Rule
from fencepost.core.run_spec import Rerun, RerunFrom, RunSpec
from fencepost.core.run_state import Outcome, RunState
from tests.unit.support.builders import a_graph, a_task
from tests.unit.support.run_stage import RunStage

FAILED, SKIPPED, SUCCEEDED, PENDING, CANCELLED = (
    JobPhase.FAILED,
    JobPhase.SKIPPED,
    JobPhase.SUCCEEDED,
    JobPhase.PENDING,
    JobPhase.CANCELLED,
)


def jobs(**tasks: str | list[int]) -> Rerun:
    """A round of these jobs."""
    chosen = {name: None if which == "*" else IntervalSet.of(map(int, which)) for name, which in tasks.items()}
    return Rerun(RerunFrom.JOBS, chosen)


def half_failed() -> RunStage:
    """`extract` is well, one of the three jobs of `load` has failed, so `report` was skipped; `aside` is well."""
    stage = RunStage(a_task("extract"), a_task("load", "extract", count=3), a_task("report", "load"), a_task("aside"))
    stage.plan_all()
    stage.says("extract/0")
    stage.says("aside/0")
    stage.plan_all()
    stage.says("load/0")
    stage.says("load/1", Outcome.FAILED, 3)
    stage.says("load/2")
    stage.plan()
    assert stage.state.phase is RunPhase.FAILED
    return stage


def test_from_failed_runs_what_did_not_succeed_and_what_waits_for_it() -> None:
    stage = half_failed()

    stage.run_again()
    stage.plan_all()

    assert (stage.state.round, str(stage.state.phase)) == (1, "Running")
    assert [str(job) for job in stage.state.leases] == ["load/1"]
    assert stage.phases(["extract/0", "load/0", "load/2", "aside/0"]) == [SUCCEEDED] * 4
    assert stage.phase("report/0") is PENDING
    stage.says("load/1")
    stage.plan_all()
    stage.says("report/0")
    stage.plan()
    assert stage.state.phase is RunPhase.SUCCEEDED
    assert not stage.state.failures


def test_a_job_that_is_run_again_has_a_higher_token_and_begins_with_its_first_attempt() -> None:
    stage = half_failed()
    before = stage.state.lease_counter

    stage.run_again()
    stage.plan_all()

    lease = stage.lease("load/1")
    assert lease.token == before + 1
    assert (lease.attempt, lease.losses) == (1, 0)


def test_the_time_limit_counts_from_the_beginning_of_the_round() -> None:
    stage = RunStage(a_task("only"), timeout_s=60)
    stage.plan_all()
    stage.says("only", Outcome.FAILED, 1)
    stage.plan()

    stage.now_s += 3600
    stage.run_again()
    plan = stage.plan_all()

    assert not plan.stopping
    assert stage.state.start_s == stage.now_s
    assert stage.phase("only") is JobPhase.RUNNING


def test_a_task_is_run_again_alone_or_with_all_that_depends_on_it() -> None:
    for downstream, want_report in ((False, SUCCEEDED), (True, PENDING)):
        stage = RunStage(a_task("load", count=2), a_task("report", "load"), a_task("aside"))
        stage.plan_all()
        for job in ("load/0", "load/1", "aside"):
            stage.says(job)
        stage.plan_all()
        stage.says("report")
        stage.plan()

        stage.run_again(replace(jobs(load="*"), downstream=downstream))

        assert stage.phases(["load/0", "load/1", "report", "aside"]) == [PENDING, PENDING, want_report, SUCCEEDED]
        assert stage.state.done == (2 if not downstream else 1)


def test_single_jobs_are_run_again_and_what_was_skipped_below_them() -> None:
    stage = half_failed()

    stage.run_again(jobs(load=[1, 2, 77], nonsense=[0]))

    assert stage.phases(["load/0", "load/1", "load/2", "report/0"]) == [SUCCEEDED, PENDING, PENDING, PENDING]


def test_a_round_of_all_runs_everything_again() -> None:
    stage = half_failed()

    stage.run_again(Rerun(RerunFrom.ALL))

    assert not stage.state.tasks
    assert stage.state.done == 0


def test_a_round_in_which_nothing_is_to_be_done_ends_at_once_as_the_run_had_ended() -> None:
    stage = RunStage(a_task("only"))
    stage.plan_all()
    stage.says("only")
    stage.plan()

    stage.run_again()
    stage.plan_all()

    assert (stage.state.phase, stage.state.round) == (RunPhase.SUCCEEDED, 1)


def test_jobs_that_stay_cancelled_fail_the_round_and_the_message_says_what_to_do() -> None:
    stage = RunStage(a_task("one"), a_task("other"))
    stage.cancelled = True
    stage.plan()
    stage.cancelled = False

    stage.run_again(jobs(one="*"))
    stage.plan_all()
    stage.says("one")
    stage.plan()

    assert (stage.state.phase, stage.state.reason) == (RunPhase.FAILED, "JobsCancelled")
    assert "--from-failed" in stage.state.message
    stage.run_again()
    stage.plan_all()
    stage.says("other")
    stage.plan()
    assert stage.state.phase is RunPhase.SUCCEEDED


def test_a_run_that_is_under_way_cannot_begin_another_round() -> None:
    with pytest.raises(IllegalMoveError):
        begin_round(RunState(RunPhase.RUNNING), 1)


def test_a_run_that_never_leased_anything_goes_back_to_pending() -> None:
    assert begin_round(RunState(RunPhase.FAILED, round=2), 3).phase is RunPhase.PENDING


@pytest.mark.parametrize(
    ("phase", "wanted", "taken_up", "cancel", "want"),
    [
        (RunPhase.FAILED, 1, 0, False, True),
        (RunPhase.FAILED, 1, 1, False, False),
        (RunPhase.FAILED, 1, 0, True, False),
        (RunPhase.RUNNING, 1, 0, False, False),
    ],
)
def test_a_round_is_due_once_the_run_has_finished_and_nobody_has_cancelled_it(
    phase: RunPhase, wanted: int, taken_up: int, cancel: bool, want: bool
) -> None:
    assert round_due(RunSpec("etl", round=wanted, cancel=cancel), RunState(phase, round=taken_up)) is want


def test_the_tasks_below_some_are_those_that_wait_for_them_in_the_end() -> None:
    graph = a_graph(a_task("a"), a_task("b", "a"), a_task("c", "b", "x"), a_task("x"))

    assert tasks_below(graph, {"a"}) == {"b", "c"}
    assert tasks_below(graph, ()) == frozenset()


def test_a_job_run_again_by_itself_is_not_started_where_the_condition_of_its_task_has_no_answer_still() -> None:
    stage = RunStage(a_task("load", count=2, when="int(params.zone) > 0"))
    stage.values = {"params.zone": "eu"}
    stage.plan_all()
    assert stage.state.phase is RunPhase.FAILED

    stage.run_again(jobs(load=[1]))
    plan = stage.plan_all()

    assert list(map(str, plan.failed)) == ["load/1"]
    assert stage.state.phase is RunPhase.FAILED
    assert stage.state.lease_counter == 0


@pytest.mark.parametrize("kept", [CANCELLED, SUCCEEDED])
def test_a_condition_is_asked_anew_in_a_round_unless_a_job_of_its_task_keeps_its_success(kept: JobPhase) -> None:
    load = a_task(
        "load", "check", count=2, fail_fast=kept is CANCELLED, rule=Rule.ALL_DONE, when="tasks.check.failed == 0"
    )
    stage = RunStage(a_task("check"), load)
    stage.plan_all()
    stage.says("check")
    stage.plan(("load", "w1"))
    if kept is SUCCEEDED:
        stage.says("load/0")
        stage.plan_all()
        stage.says("load/1", Outcome.FAILED, 1)
    else:
        stage.says("load/0", Outcome.FAILED, 1)
    stage.plan()
    assert stage.state.phase is RunPhase.FAILED
    again, other = ("load/1", "load/0") if kept is SUCCEEDED else ("load/0", "load/1")

    stage.run_again(jobs())
    stage.mark("check", FAILED)
    stage.plan()
    stage.run_again(jobs(load=[int(again[-1])]))
    stage.plan_all()

    assert stage.phase(other) is kept
    assert stage.phase(again) is (JobPhase.RUNNING if kept is SUCCEEDED else SKIPPED)
