"""Workers are told to renew more seldom when there are many of them. Here two are many."""

import pytest

from fencepost.api.names import LEASES, WORKERS
from tests.unit.loops.processes import StageWorker
from tests.unit.loops.stage import SYSTEM, Stage, play


@pytest.fixture(autouse=True)
def two_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.core.renewals.RENEWALS_PER_S_MAX", 0.2)


def told_s(stage: Stage, worker: StageWorker) -> int | None:
    interval: int | None = stage.get(WORKERS, worker.full_name, SYSTEM)["spec"].get("renewalIntervalSeconds")
    return interval


def lasts_s(stage: Stage, worker: StageWorker) -> int:
    seconds: int = stage.get(LEASES, worker.full_name, SYSTEM)["spec"]["leaseDurationSeconds"]
    return seconds


def test_many_workers_renew_more_seldom_and_are_missed_later() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        w1 = stage.worker("w1")
        await stage.at(20.0)
        assert (told_s(stage, w1), stage.writes("update", WORKERS)) == (None, 0)
        w2, w3 = stage.worker("w2"), stage.worker("w3")
        await stage.at(45.0)
        assert [lasts_s(stage, worker) for worker in (w1, w2, w3)] == [60, 60, 60]
        assert stage.writes("update", WORKERS) == 3, "each was told once, though none had a job"
        before = stage.writes("update", LEASES)
        await stage.at(245.0)
        assert stage.writes("update", LEASES) - before <= 31
        w3.kill()
        await stage.at(285.0)
        assert not stage.is_fenced(w3)
        await stage.until(lambda: stage.is_fenced(w3), limit_s=30.0)
        assert not stage.is_fenced(w1)

    play(story)


def test_fewer_workers_renew_more_often_again() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        w1, w2, w3 = (stage.worker(f"w{number}") for number in (1, 2, 3))
        await stage.at(30.0)
        assert lasts_s(stage, w1) == 60
        w2.worker.drain()
        w3.worker.drain()
        await stage.at(90.0)
        assert (told_s(stage, w1), lasts_s(stage, w1)) == (10, 30)
        await stage.pass_time(60.0)
        assert not w1.over

    play(story)


def test_the_next_leader_tells_nobody_what_they_know() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader("Ann")
        for number in (1, 2, 3):
            stage.worker(f"w{number}")
        await stage.at(30.0)
        told = stage.writes("update", WORKERS)
        ann.kill()
        stage.leader("Ben")
        await stage.pass_time(60.0)
        assert stage.writes("update", WORKERS) == told == 3

    play(story)


def test_a_delivery_carries_the_interval_along() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        w1, w2 = stage.worker("w1"), stage.worker("w2")
        stage.dag("etl", concurrency={"policy": "Allow"})
        await stage.pass_time(1.0)
        await stage.until(lambda: told_s(stage, w1) == told_s(stage, w2) == 20)
        w3 = stage.worker("w3", slots=32)
        await stage.pass_time(0.5)
        before = stage.writes("update", WORKERS)
        for number in range(12):
            stage.manual_run(f"r{number}", "etl")
        await stage.until(lambda: bool(stage.mailbox(w3)))
        assert told_s(stage, w3) == 20
        await stage.until(stage.quiet)
        assert stage.writes("update", WORKERS) - before <= 2 * 3, "deliveries and removals alone"

    play(story)
