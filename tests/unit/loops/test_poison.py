"""Objects that somebody has garbled: they are set aside, said once and counted, and everybody else goes on."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.api.names import DAG_RUNS, DAGS, WORKER_POOLS, WORKERS
from fencepost.core.names import JobKey
from fencepost.core.phases import RunPhase
from fencepost.kube.errors import InvalidError
from fencepost.kube.protocol import Obj
from fencepost.memory.faults import Fault, Request
from fencepost.memory.identity import worker_identity
from fencepost.observe.runs import RunCache
from tests.unit.loops.processes import Replica, StageWorker
from tests.unit.loops.stage import SYSTEM, Stage, a_task, an_object, play

ONLY = JobKey("only", 0)


async def others_go_on(stage: Stage) -> None:
    """A run of another DAG, made now, ends well."""
    stage.dag("other")
    stage.manual_run("healthy", "other")
    await stage.until(lambda: stage.finished("healthy"), limit_s=10.0)
    assert stage.run("healthy").phase is RunPhase.SUCCEEDED


def said(caplog: pytest.LogCaptureFixture, text: str) -> int:
    """How often something was logged as worth a person's while."""
    return sum(text in record.getMessage() and record.levelno >= logging.WARNING for record in caplog.records)


async def running(stage: Stage) -> tuple[Replica, StageWorker]:
    replica, worker = stage.leader(), stage.worker(job_s=None)
    stage.dag("etl")
    stage.manual_run("r1", "etl")
    await stage.until(lambda: bool(worker.runner.jobs))
    worker.runner.job_s = 1.0
    return replica, worker


GARBLED_STATUS: dict[str, Callable[[Obj], Any]] = {
    "a phase that there is not": lambda status: status.update(phase="Dreaming"),
    "a lease that is no lease": lambda status: status.update(leases={"only/0": "yesterday"}),
    "a job that is no job": lambda status: status.update(leases={"only": "1 w1-aaaaa 1 2026-11-30T12:00:00Z"}),
    "a map that is none": lambda status: status.update(tasks="all of them"),
    "counts that are none": lambda status: status.update(done="many"),
    "indices that are none": lambda status: status.update(tasks={"only": "Succeeded=5-1"}),
    "times that are none": lambda status: status.update(startTime="noon"),
}


@pytest.mark.parametrize("what", GARBLED_STATUS)
def test_a_run_with_a_garbled_status_is_set_aside(what: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: Stage) -> None:
        ann, _ = await running(stage)
        run = stage.get(DAG_RUNS, "r1")
        GARBLED_STATUS[what](run["status"])
        garbled = stage.put(DAG_RUNS, run)
        for label in ("a", "b"):
            garbled["metadata"]["labels"][label] = "touched again"
            garbled = stage.put(DAG_RUNS, garbled)
        await others_go_on(stage)
        assert said(caplog, "run demo/r1 is set aside") == 1
        assert ann.count("objects_set_aside_total", kind="DAGRun") == 1
        assert stage.get(DAG_RUNS, "r1")["status"] == garbled["status"], "nobody has touched it"

    play(story, lawful=False)


@pytest.mark.parametrize("field", ["leases", "waiting", "tasks"])
def test_a_run_whose_record_makes_no_sense_fails_and_says_so(field: str, caplog: pytest.LogCaptureFixture) -> None:
    """It can be read, but names a job that its definition does not have."""

    async def story(stage: Stage) -> None:
        _, worker = await running(stage)
        run = stage.get(DAG_RUNS, "r1")
        lease = run["status"]["leases"].pop("only/0")
        ghosts = {"leases": {"ghost/0": lease}, "waiting": {"only/1": "1 2026-11-30T12:00:00Z"}, "tasks": {"ghost": ""}}
        run["status"][field] = ghosts[field]
        stage.put(DAG_RUNS, run)
        await stage.until(lambda: stage.finished("r1"), limit_s=10.0)
        assert (stage.run("r1").phase, stage.run("r1").reason) == (RunPhase.FAILED, "RecordGarbled")
        assert stage.run("r1").message.startswith("its status speaks of")
        await stage.until(lambda: not stage.mailbox(worker), limit_s=10.0)
        assert not said(caplog, "a turn of the writer")
        await others_go_on(stage)

    play(story, lawful=False)


def test_a_garbled_run_can_be_deleted_and_leaves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: Stage) -> None:
        _, worker = await running(stage)
        run = stage.get(DAG_RUNS, "r1")
        run["status"]["done"] = "many"
        stage.put(DAG_RUNS, run)
        await stage.pass_time(1.0)
        await stage.delete(DAG_RUNS, "r1")
        await stage.until(lambda: not stage.mailbox(worker), limit_s=10.0)
        assert worker.runner.jobs[0].ended

    play(story, lawful=False)


