"""Leases on their way to a worker that is lost: they stand in the run's record and in no mailbox, so no news of the
worker names them. They go elsewhere all the same."""

import pytest

from fencepost.api.names import DAG_RUNS, WORKERS
from fencepost.core.names import JobKey
from fencepost.memory.faults import Fault
from tests.unit.loops.processes import StageWorker
from tests.unit.loops.stage import SYSTEM, Stage, a_task, play

JOB = JobKey("only", 0)
LATE = {
    "the delivery": {("update", WORKERS): Fault(delay_s=2.0)},
    "the news of the worker": {("event", WORKERS): Fault(delay_s=2.0)},
    "the answer that the lease is stored": {
        ("update", DAG_RUNS): Fault(answer_delay_s=2.0),
        ("event", DAG_RUNS): Fault(delay_s=4.0),
    },
}


async def lose(stage: Stage, worker: StageWorker, end: str) -> None:
    """The worker's object is deleted by hand, or fenced by another leader."""
    if end == "deleted":
        await stage.admin.delete(WORKERS, SYSTEM, worker.full_name)
    else:
        obj = stage.get(WORKERS, worker.full_name, SYSTEM)
        stage.put(WORKERS, obj | {"spec": obj["spec"] | {"fenced": True}})


@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("end", ["deleted", "fenced"])
def test_a_lease_that_is_on_its_way_to_a_worker_that_is_lost_goes_elsewhere(end: str, late: str) -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader()
        w1 = stage.worker("w1", job_s=None)
        await stage.pass_time(1.0)
        stage.dag("etl", a_task("only"))
        in_time = stage.trouble(
            lambda name, request: LATE[late].get((request.verb, request.kind)) if name == "Ann" else None
        )
        w1.kill()
        if late == "the news of the worker":
            await lose(stage, w1, end)
        stage.manual_run("r1", "etl")
        await stage.until(lambda: JOB in stage.run("r1").leases)
        if late != "the news of the worker":
            await lose(stage, w1, end)
        in_time()
        w2 = stage.worker("w2", job_s=None)
        await stage.until(lambda: bool(w2.runner.jobs), limit_s=10.0)
        assert ann.count("workers_fenced_total") == 0

    play(story)
