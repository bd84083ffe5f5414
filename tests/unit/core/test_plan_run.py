"""What a run does next, story by story; the laws that hold in all stories are in test_plan_run_laws.py."""

import pytest

from fencepost.core.definition import LOSS_LIMIT_DEFAULT, Priority
from fencepost.core.phases import JobPhase, RunPhase
from fencepost.core.placement import Demand, Grant
from fencepost.core.plan_run import Report, advance_run, lease_jobs
from fencepost.core.run_size import JOBS_OPEN_MAX
from fencepost.core.run_state import Outcome, RunState, Waiting
from tests.unit.support.builders import NOW_S, RUN, a_definition, a_graph, a_job, a_result, a_task
from tests.unit.support.run_stage import RunStage

# What could start.


def test_only_tasks_whose_parents_have_all_ended_well_ask_for_slots() -> None:
    run = RunStage(a_task("a"), a_task("b", priority=Priority.HIGH), a_task("c", "a", "b", count=3))

    assert run.look().demands == (Demand("a", 1, Priority.NORMAL, NOW_S), Demand("b", 1, Priority.HIGH, NOW_S))
    run.plan(("a", "w1"), ("b", "w1"))
    run.says("a")
    run.plan()
    run.now_s += 7
    assert run.look().demands == ()
    run.hears("w1", "b", a_result(1, ended_at_s=NOW_S + 5))
    assert run.look().demands == (Demand("c", 3, Priority.NORMAL, NOW_S + 5),)


def test_a_task_is_ready_no_later_than_now_though_its_parents_worker_has_a_clock_that_is_ahead() -> None:
    run = RunStage(a_task("a"), a_task("b", "a"))
    run.plan_all()
    run.now_s += 7

    run.hears("w1", "a", a_result(1, ended_at_s=NOW_S + 3600))

    assert [demand.ready_s for demand in run.look().demands] == [NOW_S + 7]


def test_what_follows_a_fan_out_of_nothing_still_waits_for_what_comes_before_it() -> None:
    run = RunStage(a_task("a"), a_task("none", "a", count=0), a_task("b", "none"))

    assert [demand.task for demand in run.look().demands] == ["a"]
    run.plan_all()
    run.now_s += 7
    run.hears("w1", "a", a_result(1, ended_at_s=NOW_S + 5))
    assert run.look().demands == (Demand("b", 1, Priority.NORMAL, NOW_S + 5),)


def test_what_follows_a_fan_out_of_nothing_is_skipped_when_what_comes_before_it_fails() -> None:
    run = RunStage(a_task("a"), a_task("none", "a", count=0), a_task("b", "none"))
    run.plan_all()

    run.says("a", Outcome.FAILED, exit_code=1)
    run.plan()

    assert run.phases("ab") == [JobPhase.FAILED, JobPhase.SKIPPED]


def test_a_run_without_jobs_succeeds_at_once() -> None:
    run = RunStage(a_task("none", count=0))

    run.plan()

    assert (run.state.phase, run.state.reason, run.state.total) == (RunPhase.SUCCEEDED, "AllSucceeded", 0)


def test_a_task_asks_for_no_more_slots_than_may_run_at_once() -> None:
    run = RunStage(a_task("load", count=10, max_parallel=3))

    run.plan(("load", "w1"))

    assert [demand.count for demand in run.look().demands] == [2]


def test_a_task_at_its_limit_asks_for_none() -> None:
    run = RunStage(a_task("load", count=10, max_parallel=1))

    run.plan_all()

    assert run.look().demands == ()


def test_a_wide_run_has_no_more_jobs_open_than_its_object_has_room_for() -> None:
    run = RunStage(a_task("load", count=JOBS_OPEN_MAX), a_task("more", count=10))
    assert [demand.count for demand in run.look().demands] == [JOBS_OPEN_MAX]
    run.plan(*[("load", "w1")] * 2)

    run.says("load/0")
    run.plan()

    assert [(demand.task, demand.count) for demand in run.look().demands] == [("load", JOBS_OPEN_MAX - 2), ("more", 1)]


def test_retries_that_are_due_start_though_a_run_has_more_jobs_open_than_it_may() -> None:
    tasks = a_task("a", count=JOBS_OPEN_MAX), a_task("b", count=9)
    waiting = {a_job(f"a/{index}"): Waiting(2, 0, NOW_S + 60) for index in range(JOBS_OPEN_MAX)}
    state = RunState(RunPhase.RUNNING, start_s=NOW_S, waiting={**waiting, a_job("b/0"): Waiting(2, 0, NOW_S)})

    plan = advance_run(state, a_graph(*tasks), a_definition(*tasks), RunStage().facts(), NOW_S)

    assert [(demand.task, demand.count) for demand in plan.demands] == [("b", 1)]


# Leases.