def test_a_run_with_a_garbled_spec_is_set_aside() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader()
        stage.worker()
        stage.put(DAG_RUNS, an_object(DAG_RUNS, "r1", "demo", spec={"dag": 7, "params": "none"}))
        stage.put(DAG_RUNS, an_object(DAG_RUNS, "r2", "demo", spec={}))
        await others_go_on(stage)
        assert ann.count("objects_set_aside_total", kind="DAGRun") == 2

    play(story)


@pytest.mark.parametrize(
    "spec",
    [
        {"tasks": [a_task("a", "b"), a_task("b", "a")]},
        {"tasks": [a_task("a", "nobody")]},
        {"tasks": "all"},
        {"tasks": [a_task("a")], "schedule": {"cron": ["every now and then"]}},
        {"tasks": [a_task("a")], "schedule": {"cron": ["* * * * *"], "timeZone": "Middle/Earth"}},
        {"tasks": [a_task(f"task-{number:04}", forEach={"count": 10_000}) for number in range(40)]},
        {},
    ],
    ids=["cycle", "no parent", "no list", "no cron", "no zone", "too large", "empty"],
)
def test_an_invalid_dag_says_so_once_and_makes_no_run(spec: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader()
        stage.worker()
        stage.put(DAGS, an_object(DAGS, "etl", "demo", spec=spec))
        await others_go_on(stage)
        await stage.at(70.0)
        condition = stage.get(DAGS, "etl")["status"]["conditions"][0]
        assert (condition["type"], condition["status"]) == ("Ready", "False")
        assert condition["message"]
        assert said(caplog, "DAG demo/etl is not valid") == 1
        assert ann.count("objects_set_aside_total", kind="DAG") == 1
        assert [run["metadata"]["name"] for run in stage.all(DAG_RUNS)] == ["healthy"]
        assert stage.writes("update", DAGS, "status") <= 4

    play(story)


def test_an_object_on_which_the_reader_itself_fails_ends_no_watch(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = RunCache._view

    def failing(self: RunCache, key: Any, version: int, obj: Obj) -> Any:
        if obj["metadata"]["name"] == "poison":
            raise RecursionError("too deep")
        return real(self, key, version, obj)

    monkeypatch.setattr(RunCache, "_view", failing)

    async def story(stage: Stage) -> None:
        stage.dag("etl")
        stage.manual_run("poison", "etl")
        stage.leader()
        stage.worker()
        await others_go_on(stage)
        stage.edit(DAG_RUNS, "poison", cancel=True)
        stage.manual_run("r2", "etl")
        await stage.until(lambda: stage.finished("r2"), limit_s=10.0)

    play(story)


def test_a_garbled_result_counts_as_a_failure_of_the_job() -> None:
    """Under the token of its lease: whoever wrote it speaks for the job, and nothing better will come."""

    async def story(stage: Stage) -> None:
        _, worker = await running(stage)
        await answer(stage, worker, "1 Unheard-of 0 - -")
        await stage.until(lambda: stage.finished("r1"), limit_s=10.0)
        assert stage.run("r1").phase is RunPhase.FAILED
        assert "cannot be read" in stage.run("r1").failures[ONLY]
        await stage.until(lambda: not stage.mailbox(worker), limit_s=10.0)

    play(story, lawful=False)


def test_an_entry_that_somebody_takes_out_of_a_mailbox_is_put_there_again() -> None:
    """Its job is stopped by that, so that it starts again, under a higher token."""

    async def story(stage: Stage) -> None:
        _, worker = await running(stage)
        record = stage.get(WORKERS, worker.full_name, SYSTEM)
        record["spec"]["leases"] = {}
        stage.put(WORKERS, record)
        await stage.until(lambda: stage.finished("r1"), limit_s=10.0)
        assert stage.run("r1").phase is RunPhase.SUCCEEDED
        assert [int(job.launch.env["FENCEPOST_TOKEN"]) for job in worker.runner.jobs] == [1, 2]
        await stage.until(lambda: not stage.mailbox(worker), limit_s=10.0)

    play(story, lawful=False)


async def answer(stage: Stage, worker: StageWorker, text: str) -> None:
    """The worker's status holds this as the result of its only entry."""
    [key] = stage.mailbox(worker)
    record = stage.get(WORKERS, worker.full_name, SYSTEM)
    record["status"] = {"results": {key: text}}
    client = stage.server.client(worker_identity(worker.settings.pod))
    await client.replace(WORKERS, record, subresource="status")


def test_garbled_entries_are_passed_over_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: Stage) -> None:
        ann, worker = await running(stage)
        record = stage.get(WORKERS, worker.full_name, SYSTEM)
        record["spec"]["leases"] |= {"nonsense": "1 Run", "demo/r9.12345678/only/0": "soon Run"}
        # The policy asks for a number where the entry is new, so they are as a hand of the past has left them.
        stage.server.engine._store.put(stage.server.engine._store.collection(WORKERS), record)
        await stage.pass_time(1.0)
        worker.runner.jobs[0].end()
        await stage.until(lambda: stage.finished("r1"), limit_s=10.0)
        await others_go_on(stage)
        assert said(caplog, "'1 Run' under 'nonsense' of worker w1-aaaaa cannot be read") == 1
        assert said(caplog, "'soon Run' under 'demo/r9.12345678/only/0' of worker w1-aaaaa cannot be read") == 1
        assert ann.count("objects_set_aside_total", kind="Worker") == 3, "the worker's answer to nonsense is nonsense"

    play(story, lawful=False)


def test_a_worker_that_cannot_be_read_counts_as_gone() -> None:
    async def story(stage: Stage) -> None:
        ann, worker = await running(stage)
        record = stage.get(WORKERS, worker.full_name, SYSTEM)
        record["spec"]["slots"] = "plenty"
        stage.server.engine._store.put(stage.server.engine._store.collection(WORKERS), record)
        stage.worker("w2")
        await stage.until(lambda: stage.finished("r1"), limit_s=10.0)
        assert stage.run("r1").phase is RunPhase.SUCCEEDED
        assert ann.count("objects_set_aside_total", kind="Worker") == 1
        await others_go_on(stage)

    play(story, lawful=False)


def test_a_pool_that_cannot_be_read_keeps_its_last_good_spec() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader()
        stage.worker()
        await stage.pass_time(1.0)
        pool = stage.get(WORKER_POOLS, "default")
        pool["spec"]["maxSharePerDAG"] = "most of it"
        ann.scheduler.pool_changed(stage.put(WORKER_POOLS, pool))
        await others_go_on(stage)
        assert ann.count("objects_set_aside_total", kind="WorkerPool") == 1

    play(story)


def test_huge_objects_do_not_hold_up_the_others() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        huge = stage.dag("huge", a_task("only", command=["echo", "x" * 1_000_000]))
        huge["metadata"]["annotations"] = {"note": "y" * 200_000}
        stage.put(DAGS, huge)
        stage.manual_run("r1", "huge")
        await others_go_on(stage)

    play(story)


def test_a_half_deleted_run_is_stopped_and_can_go() -> None:
    """Somebody has put a finalizer on it and deleted it."""

    async def story(stage: Stage) -> None:
        _, worker = await running(stage)
        run = stage.get(DAG_RUNS, "r1")
        run["metadata"]["finalizers"] = ["example.com/hold"]
        stage.put(DAG_RUNS, run)
        await stage.delete(DAG_RUNS, "r1")
        await stage.until(lambda: stage.finished("r1"), limit_s=10.0)
        assert stage.run("r1").phase is RunPhase.CANCELLED
        assert worker.runner.jobs[0].ended
        run = stage.get(DAG_RUNS, "r1")
        run["metadata"]["finalizers"] = []
        stage.put(DAG_RUNS, run)
        await stage.until(stage.quiet)
        assert not stage.all(DAG_RUNS)

    play(story)


def test_a_half_deleted_dag_makes_no_more_runs() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        dag = stage.dag("etl", cron="* * * * *")
        dag["metadata"]["finalizers"] = ["example.com/hold"]
        stage.put(DAGS, dag)
        await stage.at(70.0)
        await stage.delete(DAGS, "etl")
        await stage.at(250.0)
        assert await stage.slots_fired("etl") == {1: 1}

    play(story)


def test_a_write_that_the_api_server_refuses_for_ever_disturbs_nobody_else() -> None:
    async def story(stage: Stage) -> None:
        ann, worker = await running(stage)

        def refused(name: str, request: Request) -> Fault | None:
            this = (request.verb, request.kind, request.name) == ("update", DAG_RUNS, "r1")
            return Fault(error=InvalidError("too large")) if this else None

        stage.trouble(refused)
        worker.runner.jobs[0].end()
        await others_go_on(stage)
        await stage.pass_time(120.0)
        tries = ann.count("writes_refused_total", intent="WriteRun", status="422")
        assert 5 < tries < 25, "with a back-off"

    play(story)
