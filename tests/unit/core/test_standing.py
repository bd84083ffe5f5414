"""How an end spreads through a graph: skips, rules that go on, parts that have nothing to do with each other."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from fencepost.core.phases import JobPhase, RunPhase
from fencepost.core.rules import Rule
from fencepost.core.run_state import Outcome
from tests.unit.support.builders import NOW_S, a_result, a_task
from tests.unit.support.run_stage import RunStage

SUCCEEDED, FAILED, SKIPPED, PENDING = JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.SKIPPED, JobPhase.PENDING


def test_a_skip_spreads_as_far_as_it_goes_in_the_write_that_records_the_failure() -> None:
    run = RunStage(a_task("a"), a_task("b", "a"), a_task("c", "b"), a_task("d", "c", count=3))
    run.plan_all()

    run.says("a", Outcome.FAILED)
    run.plan()

    assert run.phases(["a", "b", "c", "d/0", "d/2"]) == [FAILED, SKIPPED, SKIPPED, SKIPPED, SKIPPED]
    assert (run.state.phase, run.state.done) == (RunPhase.FAILED, 6)


def test_a_part_that_does_not_depend_on_what_failed_goes_on() -> None:
    run = RunStage(a_task("a"), a_task("b", "a"), a_task("x"), a_task("y", "x"))
    run.plan_all()

    run.says("a", Outcome.FAILED)
    run.says("x")
    run.plan_all()
    run.says("y")
    run.plan()

    assert run.phases("abxy") == [FAILED, SKIPPED, SUCCEEDED, SUCCEEDED]
    assert run.state.phase is RunPhase.FAILED


def test_a_final_task_runs_whatever_came_before_it_and_the_run_is_failed_all_the_same() -> None:
    run = RunStage(a_task("a"), a_task("b", "a"), a_task("last", "a", "b", rule=Rule.ALL_DONE))
    run.plan_all()

    run.says("a", Outcome.FAILED)
    run.plan_all()
    run.says("last")
    run.plan()

    assert run.phases(["a", "b", "last"]) == [FAILED, SKIPPED, SUCCEEDED]
    assert (run.state.phase, run.state.reason) == (RunPhase.FAILED, "JobsFailed")


def test_what_is_there_for_a_failure_is_skipped_when_nothing_fails() -> None:
    run = RunStage(a_task("a"), a_task("b"), a_task("alarm", "a", "b", rule=Rule.ANY_FAILED))
    run.plan_all()

    run.says("a")
    run.plan()
    assert run.phase("alarm") is PENDING
    run.says("b")
    run.plan()

    assert run.phase("alarm") is SKIPPED
    assert run.state.phase is RunPhase.SUCCEEDED


def test_what_waits_for_any_success_waits_for_the_last_parent_all_the_same() -> None:
    run = RunStage(a_task("a"), a_task("b"), a_task("c", "a", "b", rule=Rule.ANY_SUCCEEDED))
    run.plan_all()

    run.says("a")
    run.plan_all()
    assert run.phase("c") is PENDING
    run.now_s += 5
    run.says("b", Outcome.FAILED)

    assert [demand.task for demand in run.look().demands] == ["c"]


def test_a_fan_out_counts_as_failed_when_one_of_its_jobs_has_failed_and_the_last_has_ended() -> None:
    run = RunStage(a_task("a", count=2), a_task("fix", "a", rule=Rule.ALL_FAILED))
    run.plan_all()

    run.says("a/0", Outcome.FAILED)
    run.plan()
    assert run.look().demands == ()
    run.says("a/1")

    assert [demand.task for demand in run.look().demands] == ["fix"]


def test_a_fan_out_of_nothing_whose_rule_is_not_met_counts_as_skipped() -> None:
    run = RunStage(
        a_task("a"),
        a_task("none", "a", count=0, rule=Rule.ANY_FAILED),
        a_task("b", "none"),
        a_task("c", "none", rule=Rule.NONE_FAILED),
    )
    run.plan_all()

    run.says("a")
    plan = run.plan()

    assert run.phases("bc") == [SKIPPED, PENDING]
    assert [demand.task for demand in plan.demands] == ["c"]


def test_a_run_that_is_cancelled_runs_nothing_more_whatever_the_rules_say() -> None:
    run = RunStage(a_task("a"), a_task("last", "a", rule=Rule.ALL_DONE))
    run.plan_all()
    run.cancelled = True

    run.says("a", Outcome.STOPPED)
    run.plan()

    assert run.phases(["a", "last"]) == [JobPhase.CANCELLED, JobPhase.CANCELLED]
    assert run.state.phase is RunPhase.CANCELLED


def test_the_cost_of_a_plan_grows_with_the_tasks_and_not_with_their_square() -> None:
    """Counted in calls, so that no other work on the machine can be seen in it."""
    costs = []
    for size in (500, 5000):
        run = RunStage(a_task("t0"), *[a_task(f"t{place}", f"t{place - 1}") for place in range(1, size)])
        run.plan_all()
        run.says("t0", Outcome.FAILED)
        plan, calls = counted(run.look)
        assert plan.state.done == size
        costs.append(calls)

    assert costs[1] < 11 * costs[0]


T = TypeVar("T")


def counted(function: Callable[[], T]) -> tuple[T, int]:
    """What the function gives, and how many calls it took."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        given = function()
        return given, calls
    finally:
        sys.setprofile(None)


def test_since_when_a_task_could_have_run_is_when_its_last_parent_ended() -> None:
    run = RunStage(a_task("a"), a_task("b"), a_task("c", "a", "b", rule=Rule.ALL_DONE))
    run.plan_all()

    run.says("a", Outcome.FAILED)
    run.now_s += 30
    run.plan()
    run.now_s += 30
    run.hears("w1", "b", a_result(1, ended_at_s=NOW_S + 40))

    assert [demand.ready_s for demand in run.look().demands] == [NOW_S + 40]
