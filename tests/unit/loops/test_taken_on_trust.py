"""What a new leader believes of a DAG's status without reading the DAG, and how it finds out when that is wrong."""

import orjson
import pytest

from fencepost.api.names import DAG_RUNS, DAGS
from fencepost.api.times import format_time
from fencepost.memory.faults import Fault
from fencepost.memory.identity import ADMIN
from fencepost.observe import dags as observe_dags
from tests.unit.loops.stage import NOON_S, Stage, a_task, play, slot


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


def test_a_dag_that_an_older_version_found_valid_and_this_one_does_not_is_said_to_be_invalid_before_long() -> None:
    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        stage.dag("etl", a_task("a", command=["echo", "\0"]))
        await stage.at(10.0)
        stage.cut_off("Ann")
        dag = stage.get(DAGS, "etl")
        dag["status"]["state"] = "Ready"
        dag["status"]["conditions"][0] |= {"status": "True", "reason": "Valid", "message": "the DAG is valid"}
        stage.server.engine.replace(ADMIN, DAGS, orjson.dumps(dag), "status")
        stage.leader("Ben")
        await stage.at(30.0)
        status = stage.get(DAGS, "etl")["status"]
        assert (status["state"], status["conditions"][0]["reason"]) == ("Invalid", "NulCharacter")

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


def test_the_last_slot_of_a_schedule_that_waited_for_room_is_looked_at_by_a_new_leader_at_once() -> None:
    """The room has come while nobody led, so that no event tells of it, and there is no later slot to wait for."""

    async def story(stage: Stage) -> None:
        ann = stage.leader("Ann")
        stage.worker(job_s=None)
        stage.dag("etl", schedule={"at": format_time(NOON_S + 60), "catchUp": {"policy": "All"}})
        stage.manual_run("by-hand", "etl")
        await stage.at(90.0)
        status = stage.get(DAGS, "etl")["status"]
        assert (status["state"], "nextScheduledTime" in status) == ("Ready", False)
        assert await stage.slots_fired("etl") == {}
        ann.kill()
        await stage.delete(DAG_RUNS, "by-hand")
        ben = stage.leader("Ben")
        ben.scheduler._audit.take_up = lambda keys: None  # type: ignore[method-assign]
        await stage.at(95.0)
        assert await stage.slots_fired("etl") == {1: 1}

    play(story)


@pytest.mark.parametrize("suspend", [True, False], ids=["suspended", "by-hand-only"])
def test_a_dag_that_waits_for_nothing_is_not_read_by_a_new_leader(suspend: bool) -> None:
    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        stage.worker(job_s=0.1)
        stage.dag("etl", cron="* * * * *" if suspend else None, suspend=suspend)
        await stage.at(90.0)
        assert "nextScheduledTime" not in stage.get(DAGS, "etl")["status"]
        observe_dags._read.cache_clear()
        before = _reads()
        ben = stage.leader("Ben")
        ben.scheduler._audit.take_up = lambda keys: None  # type: ignore[method-assign]
        await stage.at(100.0)
        assert _reads() == before

    play(story)


def test_a_new_leader_whose_cache_lags_takes_no_count_of_the_leader_before_back() -> None:
    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        worker = stage.worker(job_s=None)
        ben = stage.replica("Ben")
        stage.dag("etl", cron="* * * * *")
        await stage.at(65.0)
        stage.trouble(
            lambda name, request: (
                Fault(delay_s=1e6) if (name, request.verb, request.kind) == ("Ben", "event", DAGS) else None
            )
        )
        await stage.at(140.0)
        assert stage.get(DAGS, "etl")["status"]["skipped"] == 1
        worker.runner.jobs[0].end()
        await stage.at(182.0)
        assert await stage.slots_fired("etl") == {1: 1, 3: 1}
        stage.lead(ben)
        worker.runner.jobs[-1].end()
        await stage.at(200.0)
        status = stage.get(DAGS, "etl")["status"]
        assert (status["skipped"], status["lastRun"]["name"]) == (1, slot(3))

    play(story)
