"""Wall clocks that are wrong, that jump back and that jump forward."""

import logging

import pytest

from fencepost.api.names import DAG_RUNS, DAGS, DEAD_LETTERS
from fencepost.api.times import format_time
from tests.unit.loops.stage import NOON_S, Stage, a_task, play, slot
from tests.unit.loops.test_whole_replicas import SHARDS, Whole, all_led, assert_all_fired, every_minute


def held(replica: Whole) -> int:
    """How many shards it leads."""
    return len(replica.leadership.held)


@pytest.mark.parametrize("ahead_s", [-40.0, 40.0, 3600.0])
def test_a_replica_whose_clock_goes_wrong_fires_nothing_and_hands_its_shards_over_until_it_is_right_again(
    ahead_s: float,
) -> None:
    async def story(stage: Stage) -> None:
        wrong, right = Whole(stage, "op0"), Whole(stage, "op1")
        stage.worker(slots=32)
        names = every_minute(stage)
        await stage.until(lambda: all_led(stage) and held(wrong) == held(right), limit_s=10.0)
        await stage.at(30.0)
        wrong.clock.ahead_s = ahead_s
        took_s = await stage.until(lambda: held(right) == SHARDS, limit_s=10.0)
        assert took_s < 5.0, "the next renewal tells the others"
        assert "behind" if ahead_s < 0 else "ahead of" in wrong.clock_check.problem()
        await stage.at(130.0)
        assert held(wrong) == 0, "it takes nothing up while its clock is wrong"
        assert right.clock_check.problem() == ""
        assert wrong.count("clock_state_changes_total", state="wrong") == 1
        wrong.clock.ahead_s = 0.5
        await stage.until(lambda: held(wrong) == held(right), limit_s=10.0)
        assert wrong.clock_check.problem() == ""
        await stage.at(190.0)
        await assert_all_fired(stage, names, range(1, 4))

    play(story, shards=SHARDS)


def test_a_clock_that_is_a_few_seconds_off_is_told_of_once_and_fires_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="fencepost.loops.clock_check")

    async def story(stage: Stage) -> None:
        ann = stage.leader()
        ann.clock.ahead_s = -5.0
        stage.worker(job_s=0.1)
        stage.dag("etl", cron="* * * * *")
        await stage.at(64.0)
        assert await stage.slots_fired("etl") == {}
        await stage.at(130.0)
        assert await stage.slots_fired("etl") == {1: 1, 2: 1}
        assert ann.count("clock_state_changes_total", state="off") == 1
        assert ann.count("clock_skew_seconds") == pytest.approx(4.5, abs=0.6)
        assert ann.clock_check.problem() == ""

    play(story)
    [warning] = [record.getMessage() for record in caplog.records]
    assert "behind the API server's" in warning
    assert "fires that much late" in warning


def test_where_every_clock_is_wrong_nothing_scheduled_fires_and_runs_go_on(caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: Stage) -> None:
        replicas = [Whole(stage, "op0"), Whole(stage, "op1")]
        worker = stage.worker(slots=32, job_s=20.0)
        names = every_minute(stage)
        await stage.until(lambda: all_led(stage), limit_s=10.0)
        await stage.at(65.0)
        for replica in replicas:
            replica.clock.ahead_s = 90.0
        stage.manual_run("by-hand", names[0])
        await stage.at(150.0)
        assert all_led(stage)
        assert all(replica.leadership.held for replica in replicas), "somebody leads, so that runs go on"
        assert not any(replica.leadership.clock_right_somewhere for replica in replicas)
        assert stage.finished("by-hand")
        assert stage.finished(*(slot(1, name) for name in names))
        for name in names:
            assert await stage.slots_fired(name) == {1: 1}
        worker.runner.job_s = 1.0
        replicas[1].clock.ahead_s = 0.0
        await stage.until(lambda: held(replicas[1]) == SHARDS, limit_s=10.0)
        await stage.at(260.0)
        await assert_all_fired(stage, names, range(1, 5))

    play(story, shards=SHARDS)
    assert "NOTHING SCHEDULED FIRES" in caplog.text


def test_a_slot_that_had_come_by_a_wrong_clock_alone_fires_at_its_time() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader()
        stage.worker(job_s=0.1)
        stage.dag("etl", cron="* * * * *")
        await stage.at(30.0)
        ann.clock.ahead_s = 45.0
        await stage.at(40.0)
        assert stage.get(DAGS, "etl")["status"]["nextScheduledTime"] == format_time(NOON_S + 60)
        ann.clock.ahead_s = 0.0
        await stage.at(59.0)
        assert await stage.slots_fired("etl") == {}
        await stage.at(61.0)
        assert await stage.slots_fired("etl") == {1: 1}

    play(story)


