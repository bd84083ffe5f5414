"""Jobs marked by hand: at rest, waiting, running, ended; and what becomes of what depends on them."""

import pytest

from fencepost.core.draft import Draft
from fencepost.core.intervals import IntervalSet
from fencepost.core.marks import vain_marks
from fencepost.core.phases import IllegalMoveError, JobPhase, RunPhase
from fencepost.core.rules import Rule
from fencepost.core.run_spec import Mark, Rerun, RerunFrom
from fencepost.core.run_state import Outcome, RunState
from tests.unit.support.builders import a_job, a_result, a_task
from tests.unit.support.run_stage import RunStage

FAILED, SUCCEEDED = JobPhase.FAILED, JobPhase.SUCCEEDED


def running() -> RunStage:
    """A run whose job `load` is leased, under its second attempt; `report` waits for it."""
    stage = RunStage(a_task("load", retries=3), a_task("report", "load"))
    stage.plan_all()
    stage.says("load", Outcome.FAILED, 1)
    stage.plan()
    stage.now_s += 60
    stage.plan_all()
    return stage


def test_a_job_that_has_not_begun_ends_as_it_is_marked() -> None:
    stage = RunStage(a_task("load", count=3), a_task("report", "load"))
    stage.mark("load/1", SUCCEEDED)

    stage.plan_all()

    assert stage.phase("load/1") is SUCCEEDED
    assert sorted(map(str, stage.state.leases)) == ["load/0", "load/2"]
    assert stage.state.done == 1


def test_a_job_that_waits_for_its_next_attempt_ends_as_it_is_marked() -> None:
    stage = RunStage(a_task("load", retries=3), a_task("report", "load"))
    stage.plan_all()
    stage.says("load", Outcome.FAILED, 1)
    stage.plan()
    stage.mark("load", SUCCEEDED)

    stage.plan_all()

    assert not stage.state.waiting
    assert [str(job) for job in stage.state.leases] == ["report/0"]


def test_a_job_that_runs_is_stopped_first_and_ends_as_marked_whatever_its_worker_answers() -> None:
    for outcome in Outcome:
        stage = running()
        stage.mark("load/0", FAILED if outcome is Outcome.SUCCEEDED else SUCCEEDED)

        plan = stage.plan_all()
        assert plan.marked == {a_job("load")}
        assert stage.phase("load") is JobPhase.RUNNING

        stage.says("load", outcome)
        plan = stage.plan_all()
        assert not plan.marked
        assert stage.phase("load") is (FAILED if outcome is Outcome.SUCCEEDED else SUCCEEDED)


def test_a_late_result_of_a_marked_job_is_not_accepted() -> None:
    stage = running()
    lease = stage.lease("load")
    stage.mark("load", FAILED)
    stage.lost.add(lease.worker)
    stage.plan()
    assert stage.phase("load") is FAILED

    stage.lost.clear()
    stage.hears(lease.worker, "load", a_result(lease.token))
    stage.plan()

    assert stage.phase("load") is FAILED


def test_a_worker_that_does_not_answer_the_stop_holds_nothing_up_once_it_has_lost_the_entry() -> None:
    for where in ("withdrawn", "refused"):
        stage = running()
        stage.mark("load", SUCCEEDED)
        stage.plan()
        getattr(stage, where).add((a_job("load"), stage.lease("load").token))

        stage.plan_all()

        assert stage.phases(["load", "report"]) == [SUCCEEDED, JobPhase.RUNNING]


def test_what_was_skipped_below_a_failed_job_goes_on_when_it_is_marked_succeeded() -> None:
    stage = RunStage(a_task("load"), a_task("report", "load"), a_task("last", "report"), a_task("slow"))
    stage.plan_all()
    stage.says("load", Outcome.FAILED, 1)
    stage.plan()
    assert stage.phase("report") is JobPhase.SKIPPED

    stage.mark("load", SUCCEEDED)
    stage.plan_all()

    assert stage.phases(["load", "report", "last"]) == [SUCCEEDED, JobPhase.RUNNING, JobPhase.PENDING]
    assert not stage.state.failures


def test_a_job_marked_failed_skips_what_depends_on_it_and_says_who_did_it() -> None:
    stage = RunStage(a_task("load"), a_task("report", "load"))
    stage.mark("load", FAILED)

    stage.plan()

    assert stage.phases(["load", "report"]) == [FAILED, JobPhase.SKIPPED]
    assert stage.state.phase is RunPhase.FAILED
    assert stage.state.message == "job load/0 failed: marked Failed by eve"


