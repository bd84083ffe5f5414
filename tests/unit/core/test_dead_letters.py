"""Dead letters: who leaves one, what it tells, how a run waits for it, and who makes room for whom."""

import re
from collections.abc import Iterator

import pytest

from fencepost.core.dead_letters import (
    Letter,
    Replayed,
    Stored,
    letter_name,
    only_from,
    replay_run_name,
    to_make_room,
)
from fencepost.core.draft import Draft
from fencepost.core.intervals import IntervalSet
from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase, RunPhase
from fencepost.core.run_state import Death, LetterSet, Outcome, RunState
from tests.unit.support.builders import NOW_S, RUN_UID, a_graph, a_job, a_result, a_task
from tests.unit.support.run_stage import RunStage


def started(*tasks: object, **more: float) -> RunStage:
    stage = RunStage(*(tasks or (a_task("only"),)), **more)  # type: ignore[arg-type]
    stage.letters_room = 100
    stage.plan_all()
    return stage


def test_a_job_that_has_failed_for_good_is_dying_until_its_letter_is_written_and_the_run_waits_for_it() -> None:
    stage = started()
    lease = stage.lease("only")
    stage.hears(lease.worker, "only", a_result(lease.token, Outcome.FAILED, 3, NOW_S + 1, NOW_S + 2))
    stage.plan()

    assert stage.state.dying == {a_job("only"): Death(0, 1, 0, "Failed", 3, NOW_S + 1, NOW_S + 2)}
    assert (str(stage.state.phase), stage.state.reason) == ("Running", "DeadLetters")
    assert stage.state.message == "all jobs have ended; 1 dead letter is still to be written"
    assert (stage.phase("only"), stage.state.done) == (JobPhase.FAILED, 1)

    stage.lettered = {a_job("only")}
    stage.plan()
    assert not stage.state.dying
    assert stage.state.phase is RunPhase.FAILED


def test_a_job_with_a_retry_left_does_not_die() -> None:
    stage = started(a_task("only", retries=1))
    stage.says("only", Outcome.FAILED, 3)
    stage.plan()
    assert not stage.state.dying

    stage.now_s += 60
    stage.plan_all()
    stage.says("only", Outcome.TIMED_OUT)
    stage.plan()
    assert stage.state.dying == {a_job("only"): Death(0, 2, 0, "TimedOut")}


def test_a_job_that_lost_too_many_workers_dies_though_nobody_says_so() -> None:
    stage = started()
    while not stage.state.dying:
        stage.lost = {stage.lease("only").worker}
        stage.plan()
        stage.lost = set()
        stage.plan_all()

    death = stage.state.dying[a_job("only")]
    assert (death.attempt, death.losses, death.outcome) == (1, 6, "WorkerLost")


def test_a_job_that_found_no_slot_in_time_dies_before_it_was_started() -> None:
    stage = RunStage(a_task("only", queue_timeout_s=60.0))
    stage.letters_room = 100
    stage.plan()
    stage.now_s += 61
    stage.plan()

    assert stage.state.dying == {a_job("only"): Death(0, 0, 0, "NotStarted")}


def test_a_retry_that_found_no_slot_in_time_tells_of_the_attempts_before() -> None:
    stage = started(a_task("only", retries=2, queue_timeout_s=60.0))
    stage.says("only", Outcome.FAILED, 3)
    stage.plan()
    stage.now_s += 600
    stage.plan()

    assert stage.state.dying == {a_job("only"): Death(0, 1, 0, "NotStarted")}


def test_jobs_that_fail_as_their_run_is_stopped_leave_no_letters() -> None:
    stage = started()
    stage.cancelled = True
    stage.says("only", Outcome.FAILED, 3)
    plan = stage.plan()

    assert not stage.state.dying
    assert plan.unlettered == 0
    assert stage.state.phase is RunPhase.CANCELLED


def test_beyond_the_room_for_letters_deaths_are_only_counted() -> None:
    stage = started(a_task("load", count=5))
    stage.letters_room = 2
    for index in range(5):
        stage.says(f"load/{index}", Outcome.FAILED, 1)
    plan = stage.plan()

    assert sorted(map(str, stage.state.dying)) == ["load/0", "load/1"]
    assert plan.unlettered == 3


def test_dying_jobs_take_the_room_of_open_ones() -> None:
    stage = started(a_task("load", count=3), a_task("next", count=10_000))
    for index in range(3):
        stage.says(f"load/{index}", Outcome.FAILED, 1)
    (before,) = (demand.count for demand in RunStage(a_task("next", count=10_000)).look().demands)
    stage.plan_all()

    draft = Draft(stage.state)
    assert draft.open_count <= before
    assert len(stage.state.dying) == 3


