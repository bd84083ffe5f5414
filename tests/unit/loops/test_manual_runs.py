"""Runs that people make: before their DAG, without a pool, against what is stored; and what becomes of them."""

import pytest

from fencepost.api.names import CONTROLLER_REVISIONS, DAG_RUNS, DAGS, WORKER_POOLS
from fencepost.api.times import format_time
from fencepost.core.phases import RunPhase
from fencepost.kube.errors import ConnectionLostError, OverloadedError
from fencepost.memory.faults import Fault
from tests.unit.loops.stage import NAMESPACE, NOON_S, Stage, a_task, an_object, play


def test_a_run_made_before_its_dag_waits_for_it_and_says_so() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.manual_run("r1", "etl")
        await stage.pass_time(5.0)
        assert stage.run("r1").reason == "DAGNotFound"
        dag = stage.dag("etl")
        await stage.until(lambda: stage.finished("r1"))
        assert stage.run("r1").phase is RunPhase.SUCCEEDED
        run = stage.get(DAG_RUNS, "r1")
        assert [owner["uid"] for owner in run["metadata"]["ownerReferences"]] == [dag["metadata"]["uid"]]
        assert run["spec"]["dagUID"] == dag["metadata"]["uid"]
        assert stage.find(CONTROLLER_REVISIONS, run["spec"]["revision"]) is not None

    play(story)


def test_a_backfill_made_before_its_dag_begins_once_that_is_there() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        slot_s = int(NOON_S) - 60
        spec = {"dag": "etl", "trigger": "Backfill", "scheduledTime": format_time(slot_s)}
        stage.put(DAG_RUNS, an_object(DAG_RUNS, f"etl-{slot_s}", NAMESPACE, spec=spec))
        await stage.pass_time(5.0)
        assert stage.run(f"etl-{slot_s}").reason == "DAGNotFound"
        stage.dag("etl")
        await stage.until(lambda: stage.finished(f"etl-{slot_s}"))

    play(story)


def test_a_run_that_is_deleted_before_the_answer_to_its_leases_reaches_no_worker() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl")
        await stage.pass_time(1.0)
        stage.once("Ann", "update", DAG_RUNS, Fault(answer_delay_s=3.0))
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(stage.run("r1").leases))
        await stage.delete(DAG_RUNS, "r1")
        stage.manual_run("r1", "etl")
        await stage.pass_time(10.0)
        assert len(stage.mailbox(worker)) == 1
        worker.runner.jobs[0].end()
        await stage.until(lambda: stage.finished("r1"))
        assert len(worker.runner.jobs) == 1

    play(story)


def test_a_run_of_an_invalid_dag_waits_until_it_is_put_right() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl", a_task("a", "b"), a_task("b", "a"))
        stage.manual_run("r1", "etl")
        await stage.pass_time(5.0)
        assert stage.run("r1").reason == "DAGNotValid"
        assert stage.get(DAGS, "etl")["status"]["conditions"][0]["status"] == "False"
        stage.edit(DAGS, "etl", tasks=[a_task("a"), a_task("b", "a")])
        await stage.until(lambda: stage.finished("r1"))
        assert stage.run("r1").phase is RunPhase.SUCCEEDED

    play(story)


def test_a_dag_without_a_schedule_tells_that_its_pool_has_gone_and_that_it_is_there_again() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader()
        stage.dag("etl", pool="big")
        await stage.pass_time(5.0)
        assert stage.get(DAGS, "etl")["status"]["state"] == "Invalid"
        pool = stage.put(WORKER_POOLS, an_object(WORKER_POOLS, "big", spec={}))
        ann.scheduler.pool_changed(pool)
        await stage.until(lambda: stage.get(DAGS, "etl")["status"]["state"] == "Ready")
        written = stage.writes("update", DAGS, "status")
        ann.scheduler.pool_changed(stage.edit(WORKER_POOLS, "big", maxSharePerDAG="50%"))
        await stage.pass_time(60.0)
        assert stage.writes("update", DAGS, "status") == written, "an edit that changes nothing for it costs no write"
        ann.scheduler.pool_gone("big")
        await stage.until(lambda: stage.get(DAGS, "etl")["status"]["state"] == "Invalid")
        [condition] = stage.get(DAGS, "etl")["status"]["conditions"]
        assert condition["message"] == "spec.pool: there is no WorkerPool 'big'; create it or name another in spec.pool"

    play(story)


