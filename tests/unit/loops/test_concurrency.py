"""Runs of one DAG that meet: they wait in a row, or the newer takes the place of the older; whoever dies meanwhile."""

import pytest

from fencepost.api.names import DAG_RUNS, DAGS, EVENTS
from fencepost.core.phases import RunPhase
from fencepost.core.run_state import RunState
from fencepost.kube.errors import ConnectionLostError
from fencepost.memory.faults import Fault
from tests.unit.loops.stage import Stage, a_task, play, slot

QUEUE = {"policy": "Queue"}
REPLACE = {"policy": "Replace"}


def waiting(state: RunState) -> str:
    """Why a run has not begun; empty when it has."""
    return state.reason if state.start_s is None else ""


def test_a_run_that_finds_no_room_waits_in_the_queue_and_begins_when_the_one_before_has_ended() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl", cron="* * * * *", concurrency=QUEUE)
        await stage.at(125.0)
        assert stage.run(slot(1)).phase is RunPhase.RUNNING
        assert waiting(stage.run(slot(2))) == "Queued"
        assert stage.run(slot(2)).message == "1 of 1 runs is under way; it begins in its turn, once there is room"
        worker.runner.jobs[0].end()
        await stage.until(lambda: stage.run(slot(2)).phase is RunPhase.RUNNING)
        assert stage.finished(slot(1))
        status = stage.get(DAGS, "etl")["status"]
        assert (status["fired"], status.get("skipped", 0)) == (2, 0)

    play(story)


def test_runs_leave_the_queue_one_at_a_time_in_the_order_in_which_they_came() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=90.0)
        stage.dag("etl", cron="* * * * *", concurrency=QUEUE)
        began: list[str] = []
        while stage.now_s < 600.0:
            await stage.pass_time(1.0)
            running = [run["metadata"]["name"] for run in stage.all(DAG_RUNS) if run["status"]["phase"] == "Running"]
            assert len(running) <= 1
            began += [name for name in running if name not in began]
        assert began == [slot(minute) for minute in range(1, 7)]

    play(story)


def test_a_queue_that_is_full_lets_slots_go_and_counts_them() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader()
        stage.worker(job_s=None)
        stage.dag("etl", cron="* * * * *", concurrency={**QUEUE, "queueLimit": 2})
        await stage.at(315.0)
        assert await stage.slots_fired("etl") == {1: 1, 2: 1, 3: 1}
        status = stage.get(DAGS, "etl")["status"]
        assert (status["skipped"], status["active"]) == (2, 3)
        assert ann.count("slots_passed_total", fate="skipped") == 2
        [event] = [event for event in stage.all(EVENTS) if event["reason"] == "SlotSkipped"]
        assert "2 of 2 runs wait already" in event["message"]

    play(story)


def test_a_run_made_by_hand_takes_its_place_in_the_queue() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl", cron="* * * * *", concurrency=QUEUE)
        await stage.at(65.0)
        stage.manual_run("by-hand", "etl")
        await stage.at(125.0)
        assert (waiting(stage.run("by-hand")), waiting(stage.run(slot(2)))) == ("Queued", "Queued")
        worker.runner.jobs[0].end()
        await stage.until(lambda: stage.run("by-hand").phase is RunPhase.RUNNING)
        assert waiting(stage.run(slot(2))) == "Queued"

    play(story)


def test_a_run_that_waits_can_be_cancelled_and_then_the_next_one_begins() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl", cron="* * * * *", concurrency=QUEUE)
        await stage.at(185.0)
        stage.edit(DAG_RUNS, slot(2), cancel=True)
        await stage.until(lambda: stage.run(slot(2)).phase is RunPhase.CANCELLED)
        worker.runner.jobs[0].end()
        await stage.until(lambda: stage.run(slot(3)).phase is RunPhase.RUNNING)

    play(story)


@pytest.mark.parametrize("limit", [2, None])
def test_who_waits_begins_when_the_limit_is_raised_or_removed(limit: int | None) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=None)
        stage.dag("etl", cron="* * * * *", concurrency=QUEUE)
        await stage.at(130.0)
        stage.edit(DAGS, "etl", concurrency={"policy": "Allow"} if limit is None else {**QUEUE, "limit": limit})
        await stage.until(lambda: stage.run(slot(2)).phase is RunPhase.RUNNING)

    play(story)


def test_a_queue_outlives_its_leader() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader("Ann")
        worker = stage.worker(job_s=None)
        stage.dag("etl", cron="* * * * *", concurrency=QUEUE)
        await stage.at(185.0)
        ann.kill()
        stage.leader("Ben")
        await stage.pass_time(5.0)
        assert [waiting(stage.run(slot(minute))) for minute in (1, 2, 3)] == ["", "Queued", "Queued"]
        worker.runner.jobs[0].end()
        await stage.until(lambda: stage.run(slot(2)).phase is RunPhase.RUNNING)
        await stage.pass_time(5.0)
        assert waiting(stage.run(slot(3))) == "Queued"

    play(story)


def test_who_leads_again_lets_runs_begin_though_another_has_ended_what_it_had_let_in() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader("Ann")
        worker = stage.worker(job_s=None)
        stage.dag("etl", cron="* * * * *", concurrency=QUEUE)
        await stage.at(70.0)
        stage.leader("Ben")
        await stage.pass_time(2.0)
        worker.runner.jobs[0].end()
        await stage.until(lambda: stage.finished(slot(1)))
        stage.lead(ann)
        await stage.at(125.0)
        assert stage.run(slot(2)).phase is RunPhase.RUNNING

    play(story)


