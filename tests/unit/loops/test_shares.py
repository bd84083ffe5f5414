"""A DAG's share of its pool holds through takeovers and lost answers: what stands in a run's record counts, always."""

from fencepost.api.names import DAG_RUNS, WORKER_POOLS
from fencepost.kube.errors import ConnectionLostError
from fencepost.memory.faults import Fault
from tests.unit.loops.stage import Stage, a_task, play

LOST = Fault(error=ConnectionLostError("reset"), carried_out=True)


def halve(stage: Stage) -> None:
    """A DAG may hold half of the slots."""
    stage.edit(WORKER_POOLS, "default", maxSharePerDAG="50%")


def held(stage: Stage) -> int:
    """Leases on record in all runs."""
    return sum(len(stage.run(run["metadata"]["name"]).leases) for run in stage.all(DAG_RUNS))


def test_a_new_leader_counts_what_every_run_holds_before_it_leases_more() -> None:
    async def story(stage: Stage) -> None:
        halve(stage)
        ann = stage.leader("Ann")
        stage.worker(slots=8, job_s=None)
        stage.dag("etl", a_task("load", forEach={"count": 4}))
        await stage.pass_time(1.0)
        # The one that sorts first has nothing yet when the one that sorts last has the whole share.
        stage.manual_run("z", "etl")
        await stage.pass_time(2.0)
        stage.manual_run("a", "etl")
        await stage.pass_time(2.0)
        assert (len(stage.run("z").leases), len(stage.run("a").leases)) == (4, 0)
        ann.kill()
        stage.lead(stage.replica("Ben"))
        await stage.pass_time(10.0)
        assert held(stage) == 4

    play(story)


def test_leases_whose_answer_was_lost_count() -> None:
    async def story(stage: Stage) -> None:
        halve(stage)
        stage.leader()
        stage.worker(slots=2, job_s=None)
        stage.dag("etl", a_task("load", forEach={"count": 4}), cron="* * * * *")
        stage.once("Ann", "create", DAG_RUNS, LOST)
        await stage.at(65.0)
        assert held(stage) == 1
        stage.manual_run("r1", "etl")
        await stage.pass_time(10.0)
        assert held(stage) == 1

    play(story)