def test_all_leases_of_one_write_carry_one_token_and_the_next_write_a_higher_one() -> None:
    run = RunStage(a_task("load", count=3))

    run.plan(("load", "w1"), ("load", "w2"))
    run.plan(("load", "w1"))

    assert [(run.lease(f"load/{i}").token, run.lease(f"load/{i}").worker) for i in range(3)] == [
        (1, "w1"),
        (1, "w2"),
        (2, "w1"),
    ]
    assert (run.state.phase, run.state.lease_counter) == (RunPhase.RUNNING, 2)


def test_a_write_that_leases_nothing_raises_no_token() -> None:
    run = RunStage(a_task("load"))

    run.plan()

    assert (run.state.phase, run.state.lease_counter) == (RunPhase.PENDING, 0)


def test_retries_that_are_due_come_before_jobs_never_started_and_each_by_index() -> None:
    run = RunStage(a_task("load", count=4, retries=1))
    run.plan(("load", "w1"), ("load", "w1"))
    run.says("load/0", Outcome.FAILED, exit_code=1)
    run.says("load/1", Outcome.FAILED, exit_code=1)
    run.plan()

    run.now_s += 10
    run.plan(("load", "w1"), ("load", "w1"), ("load", "w1"))

    assert [run.lease(f"load/{i}").attempt for i in range(3)] == [2, 2, 1]
    assert run.phase("load/3") is JobPhase.PENDING


def test_a_retry_that_is_not_due_stays_behind_when_its_siblings_start() -> None:
    run = RunStage(a_task("load", count=2, retries=1, max_parallel=1))
    run.plan_all()
    run.says("load/0", Outcome.FAILED)

    run.plan_all()

    assert run.phases(["load/0", "load/1"]) == [JobPhase.QUEUED, JobPhase.RUNNING]


def test_grants_that_no_job_wants_any_more_are_given_back() -> None:
    run = RunStage(a_task("a"), a_task("b", "a"))
    grants = [Grant(RUN, "a", "w1"), Grant(RUN, "a", "w2"), Grant(RUN, "b", "w1")]

    leased, unused = lease_jobs(run.look(), run.graph, grants, NOW_S)

    assert [lease.worker for lease in leased.leases.values()] == ["w1"]
    assert unused == grants[1:]
    assert lease_jobs(run.look(), run.graph, grants[2:], NOW_S) == (run.look().state, grants[2:])


def test_what_a_leader_writes_carries_its_epoch() -> None:
    run = RunStage(a_task("a"))
    run.epoch = 7

    run.plan()

    assert run.state.epoch == 7


# Results.


def test_a_result_under_the_lease_on_record_ends_the_job_and_the_run() -> None:
    run = RunStage(a_task("a"))
    run.plan_all()

    run.now_s += 5
    run.says("a")
    run.plan()

    assert run.phase("a") is JobPhase.SUCCEEDED
    assert (run.state.phase, run.state.done, run.state.total) == (RunPhase.SUCCEEDED, 1, 1)
    assert (run.state.start_s, run.state.finish_s) == (NOW_S, NOW_S + 5)


@pytest.mark.parametrize(
    ("worker", "job", "token"),
    [("w2", "load/0", 1), ("w1", "load/0", 2), ("w1", "load/0", 0), ("w1", "load/1", 1), ("w1", "other", 1)],
)
def test_a_result_that_differs_from_the_lease_in_anything_changes_nothing(worker: str, job: str, token: int) -> None:
    run = RunStage(a_task("load", count=2))
    run.plan(("load", "w1"))
    want = run.look().state

    run.hears(worker, job, a_result(token))

    assert run.look().state == want


def test_of_two_results_under_one_token_the_first_counts() -> None:
    run = RunStage(a_task("a"))
    run.plan_all()

    run.says("a", Outcome.SUCCEEDED)
    run.says("a", Outcome.FAILED, exit_code=1)
    run.plan()

    assert run.phase("a") is JobPhase.SUCCEEDED


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMED_OUT])
def test_a_failed_attempt_is_made_again_after_its_back_off_and_the_last_one_fails_the_run(outcome: Outcome) -> None:
    run = RunStage(a_task("a", retries=1), a_task("b", "a"))
    run.plan_all()
    run.says("a", outcome)

    plan = run.plan()

    assert run.state.waiting == {a_job("a"): Waiting(2, 0, NOW_S + 10)}
    assert (plan.wake_at_s, plan.demands) == (NOW_S + 10, ())
    run.now_s += 10
    run.plan_all()
    run.says("a", outcome)
    plan = run.plan()
    assert plan.failed == (a_job("a"),)
    assert run.phases("ab") == [JobPhase.FAILED, JobPhase.SKIPPED]
    assert (run.state.phase, run.state.reason) == (RunPhase.FAILED, "JobsFailed")
    assert run.state.message == f"job a/0 failed: {outcome}"


def test_a_job_that_can_start_nowhere_is_not_tried_again() -> None:
    run = RunStage(a_task("a", retries=5))
    run.plan_all()

    run.hears("w1", "a", a_result(1, Outcome.INVALID, message="revision etl-12x8hra2aq is gone"))
    run.plan()

    assert run.phase("a") is JobPhase.FAILED
    assert run.state.message == "job a/0 failed: Invalid: revision etl-12x8hra2aq is gone"