def test_a_run_that_ends_in_the_write_that_makes_it_takes_no_room() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl", a_task("load", when="run.dag == 'other'"), cron="* * * * *", concurrency=QUEUE)
        await stage.at(150.0)
        assert stage.finished(slot(1), slot(2))

    play(story)


def test_two_runs_made_by_hand_in_the_same_moment_do_not_both_begin() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=None)
        stage.dag("etl", concurrency=QUEUE)
        await stage.pass_time(1.0)
        for number in range(5):
            stage.manual_run(f"r{number}", "etl")
        await stage.pass_time(10.0)
        assert [waiting(stage.run(f"r{number}")) for number in range(5)] == ["", *["Queued"] * 4]

    play(story)


def test_a_new_run_takes_the_place_of_the_old_one_once_that_has_stopped() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl", cron="* * * * *", concurrency=REPLACE)
        worker.runner.stubborn = True
        await stage.at(65.0)
        [old] = worker.runner.jobs
        await stage.at(121.0)
        assert waiting(stage.run(slot(2))) == "Replacing"
        assert not stage.finished(slot(1)), "its job has not stopped yet"
        assert stage.get(DAG_RUNS, slot(1))["spec"]["cancel"] is True
        old.end()
        await stage.until(lambda: stage.run(slot(2)).phase is RunPhase.RUNNING, limit_s=5.0)
        assert stage.run(slot(1)).phase is RunPhase.CANCELLED
        assert stage.run(slot(1)).message == f"replaced by run {slot(2)}"

    play(story)


@pytest.mark.parametrize("after_s", [120.05, 120.2, 120.5, 121.0])
def test_a_leader_that_dies_between_cancelling_and_starting_loses_no_slot(after_s: float) -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader("Ann")
        worker = stage.worker(job_s=None)
        stage.dag("etl", cron="* * * * *", concurrency=REPLACE)
        worker.runner.stubborn = True
        await stage.at(after_s)
        ann.kill()
        await stage.at(130.0)
        worker.runner.jobs[0].end()
        stage.leader("Ben")
        await stage.until(lambda: stage.run(slot(2)).phase is RunPhase.RUNNING, limit_s=30.0)
        assert stage.finished(slot(1))
        assert await stage.slots_fired("etl") == {1: 1, 2: 1}

    play(story)


def test_the_successors_create_whose_answer_was_lost_replaces_all_the_same() -> None:
    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        stage.worker(job_s=None)
        stage.dag("etl", cron="* * * * *", concurrency=REPLACE)
        await stage.at(100.0)
        stage.once("Ann", "create", DAG_RUNS, Fault(error=ConnectionLostError("reset"), carried_out=True))
        await stage.until(lambda: stage.run(slot(2)).phase is RunPhase.RUNNING, limit_s=60.0)
        assert stage.run(slot(1)).phase is RunPhase.CANCELLED

    play(story)


def test_of_many_that_come_while_the_old_one_stops_only_the_latest_begins() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl", concurrency=REPLACE, terminationGracePeriod="60s")
        worker.runner.stubborn = True
        stage.manual_run("r0", "etl")
        await stage.until(lambda: bool(worker.runner.jobs))
        for number in range(1, 4):
            await stage.pass_time(2.0)
            stage.manual_run(f"r{number}", "etl")
        await stage.pass_time(2.0)
        worker.runner.jobs[0].end()
        await stage.until(lambda: stage.run("r3").phase is RunPhase.RUNNING)
        assert [stage.run(f"r{number}").phase for number in range(3)] == [RunPhase.CANCELLED] * 3
        await stage.pass_time(1.0)
        assert len(stage.started) == 2

    play(story)


def test_a_slots_run_is_the_newest_also_where_its_leaders_clock_is_behind() -> None:
    """A run made by hand has a later time by the API server's clock than the slot's run will have by the leader's: the
    slot's run takes its place all the same, and does not begin beside it."""

    async def story(stage: Stage) -> None:
        stage.leader().clock.ahead_s = -5.0
        stage.worker(job_s=None)
        stage.dag("etl", cron="* * * * *", concurrency=REPLACE)
        await stage.at(62.0)
        stage.manual_run("r1", "etl")
        await stage.until(lambda: stage.find(DAG_RUNS, slot(1)) is not None)
        assert waiting(stage.run(slot(1))) == "Replacing"
        assert stage.run("r1").phase is RunPhase.RUNNING

    play(story)


def test_a_new_leader_counts_a_run_that_its_watch_has_not_told_of_yet() -> None:
    """What the barrier is for: with Forbid, the second minute is skipped for a run that Ben has never heard of."""

    async def story(stage: Stage) -> None:
        late = Fault(delay_s=250.0)
        stage.trouble(
            lambda name, request: late if (name, request.verb, request.kind) == ("Ben", "event", DAG_RUNS) else None
        )
        ann, ben = stage.leader(), stage.replica("Ben")
        stage.worker(job_s=100.0)
        stage.dag("etl", cron="* * * * *")
        await stage.at(65.0)
        assert stage.run(slot(1)).phase is RunPhase.RUNNING
        ann.kill()
        stage.lead(ben)
        await stage.at(130.0)
        assert await stage.slots_fired("etl") == {1: 1}
        assert stage.get(DAGS, "etl")["status"]["skipped"] == 1

    play(story)
