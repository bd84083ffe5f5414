"""An API server that takes no writes for a while: it has too much to do (429), or its etcd is full. Reads go on."""

import pytest

from fencepost.api.names import DAG_RUNS, DEAD_LETTERS
from fencepost.core.phases import RunPhase
from fencepost.kube.errors import ApiError, OverloadedError, ServerError
from fencepost.memory.faults import Fault, Request
from tests.unit.loops.stage import Stage, a_task, play

REFUSALS = [
    OverloadedError("too many requests, please try again later"),
    ServerError("etcdserver: mvcc: database space exceeded"),
]
WRITES = {"create", "update"}
REQUESTS_A_SECOND_MAX = 30
"""Of one replica and one worker, whose every write is refused."""


def refuse_writes(stage: Stage, error: ApiError) -> list[Request]:
    """Every create and update is refused from now on; deletions are not, as by a full etcd."""
    refused: list[Request] = []

    def find(name: str, request: Request) -> Fault | None:
        if request.verb not in WRITES:
            return None
        refused.append(request)
        return Fault(error=error)

    stage.trouble(find)
    return refused


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
def test_for_a_short_while_it_costs_no_job_and_no_storm_of_requests(error: ApiError) -> None:
    """Jobs end meanwhile, one of them for good, and a scheduled time comes."""

    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        tasks = a_task("load", forEach={"count": 2}), a_task("report", "load", rule="AllDone")
        stage.dag("etl", *tasks, cron="* * * * *", concurrency={"policy": "Allow"})
        await stage.at(55.0)
        stage.manual_run("r1", "etl")
        await stage.until(lambda: len(worker.runner.jobs) == 2)
        refused = refuse_writes(stage, error)
        worker.runner.jobs[0].end(3)
        worker.runner.jobs[1].end()
        await stage.pass_time(10.0)
        assert not stage.run("r1").done
        assert 0 < len(refused) < 10 * REQUESTS_A_SECOND_MAX
        stage.troubles.clear()
        worker.runner.job_s = 1.0
        await stage.until(lambda: stage.finished("r1") and len(stage.all(DAG_RUNS)) == 2)
        assert stage.run("r1").phase is RunPhase.FAILED
        assert len(stage.all(DEAD_LETTERS)) == 1
        of_run = [job for job in worker.runner.jobs if job.launch.env["FENCEPOST_RUN"] == "r1"]
        assert [job.launch.source.job.task for job in of_run] == ["load", "load", "report"]
        assert await stage.slots_fired("etl") == {1: 1}

    play(story)


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
def test_for_a_long_while_workers_end_themselves_and_the_run_goes_on_with_others(error: ApiError) -> None:
    """A worker that cannot renew may have been given up: it ends its jobs before anybody else can have them."""

    async def story(stage: Stage) -> None:
        stage.leader()
        first = stage.worker("w1", job_s=None)
        stage.dag("etl")
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(first.runner.jobs))
        refuse_writes(stage, error)
        await stage.until(lambda: first.over, limit_s=40.0)
        assert first.runner.jobs[0].ended
        await stage.pass_time(60.0)
        assert not stage.is_fenced(first), "nobody can write that either"
        stage.troubles.clear()
        second = stage.worker("w2")
        await stage.until(lambda: stage.finished("r1"), limit_s=90.0)
        assert stage.run("r1").phase is RunPhase.SUCCEEDED
        assert [int(job.launch.env["FENCEPOST_TOKEN"]) for job in (*first.runner.jobs, *second.runner.jobs)] == [1, 2]

    play(story)
