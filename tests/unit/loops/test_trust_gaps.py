"""A trust window that closes for some seconds and opens again under the same epoch: what came meanwhile is not lost."""

from collections.abc import Callable

import pytest

from fencepost.api.names import DAG_RUNS
from fencepost.core.phases import RunPhase
from tests.unit.loops.processes import Replica
from tests.unit.loops.stage import Stage, a_task, play, slot


def distrust(replica: Replica) -> Callable[[], None]:
    """The replica cannot renew, and nobody fences it, until the returned function is called."""
    held = dict(replica.held)
    replica.held.clear()
    return lambda: replica.held.update(held)


def test_a_slot_that_falls_into_the_gap_fires_after_it_and_so_do_those_that_follow() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader()
        stage.worker()
        stage.dag("etl", cron="* * * * *", concurrency={"policy": "Allow"})
        await stage.at(58.0)
        trust = distrust(ann)
        await stage.at(65.0)
        trust()
        await stage.at(190.0)
        assert await stage.slots_fired("etl") == {1: 1, 2: 1, 3: 1}
        assert stage.run(slot(1)).phase is RunPhase.SUCCEEDED

    play(story)


def test_a_result_that_comes_in_the_gap_is_folded_after_it() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl", a_task("extract"), a_task("load", "extract"))
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(worker.runner.jobs))
        trust = distrust(ann)
        worker.runner.of_task("extract")[0].end()
        await stage.pass_time(5.0)
        trust()
        await stage.until(lambda: bool(worker.runner.of_task("load")))
        worker.runner.of_task("load")[0].end()
        await stage.until(stage.quiet)
        assert stage.run("r1").phase is RunPhase.SUCCEEDED

    play(story)


@pytest.mark.parametrize("gap_s", [0.01, 0.3, 4.0])
def test_a_run_that_is_made_in_the_gap_starts_after_it_however_short_it_is(gap_s: float) -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader()
        stage.worker()
        stage.dag("etl")
        await stage.pass_time(2.0)
        trust = distrust(ann)
        stage.manual_run("r1", "etl")
        await stage.pass_time(gap_s)
        trust()
        await stage.until(lambda: stage.finished("r1"))

    play(story)


def test_a_cancellation_that_comes_in_the_gap_is_obeyed_after_it() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl")
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(worker.runner.jobs))
        trust = distrust(ann)
        stage.edit(DAG_RUNS, "r1", cancel=True)
        await stage.pass_time(5.0)
        trust()
        await stage.until(lambda: stage.run("r1").phase is RunPhase.CANCELLED)

    play(story)


def test_a_write_that_the_gap_has_held_back_is_made_after_it() -> None:
    """The lease is stored; its delivery waits for company when the window closes."""

    async def story(stage: Stage) -> None:
        ann = stage.leader()
        worker = stage.worker()
        stage.dag("etl")
        await stage.pass_time(2.0)
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(stage.run("r1").leases))
        trust = distrust(ann)
        await stage.pass_time(5.0)
        assert not stage.mailbox(worker)
        trust()
        await stage.until(lambda: stage.finished("r1"))
        assert len(stage.started) == 1

    play(story)