def test_a_run_names_one_failed_job_with_exit_code_and_output_and_counts_the_others() -> None:
    run = RunStage(a_task("load", count=3))
    run.plan_all()
    for index in (2, 0, 1):
        run.hears("w1", f"load/{index}", a_result(1, Outcome.FAILED, exit_code=3, message="no such file"))

    run.plan()

    assert run.state.message == "job load/0 failed: Failed exit 3: no such file (and 2 more)"


def test_a_job_that_was_handed_back_is_leased_again_at_once_as_the_same_attempt() -> None:
    run = RunStage(a_task("a"))
    run.plan_all("w1")
    run.says("a", Outcome.HANDED_BACK)

    run.plan_all("w2")

    assert (run.lease("a").worker, run.lease("a").attempt, run.lease("a").losses) == ("w2", 1, 0)


# Losses, and leases that are taken back.


def test_a_job_whose_worker_is_lost_is_leased_again_at_once_and_has_not_failed() -> None:
    run = RunStage(a_task("a"))
    run.plan_all("w1")
    run.lost = {"w1"}

    run.plan_all("w2")

    assert (run.lease("a").token, run.lease("a").attempt, run.lease("a").losses) == (2, 1, 1)


def test_a_result_that_came_before_its_worker_was_lost_counts() -> None:
    run = RunStage(a_task("a"))
    run.plan_all()
    run.says("a")
    run.lost = {"w1"}

    run.plan()

    assert run.phase("a") is JobPhase.SUCCEEDED


def test_a_job_that_loses_too_many_workers_is_given_up() -> None:
    run = RunStage(a_task("a"))
    for losses in range(LOSS_LIMIT_DEFAULT + 1):
        run.plan_all(f"w{losses}")
        run.lost.add(f"w{losses}")

    plan = run.plan()

    assert plan.failed == (a_job("a"),)
    assert run.state.message == "job a/0 failed: WorkerLost: it has lost 6 of its workers, lossLimit allows 5"


def test_how_many_workers_a_job_may_lose_is_its_tasks_to_say() -> None:
    run = RunStage(a_task("a", retries=9, loss_limit=0))
    run.plan_all()
    run.lost.add("w1")

    run.plan()

    assert run.state.message == "job a/0 failed: WorkerLost: it has lost 1 of its workers, lossLimit allows 0"


def test_an_exit_code_that_no_retry_helps_fails_the_job_at_once_and_says_so() -> None:
    run = RunStage(a_task("a", retries=9, fail_on=(2,)))
    run.plan_all()
    run.says("a", Outcome.FAILED, exit_code=2)

    run.plan()

    assert run.state.message == "job a/0 failed: Failed exit 2, not tried again as exit code 2 is in failOn"


def test_losses_of_workers_use_up_no_retries_and_failures_no_losses() -> None:
    run = RunStage(a_task("a", retries=1, loss_limit=1))
    run.plan_all("w1")
    run.lost.add("w1")
    run.plan_all("w2")
    run.says("a", Outcome.FAILED, exit_code=1)
    run.plan()
    run.now_s += 10

    run.plan_all("w3")

    assert (run.lease("a").attempt, run.lease("a").losses) == (2, 1)


def test_a_job_that_its_worker_stopped_unasked_counts_as_lost() -> None:
    run = RunStage(a_task("a"))
    run.plan_all()
    run.says("a", Outcome.STOPPED)

    run.plan()

    assert run.state.waiting == {a_job("a"): Waiting(1, 1, NOW_S)}


def test_a_job_that_was_stopped_for_being_over_its_limit_has_used_an_attempt() -> None:
    run = RunStage(a_task("a", retries=1))
    run.plan_all()
    lease = run.lease("a")
    stopped = a_result(lease.token, Outcome.STOPPED, None)
    run.reports.append(Report(lease.worker, a_job("a"), stopped, told_to_stop=True))

    run.plan()

    assert run.state.waiting == {a_job("a"): Waiting(2, 0, NOW_S + 10)}


def test_a_lease_that_found_no_slot_is_given_again_under_the_next_token_and_costs_nothing() -> None:
    run = RunStage(a_task("a"))
    run.plan_all("w1")
    run.refused = {(a_job("a"), 1)}

    run.plan_all("w2")

    assert (run.lease("a").token, run.lease("a").attempt, run.lease("a").losses) == (2, 1, 0)


@pytest.mark.parametrize("facts", ["refused", "withdrawn"])
def test_what_became_of_an_older_lease_says_nothing_of_the_one_on_record(facts: str) -> None:
    run = RunStage(a_task("a"))
    run.plan_all()

    setattr(run, facts, {(a_job("a"), 0)})
    run.plan()

    assert run.lease("a").token == 1


def test_a_job_that_did_not_obey_its_time_limit_has_used_up_an_attempt() -> None:
    run = RunStage(a_task("a", retries=1))
    run.plan_all()
    run.withdrawn = {(a_job("a"), 1)}

    run.plan()

    assert run.state.waiting == {a_job("a"): Waiting(2, 0, NOW_S + 10)}