def test_a_run_waits_for_its_pool() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader()
        stage.worker(pool="big")
        stage.dag("etl", pool="big")
        stage.manual_run("r1", "etl")
        await stage.pass_time(5.0)
        assert stage.run("r1").reason == "PoolNotUsable"
        assert stage.run("r1").message == "there is no WorkerPool 'big'; create it or name another in spec.pool"
        closed = an_object(WORKER_POOLS, "big", spec={"namespaces": {"allow": ["other"]}})
        ann.scheduler.pool_changed(stage.put(WORKER_POOLS, closed))
        await stage.pass_time(1.0)
        admits_not = f"WorkerPool 'big' does not admit namespace {NAMESPACE!r}; add it or name another pool"
        assert stage.run("r1").message == admits_not
        ann.scheduler.pool_changed(stage.edit(WORKER_POOLS, "big", namespaces={"allow": ["*"]}))
        await stage.until(lambda: stage.finished("r1"))
        assert stage.run("r1").phase is RunPhase.SUCCEEDED

    play(story)


def test_a_run_that_waits_for_its_dag_can_be_cancelled() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.manual_run("r1", "etl")
        await stage.pass_time(5.0)
        stage.edit(DAG_RUNS, "r1", cancel=True)
        await stage.until(lambda: stage.finished("r1"), limit_s=5.0)
        assert stage.run("r1").phase is RunPhase.CANCELLED

    play(story)


def test_a_run_whose_definition_is_nowhere_to_be_had_fails_and_says_so() -> None:
    async def story(stage: Stage) -> None:
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        stage.dag("etl")
        stage.manual_run("r1", "etl")
        await stage.pass_time(5.0)
        ann.kill()
        await stage.admin.delete(CONTROLLER_REVISIONS, "demo", stage.get(DAG_RUNS, "r1")["spec"]["revision"])
        stage.edit(DAGS, "etl", tasks=[a_task("other")])
        stage.lead(ben)
        await stage.until(lambda: stage.finished("r1"))
        run = stage.run("r1")
        assert (run.phase, run.reason) == (RunPhase.FAILED, "DefinitionMissing")
        assert len(stage.get(DAG_RUNS, "r1")["metadata"]["ownerReferences"]) == 1

    play(story)


def test_a_run_goes_on_with_the_definition_that_it_began_with() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl", a_task("old"), a_task("next", "old"))
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(worker.runner.jobs))
        stage.edit(DAGS, "etl", tasks=[a_task("new")])
        await stage.pass_time(5.0)
        worker.runner.job_s = 1.0
        worker.runner.jobs[0].end()
        await stage.until(lambda: stage.finished("r1"))
        assert [job.launch.source.job.task for job in worker.runner.jobs] == ["old", "next"]

    play(story)


@pytest.mark.parametrize("fault", [Fault(error=OverloadedError("later")), Fault(error=ConnectionLostError("lost"))])
def test_a_definition_that_cannot_be_stored_at_once_costs_a_run_time_and_nothing_else(fault: Fault) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl")
        await stage.pass_time(5.0)
        stage.once("Ann", "create", CONTROLLER_REVISIONS, fault)
        stage.manual_run("r1", "etl")
        await stage.until(lambda: stage.finished("r1"), limit_s=10.0)
        assert stage.run("r1").phase is RunPhase.SUCCEEDED

    play(story)