@pytest.mark.parametrize("how", ["fails", "loses its worker"])
def test_a_job_is_not_tried_again_once_what_it_depends_on_is_marked_failed(how: str) -> None:
    """It runs at that moment, and may still end well."""
    stage = RunStage(a_task("load"), a_task("report", "load", retries=3), a_task("alarm", "load", rule=Rule.ANY_FAILED))
    stage.plan_all()
    stage.says("load")
    stage.plan_all()
    stage.mark("load", FAILED)
    stage.plan_all()
    assert stage.phases(["load", "report", "alarm"]) == [FAILED, JobPhase.RUNNING, JobPhase.RUNNING]

    if how == "fails":
        stage.says("report", Outcome.FAILED, 1)
    else:
        stage.says("report", Outcome.STOPPED)
    stage.plan()

    assert stage.phase("report") is JobPhase.SKIPPED
    assert not stage.state.waiting
    stage.says("alarm")
    stage.plan()
    assert stage.state.phase is RunPhase.FAILED


def test_a_fan_out_over_a_list_keeps_its_number_of_jobs_while_one_runs_whatever_is_marked_above_it() -> None:
    stage = RunStage(a_task("load"), a_task("each", "load", items_from="load"), a_task("report", "each"))
    stage.plan_all()
    stage.puts_out("load", '["a","b","c"]')
    stage.plan(("each", "w1"))
    stage.mark("load", FAILED)
    stage.plan()
    assert stage.phases(["each/0", "each/1", "each/2"]) == [JobPhase.RUNNING, JobPhase.SKIPPED, JobPhase.SKIPPED]

    stage.mark("load", SUCCEEDED)
    stage.plan()

    assert stage.phases(["each/0", "each/1", "each/2"]) == [JobPhase.RUNNING, JobPhase.PENDING, JobPhase.PENDING]
    assert stage.state.tasks["each"].size == 3
    assert stage.state.total == 5


def test_a_whole_task_is_marked_but_for_the_job_that_has_a_mark_of_its_own() -> None:
    stage = RunStage(a_task("load", count=4), a_task("idle"))
    stage.mark("load", SUCCEEDED)
    stage.mark("load/2", FAILED)

    stage.plan()

    ended = stage.state.tasks["load"].ended
    assert ended == {SUCCEEDED: IntervalSet.of([0, 1, 3]), FAILED: IntervalSet.of([2])}


def test_a_mark_holds_in_its_round_only() -> None:
    stage = RunStage(a_task("load"), a_task("report", "load"))
    stage.mark("load", FAILED)
    stage.plan()

    stage.run_again()
    stage.plan_all()
    assert stage.phase("load") is JobPhase.RUNNING

    stage.says("load", Outcome.FAILED, 1)
    stage.plan()
    stage.run_again(Rerun(RerunFrom.JOBS))
    stage.mark("load", SUCCEEDED)
    stage.plan_all()
    assert stage.phases(["load", "report"]) == [SUCCEEDED, JobPhase.RUNNING]


def test_marks_of_jobs_that_there_are_not_are_passed_over() -> None:
    stage = RunStage(a_task("load", count=2))
    stage.marks = {"nonsense/0": Mark(FAILED), "load/2": Mark(FAILED)}

    stage.plan_all()

    assert len(stage.state.leases) == 2
    assert stage.state.done == 0


def test_no_job_is_marked_as_skipped() -> None:
    with pytest.raises(IllegalMoveError):
        Draft(RunState()).mark(a_task("load"), IntervalSet.of([0]), JobPhase.SKIPPED)


def test_marks_of_jobs_that_the_run_does_not_have_are_told_from_those_that_it_has_or_may_have() -> None:
    stage = RunStage(a_task("list"), a_task("each", "list", items_from="list"), a_task("load", count=3))
    keys = ["list", "list/0", "list/1", "load/2", "load/3", "each", "each/7", "lode", "lode/0"]
    marks = {key: Mark(SUCCEEDED) for key in keys} | {"old": Mark(SUCCEEDED, round=1)}

    assert vain_marks(stage.state, stage.graph, marks) == ["list/1", "load/3", "lode", "lode/0"]

    stage.plan_all()
    stage.puts_out("list", '["a", "b"]')
    stage.plan_all()
    assert vain_marks(stage.state, stage.graph, marks) == ["each/7", "list/1", "load/3", "lode", "lode/0"]


def listed() -> RunStage:
    """A run whose task `each` has three jobs, as a list has asked for; none of them has ended."""
    stage = RunStage(a_task("list"), a_task("each", "list", items_from="list"), a_task("report", "each"))
    stage.plan_all()
    stage.puts_out("list", '["a", "b", "c"]')
    return stage


def test_a_mark_in_a_fan_out_over_a_list_leaves_it_as_many_jobs_as_it_has() -> None:
    for leased in (True, False):
        stage = listed()
        if leased:
            stage.plan_all()
            stage.mark("each/1", SUCCEEDED)
            stage.plan_all()
            stage.says("each/1", Outcome.STOPPED)
        else:
            stage.plan()
            stage.mark("each/1", SUCCEEDED)
        stage.plan_all()

        assert stage.state.tasks["each"].size == 3
        assert sorted(map(str, stage.state.leases)) == ["each/0", "each/2"]
