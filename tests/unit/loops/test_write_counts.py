"""What a job costs in writes of the API server: exact, since it is what the API server can carry that binds.

Counted apart are renewals, what only people look at (status of DAGs and pools, Events), and the clean-up of a mailbox
that has nothing to deliver.
"""

from collections import Counter
from typing import Any

import pytest

from fencepost.api.names import CONTROLLER_REVISIONS, DAG_RUNS, DAGS, WORKERS
from tests.unit.loops.stage import Stage, a_task, play

WRITES = {"create": "POST", "update": "PUT", "delete": "DELETE"}


def counted(stage: Stage, since: int = 0) -> Counter[str]:
    """Writes by what they are, after so many requests."""
    kinds = (DAG_RUNS, WORKERS, CONTROLLER_REVISIONS)
    return Counter(
        f"{WRITES[request.verb]} {request.kind}" + (f"/{request.subresource}" if request.subresource else "")
        for _, _, request in stage.requests[since:]
        if request.verb in WRITES and request.kind in kinds and (request.verb, request.kind) != ("create", WORKERS)
    )


async def warm(stage: Stage, slots: int = 32, workers: int = 1, **dag: Any) -> int:
    """A leader, workers that have been there for a while, a DAG whose revision is stored; how many requests so far."""
    stage.leader()
    for number in range(workers):
        stage.worker(f"w{number}", slots=slots, job_s=1.0)
    stage.dag("etl", **dag)
    stage.manual_run("first", "etl")
    await stage.until(stage.quiet)
    await stage.pass_time(5.0)
    return len(stage.requests)


def test_a_run_of_one_job_made_by_hand() -> None:
    async def story(stage: Stage) -> None:
        since = await warm(stage, history={"succeeded": 1})
        stage.manual_run("r1", "etl")
        await stage.until(lambda: stage.finished("r1"))
        assert counted(stage, since) == {
            "PUT dagruns": 2,  # taken up and leased; folded
            "PUT workers": 1,  # delivered
            "PUT workers/status": 1,  # its result
        }
        await stage.until(stage.quiet)
        assert counted(stage, since)["PUT workers"] == 2, "cleaned up, as nothing else is delivered"
        await stage.pass_time(150.0)
        assert counted(stage, since) == {
            "PUT dagruns": 2,
            "PUT workers": 2,
            "PUT workers/status": 1,
            "DELETE dagruns": 1,
        }

    play(story)


def test_a_scheduled_run_of_one_job() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl", cron="* * * * *", history={"succeeded": 1})
        await stage.at(235.0)
        since = len(stage.requests)
        await stage.at(295.0)
        assert counted(stage, since) == {
            "POST dagruns": 1,  # with its lease
            "PUT dagruns": 1,
            "PUT workers": 2,
            "PUT workers/status": 1,
            "DELETE dagruns": 1,
        }
        statuses = [request for _, _, request in stage.requests[since:] if request.kind is DAGS and request.subresource]
        assert len(statuses) == 1, "the mark, the next times, the counters and the last run, all in one"

    play(story)


@pytest.mark.parametrize(("job_s", "want"), [(1.0, 10), (4.0, 10), (20.0, 20)])
def test_the_status_of_a_dag_that_fires_every_minute(job_s: float, want: int) -> None:
    """A run that is over within a few seconds is told of together with its slot; a longer one once it is over."""

    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=job_s)
        stage.dag("etl", cron="* * * * *")
        await stage.at(235.0)
        since = len(stage.requests)
        await stage.at(235.0 + 600.0)
        statuses = [request for _, _, request in stage.requests[since:] if request.kind is DAGS and request.subresource]
        assert len(statuses) == want, "for ten runs"

    play(story)


def test_a_run_made_by_hand_that_is_deleted_is_nothing_to_the_status_of_its_dag() -> None:
    async def story(stage: Stage) -> None:
        await warm(stage, history={"succeeded": 1})
        for number in range(3):
            stage.manual_run(f"r{number}", "etl")
        await stage.until(stage.quiet)
        await stage.pass_time(30.0)
        since = len(stage.requests)
        await stage.pass_time(150.0)
        assert counted(stage, since) == {"DELETE dagruns": 3}
        assert not [request for _, _, request in stage.requests[since:] if request.kind is DAGS and request.subresource]

    play(story)


def test_under_load_a_settled_entry_leaves_with_the_next_delivery() -> None:
    """A run a quarter of a second: there is always a next delivery, and no write only cleans up."""

    async def story(stage: Stage) -> None:
        since = await warm(stage, history={"succeeded": 100}, concurrency={"policy": "Allow"})
        for number in range(40):
            stage.manual_run(f"r{number}", "etl")
            await stage.pass_time(0.25)
        await stage.until(stage.quiet)
        counts = counted(stage, since)
        assert counts["PUT dagruns"] == 80
        assert counts["PUT workers"] <= 40 + 2
        assert counts["PUT workers/status"] <= 40
        assert sum(counts.values()) <= 40 * 4 + 2

    play(story)


def test_a_job_more_in_a_chain() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl", *[a_task(f"t{number}", *([f"t{number - 1}"] if number else [])) for number in range(10)])
        await stage.pass_time(1.0)
        stage.manual_run("r1", "etl")
        await stage.until(lambda: stage.finished("r1"))
        assert counted(stage) == {
            "POST controllerrevisions": 1,
            "PUT dagruns": 11,  # each folds one job and leases the next
            "PUT workers": 10,
            "PUT workers/status": 10,
        }

    play(story)


def test_a_fan_out() -> None:
    """Four hundred jobs on a hundred slots: waves of jobs share writes."""

    async def story(stage: Stage) -> None:
        await warm(stage, slots=20, workers=5)
        stage.dag("wide", a_task("only", forEach={"count": 400}))
        await stage.pass_time(1.0)
        since = len(stage.requests)
        stage.manual_run("r1", "wide")
        await stage.until(lambda: stage.finished("r1"))
        assert sum(counted(stage, since).values()) < 100

    play(story)


def test_nothing_is_written_when_nothing_happens() -> None:
    async def story(stage: Stage) -> None:
        await warm(stage)
        stage.dag("rarely", cron="0 0 1 1 *")
        await stage.pass_time(20.0)
        since = len(stage.requests)
        await stage.pass_time(600.0)
        writes = [request for _, name, request in stage.requests[since:] if request.verb in WRITES and name == "Ann"]
        assert not writes

    play(story)
