"""What a person is told of a run: each job that does not run has a reason, with numbers; what the run waited for."""

from dataclasses import replace

from fencepost.core.explain import LINES_MAX, TaskAccount, explain_run
from fencepost.core.phases import JobPhase, RunPhase
from fencepost.core.rules import Rule
from fencepost.core.run_state import Outcome, RunState
from tests.unit.support.builders import NOW_S, a_graph, a_result, a_task
from tests.unit.support.run_stage import RunStage


def accounts(run: RunStage) -> dict[str, TaskAccount]:
    return {each.task.name: each for each in explain_run(run.state, run.graph, {}, run.now_s)}


def why(run: RunStage, task: str) -> tuple[str, ...]:
    return accounts(run)[task].why


def test_jobs_that_run_say_where_and_what_waits_for_them_says_how_far_they_are() -> None:
    run = RunStage(a_task("load", count=3), a_task("report", "load"))
    run.plan(("load", "w1"), ("load", "w2"))
    run.says("load/0")
    run.plan()
    run.now_s += 12
    load = accounts(run)["load"]
    assert load.counts == {JobPhase.SUCCEEDED: 1, JobPhase.RUNNING: 1, JobPhase.QUEUED: 1}
    assert load.why == (
        "load/1 runs on w2, attempt 1, for 12 s",
        "1 job is queued for 12 s: a slot is being looked for",
    )
    assert why(run, "report") == ("1 job is pending: waits for load (1 of its jobs ended)",)
    assert not load.over


def test_many_jobs_are_counted_instead_of_listed() -> None:
    run = RunStage(a_task("load", count=LINES_MAX + 3))
    run.plan_all()
    *listed, last = why(run, "load")
    assert (len(listed), last) == (LINES_MAX, "3 more run")


def test_a_job_in_back_off_says_which_attempt_comes_when() -> None:
    run = RunStage(a_task("load", count=2, retries=3))
    run.plan(("load", "w1"))
    run.says("load/0", Outcome.FAILED)
    run.plan()
    later, queued = why(run, "load")
    assert later.startswith("1 job is queued for another attempt: load/0 for attempt 2 in ")
    assert queued.startswith("1 job is queued for 0 s: ")
    run.plan_all()
    assert len(why(run, "load")) == 2, "the one that runs and the one in back-off; nothing else waits"


def test_jobs_that_could_run_say_what_holds_them() -> None:
    run = RunStage(a_task("load", count=5, max_parallel=2))
    run.plan_all()
    assert why(run, "load")[-1] == "3 jobs are queued for 0 s: maxParallel: 2 of 2 run"

    run = RunStage(a_task("load"))
    run.plan()
    run.state = replace(run.state, reason="PoolFull", message="4 of 4 slots are taken")
    assert why(run, "load") == ("1 job is queued for 0 s: PoolFull",)

    run = RunStage(a_task("load"))
    run.suspended = True
    run.plan()
    assert why(run, "load") == ("1 job is queued for 0 s: the run is suspended",)


def test_failed_and_skipped_jobs_say_why() -> None:
    run = RunStage(a_task("a"), a_task("b", "a"), a_task("c", "a", rule=Rule.ALL_DONE))
    run.plan_all()
    run.says("a", Outcome.FAILED, 3)
    run.plan()
    assert why(run, "a") == ("a/0 failed: Failed exit 3",)
    assert why(run, "b") == ("1 job is skipped: rule AllSucceeded was not met (a Failed)",)
    assert accounts(run)["b"].over
    assert why(run, "c") == ("1 job is queued for 0 s: a slot is being looked for",)


def test_jobs_of_a_run_that_is_cancelled_are_being_stopped() -> None:
    run = RunStage(a_task("a"), a_task("b", "a"))
    run.plan_all()
    run.cancelled = True
    run.plan()
    assert why(run, "a") == ("a/0 is being stopped on w1, attempt 1, for 0 s",)
    assert accounts(run)["b"].counts == {JobPhase.CANCELLED: 1}


def test_a_lost_worker_is_told_of() -> None:
    run = RunStage(a_task("a"))
    run.plan_all()
    run.lost = {"w1"}
    run.plan_all("w2")
    assert why(run, "a") == ("a/0 runs on w2, attempt 1, for 0 s, 1 workers lost before",)


def test_the_critical_path_leads_back_from_the_last_end_through_the_latest_parents() -> None:
    run = RunStage(a_task("slow"), a_task("quick"), a_task("join", "slow", "quick"), a_task("aside"))
    run.plan_all()
    for job, end_s in (("slow", 9.0), ("quick", 1.0), ("aside", 2.0)):
        lease = run.lease(job)
        run.hears(lease.worker, job, a_result(lease.token, started_at_s=NOW_S, ended_at_s=NOW_S + end_s))
    run.now_s += 9
    run.plan_all()
    lease = run.lease("join")
    run.hears(lease.worker, "join", a_result(lease.token, started_at_s=NOW_S + 9, ended_at_s=NOW_S + 10))
    run.plan()
    assert run.state.phase is RunPhase.SUCCEEDED
    assert {name for name, each in accounts(run).items() if each.critical} == {"slow", "join"}


def test_a_run_of_which_nothing_has_ended_has_no_critical_path() -> None:
    assert not any(each.critical for each in explain_run(RunState(), a_graph(a_task("a")), {}, NOW_S))


def test_a_job_whose_condition_did_not_hold_says_so() -> None:
    run = RunStage(a_task("a"), a_task("b", "a", when="1 > 2"))
    run.plan_all()
    run.says("a")
    run.plan()
    assert why(run, "b") == ("1 job is skipped: its condition `when` did not hold",)


def test_a_task_waits_for_what_comes_before_a_parent_that_was_skipped() -> None:
    run = RunStage(
        a_task("slow"),
        a_task("bad"),
        a_task("skipped", "slow", "bad"),
        a_task("last", "skipped", rule=Rule.ALL_DONE),
    )
    run.plan_all()
    run.says("bad", Outcome.FAILED)
    run.plan()
    assert accounts(run)["skipped"].over
    assert why(run, "last") == ("1 job is pending: waits for what comes before its parents",)
