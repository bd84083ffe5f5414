"""Shards that are given away under the hands of their leader: nothing of what it had in mind is in anybody's way."""

from fencepost.api.names import CONTROLLER_REVISIONS, DAG_RUNS
from fencepost.core.names import DagKey, shard_of
from fencepost.core.phases import RunPhase
from fencepost.memory.faults import Fault
from tests.unit.loops.stage import NAMESPACE, Stage, a_task, play, slot


def a_dag_of(shard: int) -> str:
    """The name of a DAG of this shard of two."""
    return next(name for name in ("a", "b", "c", "d", "e") if shard_of(DagKey(NAMESPACE, name), 2) == shard)


def test_a_run_that_ended_under_another_leader_takes_no_place_in_the_queue_of_the_one_that_began_it() -> None:
    async def story(stage: Stage) -> None:
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        worker = stage.worker(job_s=None)
        stage.dag("etl", cron="* * * * *", concurrency={"policy": "Queue"})
        await stage.until(lambda: bool(worker.runner.jobs), limit_s=70.0)
        stage.lead(ben)
        await stage.pass_time(2.0)
        worker.runner.jobs[0].end()
        await stage.until(lambda: stage.finished(slot(1)))
        stage.lead(ann)
        await stage.at(125.0)
        assert stage.run(slot(2)).phase is RunPhase.RUNNING, stage.run(slot(2)).message
        worker.runner.jobs[1].end()
        await stage.until(lambda: stage.finished(slot(2)))

    play(story)


def test_a_run_whose_shard_goes_while_its_revision_is_stored_holds_no_slot_back_from_other_shards() -> None:
    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        ben = stage.replica("Ben")
        given, kept = a_dag_of(0), a_dag_of(1)
        worker = stage.worker(slots=3, job_s=None)
        stage.dag(given, *(a_task(f"t{number}") for number in range(5)))
        stage.dag(kept, a_task("one"), a_task("two"))
        await stage.pass_time(2.0)
        stage.once("Ann", "create", CONTROLLER_REVISIONS, Fault(answer_delay_s=3.0))
        stage.manual_run("r1", given)
        await stage.pass_time(3.03)
        stage.lead(ben, 0)
        for number in range(4):
            await stage.until(lambda number=number: len(worker.runner.jobs) > number)  # type: ignore[misc]
            worker.runner.jobs[number].end()
        await stage.pass_time(10.0)
        stage.manual_run("r2", kept)
        await stage.until(lambda: len(stage.run("r2").leases) == 2)

    play(story, shards=2)


def test_a_shard_that_goes_before_its_barrier_is_passed_is_not_counted_as_led() -> None:
    async def story(stage: Stage) -> None:
        ann, ben = stage.replica("Ann"), stage.replica("Ben")
        await stage.pass_time(1.0)
        stage.once("Ann", "list", DAG_RUNS, Fault(answer_delay_s=3.0))
        stage.lead(ann)
        await stage.pass_time(1.0)
        stage.lead(ben, 0)
        await stage.pass_time(5.0)
        assert list(ann.scheduler.world.shards.ready()) == [1]

    play(story, shards=2)