def test_a_job_that_is_marked_while_its_letter_is_not_written_needs_none() -> None:
    stage = started(a_task("only"), a_task("slow"))
    stage.says("only", Outcome.FAILED, 1)
    stage.plan()
    stage.mark("only", JobPhase.SUCCEEDED)
    stage.plan()

    assert not stage.state.dying


def test_a_round_that_replays_letters_does_not_end_before_they_tell_of_it() -> None:
    stage = started()
    stage.says("only", Outcome.FAILED, 1)
    stage.plan()
    stage.lettered = {a_job("only")}
    stage.plan()
    stage.run_again(replays={LetterSet("only", 0): IntervalSet.of([0])})
    stage.plan_all()
    stage.says("only")
    stage.plan()

    assert (str(stage.state.phase), stage.state.reason) == ("Running", "DeadLetters")
    stage.told = {LetterSet("only", 0): IntervalSet.of([0])}
    stage.plan()
    assert (stage.state.phase, stage.state.replays) == (RunPhase.SUCCEEDED, {})


def test_what_is_told_of_a_few_replays_leaves_the_others_noted() -> None:
    stage = started()
    stage.says("only", Outcome.FAILED, 1)
    stage.plan()
    stage.lettered = {a_job("only")}
    stage.plan()
    stage.run_again(replays={LetterSet("only", 0): IntervalSet.of([0, 1, 2])})
    stage.told = {LetterSet("only", 0): IntervalSet.of([1]), LetterSet("only", 7): IntervalSet.of([0])}
    stage.plan_all()

    assert stage.state.replays == {LetterSet("only", 0): IntervalSet.of([0, 2])}


def test_names_of_letters_and_of_runs_that_replay_them_are_derived_and_never_those_of_slots() -> None:
    def names() -> Iterator[str]:
        for index in range(500):
            letter = letter_name("etl", RUN_UID, JobKey("load", index), 0)
            yield letter
            yield replay_run_name("etl", letter, 1)

    assert len(set(names())) == 1000
    assert list(names()) == list(names())
    assert all(len(name) == len("etl-") + 10 and not re.fullmatch("etl-[0-9]{10}", name) for name in names())
    job = a_job("load/1")
    others = {letter_name("etl", RUN_UID, job, 1), letter_name("etl", "another", job, 0)}
    assert letter_name("etl", RUN_UID, job, 0) not in others


def letters(*kept: tuple[str, bool]) -> list[Stored]:
    """Letters from the oldest on, each with whether it was replayed with success."""
    return [Stored(name, float(age), well) for age, (name, well) in enumerate(kept)]


@pytest.mark.parametrize(
    ("kept", "limit", "want"),
    [
        ((), 1, []),
        ((), 0, None),
        ((("a", False),), 2, []),
        ((("a", False), ("b", True), ("c", True)), 3, ["b"]),
        ((("a", False), ("b", True), ("c", True)), 2, ["b", "c"]),
        ((("a", False), ("b", True)), 1, None),
        ((("a", False), ("b", False)), 2, None),
    ],
)
def test_the_oldest_letters_that_were_replayed_with_success_make_room(
    kept: tuple[tuple[str, bool], ...], limit: int, want: list[str] | None
) -> None:
    assert to_make_room(letters(*kept), limit) == want


def test_a_new_run_of_one_job_runs_it_and_what_depends_on_it_and_nothing_else() -> None:
    graph = a_graph(a_task("a"), a_task("load", "a", count=3), a_task("report", "load"), a_task("aside"))

    state = only_from(graph, a_job("load/1"), epoch=4)

    assert state is not None
    assert (state.epoch, state.done, state.total) == (4, 4, 6)
    stage = RunStage(*graph.order)
    stage.state = state
    stage.plan_all()
    assert [str(job) for job in stage.state.leases] == ["load/1"]
    stage.says("load/1")
    stage.plan_all()
    assert [str(job) for job in stage.state.leases] == ["report/0"]
    stage.says("report")
    stage.plan()
    assert stage.state.phase is RunPhase.SUCCEEDED


def test_there_is_no_run_of_a_job_that_there_is_not() -> None:
    graph = a_graph(a_task("load", count=3))

    assert only_from(graph, a_job("load/3"), epoch=4) is None
    assert only_from(graph, a_job("other/0"), epoch=4) is None


def test_a_letter_is_pending_while_it_does_not_tell_of_the_last_replay_asked_for() -> None:
    letter = Letter("etl", "r1", RUN_UID, a_job("load/1"), 0, replay=2, replayed=Replayed("Succeeded", 1))

    assert letter.pending
    assert not Letter("etl", "r1", RUN_UID, a_job("load/1"), 0).pending
    assert RunState().replays == {}
