"""What a new leader believes of a DAG's status without reading the DAG, and how it finds out when that is wrong."""

import orjson
import pytest

from fencepost.api.names import DAG_RUNS, DAGS
from fencepost.api.times import format_time
from fencepost.memory.identity import ADMIN
from fencepost.observe import dags as observe_dags
from tests.unit.loops.stage import NOON_S, Stage, play, slot


def _reads() -> int:
    return observe_dags._read.cache_info().misses


def test_a_new_leader_reads_no_valid_dag_before_its_slot_comes() -> None:
    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        stage.worker()
        for name in ("etl", "report"):
            stage.dag(name, cron="*/5 * * * *")
        await stage.at(10.0)
        observe_dags._read.cache_clear()
        before = _reads()
        ben = stage.leader("Ben")
        ben.scheduler._audit.take_up = lambda keys: None  # type: ignore[method-assign]
        await stage.at(290.0)
        assert _reads() == before
        await stage.at(310.0)
        assert _reads() > before
        assert await stage.slots_fired("etl") == await stage.slots_fired("report") == {5: 1}

    play(story)


def test_a_stored_next_slot_that_is_out_of_date_is_found_out_before_long() -> None:
    """As after an upgrade that brings other zone data: the slot falls earlier than was thought."""

    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        stage.worker()
        stage.dag("etl", cron="*/5 * * * *")
        await stage.at(10.0)
        stage.cut_off("Ann")
        dag = stage.get(DAGS, "etl")
        dag["status"]["nextScheduledTime"] = format_time(NOON_S + 3600)
        stage.server.engine.replace(ADMIN, DAGS, orjson.dumps(dag), "status")
        stage.leader("Ben")
        await stage.at(310.0)
        assert await stage.slots_fired("etl") == {5: 1}
        assert stage.get(DAGS, "etl")["status"]["nextScheduledTime"] == format_time(NOON_S + 600)

    play(story)


@pytest.mark.parametrize("mark_stored", [True, False])
def test_a_run_that_somebody_deletes_before_its_dag_was_looked_at_does_not_fire_again(mark_stored: bool) -> None:
    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        worker = stage.worker(job_s=None)
        stage.dag("etl", cron="* * * * *", concurrency={"policy": "Allow"})
        await stage.at(65.0 if mark_stored else 60.1)
        assert worker.runner.jobs
        ben = stage.leader("Ben")
        ben.scheduler._audit.take_up = lambda keys: None  # type: ignore[method-assign]
        await stage.at(70.0)
        await stage.delete(DAG_RUNS, slot(1))
        await stage.at(130.0)
        assert await stage.slots_fired("etl") == {1: 1, 2: 1}

    play(story)
