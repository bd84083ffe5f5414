"""What a leader has not come to write before it died is written by the next one, also where nothing else happens."""

import pytest

from fencepost.api.names import DAG_RUNS, DAGS, WORKER_POOLS
from fencepost.api.times import format_time
from tests.unit.loops.stage import NOON_S, Stage, play, slot


def test_what_people_see_of_a_dag_and_of_a_pool_is_brought_up_to_date() -> None:
    """The leader dies between the end of a run and the writes that would have told of it."""

    async def story(stage: Stage) -> None:
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        worker = stage.worker(job_s=None)
        stage.dag("etl")
        stage.manual_run("r1", "etl")
        await stage.until(lambda: stage.get(DAGS, "etl").get("status", {}).get("active") == 1)
        await stage.until(lambda: stage.get(WORKER_POOLS, "default").get("status", {}).get("busy") == 1)
        worker.runner.jobs[0].end()
        await stage.until(lambda: stage.finished("r1"))
        ann.kill()
        stage.lead(ben)
        await stage.until(lambda: stage.get(DAGS, "etl")["status"]["active"] == 0)
        assert stage.get(DAGS, "etl")["status"]["lastRun"]["name"] == "r1"
        await stage.until(lambda: stage.get(WORKER_POOLS, "default")["status"]["busy"] == 0)

    play(story)


@pytest.mark.parametrize("suspended", [False, True])
def test_the_mark_is_stored_for_a_slot_whose_run_exists(suspended: bool) -> None:
    """The leader dies between the creation of a run and the mark; the next slot is a day away, or never comes."""

    async def story(stage: Stage) -> None:
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        stage.worker()
        stage.dag("etl", cron="1 12 * * *", history={"succeeded": 0})
        await stage.at(59.0)
        await stage.until(lambda: stage.find(DAG_RUNS, slot(1)) is not None)
        ann.kill()
        assert "lastScheduledTime" not in stage.get(DAGS, "etl")["status"]
        if suspended:
            stage.edit(DAGS, "etl", suspend=True)
        stage.lead(ben)
        await stage.until(lambda: "lastScheduledTime" in stage.get(DAGS, "etl")["status"])
        assert stage.get(DAGS, "etl")["status"]["lastScheduledTime"] == format_time(NOON_S + 60)
        await stage.until(lambda: stage.find(DAG_RUNS, slot(1)) is None, limit_s=180.0)
        assert await stage.slots_fired("etl") == {1: 1}

    play(story)