def test_what_became_due_while_the_clock_was_wrong_is_made_up_for_by_the_same_leader() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader()
        stage.worker(job_s=0.1)
        stage.dag("etl", cron="* * * * *", concurrency={"policy": "Allow"})
        await stage.at(50.0)
        ann.clock.ahead_s = -100.0
        await stage.at(170.0)
        assert await stage.slots_fired("etl") == {}
        ann.clock.ahead_s = 0.0
        await stage.at(175.0)
        assert await stage.slots_fired("etl") == {1: 1, 2: 1}
        await stage.at(185.0)
        assert await stage.slots_fired("etl") == {1: 1, 2: 1, 3: 1}

    play(story)


def test_by_a_clock_that_is_far_ahead_nothing_is_deleted_for_its_age() -> None:
    """Neither runs, nor dead letters, nor DAGs that are over; the edits let everybody look."""

    async def story(stage: Stage) -> None:
        ann = stage.leader()
        worker = stage.worker(job_s=0.1)
        worker.runner.exit_codes["only"] = [1] * 10
        stage.dag("etl", history={"ttl": "10m"}, deadLetters={"ttl": "20m"})
        stage.manual_run("by-hand", "etl")
        stage.dag("once", a_task("last"), schedule={"at": format_time(NOON_S + 60)}, ttlAfterFinished="20m")
        await stage.at(200.0)
        assert stage.finished("by-hand", slot(1, "once"))

        def left() -> tuple[int, int, int]:
            return len(stage.all(DAG_RUNS)), len(stage.all(DEAD_LETTERS)), len(stage.all(DAGS))

        assert left() == (2, 1, 2)
        ann.clock.ahead_s = 10 * 86_400.0
        stage.edit(DAGS, "etl", priority="high")
        stage.edit(DAGS, "once", priority="high")
        await stage.at(400.0)
        assert left() == (2, 1, 2)
        ann.clock.ahead_s = 0.0
        await stage.at(900.0)
        assert left() == (1, 1, 2)
        await stage.at(1600.0)
        assert left() == (0, 0, 1)

    play(story)


@pytest.mark.parametrize("back_s", [20.0, 150.0])
def test_a_clock_that_jumps_back_fires_no_slot_again(back_s: float) -> None:
    """By so little that it is believed, and by so much that it is not."""

    async def story(stage: Stage) -> None:
        ann = stage.leader()
        stage.worker(job_s=0.1)
        stage.dag("etl", cron="* * * * *")
        await stage.at(125.0)
        ann.clock.ahead_s = -back_s
        await stage.at(178.0)
        assert await stage.slots_fired("etl") == {1: 1, 2: 1}
        ann.clock.ahead_s = 0.0
        await stage.at(200.0)
        assert await stage.slots_fired("etl") == {1: 1, 2: 1, 3: 1}

    play(story)


@pytest.mark.parametrize(
    ("catch_up", "want_fired", "want_missed"),
    [
        ({"policy": "None"}, {1, 16, 17, 18, 19, 20}, 14),
        ({"policy": "Latest"}, {1, 20}, 18),
        ({"policy": "All", "limit": 3}, {1, 18, 19, 20}, 16),
    ],
    ids=["None", "Latest", "All"],
)
def test_a_clock_that_jumps_forward_to_the_right_time_fires_what_became_due_under_the_rule_of_catch_up(
    catch_up: dict[str, object], want_fired: set[int], want_missed: int
) -> None:
    """As on a machine that started with a clock that was behind, and whose time is set then."""

    async def story(stage: Stage) -> None:
        ann = stage.leader()
        stage.worker(job_s=0.1)
        schedule = {"cron": ["* * * * *"], "catchUp": catch_up}
        stage.dag("etl", schedule=schedule, concurrency={"policy": "Allow"})
        await stage.at(70.0)
        ann.clock.ahead_s = -1000.0
        await stage.at(1200.5)
        ann.clock.ahead_s = 0.0
        await stage.at(1210.0)
        assert set(await stage.slots_fired("etl")) == want_fired
        assert stage.get(DAGS, "etl")["status"]["missed"] == want_missed

    play(story)
