"""What a worker reads before it starts a job: definition, params, items, outputs; and what it says where it cannot."""

from typing import Any

import pytest

from fencepost.api.codec import encode_run_status
from fencepost.api.names import CONTROLLER_REVISIONS, DAG_RUNS, SHARD_LABEL, WORKERS
from fencepost.core.intervals import IntervalSet
from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase, RunPhase
from fencepost.core.run_state import Outcome, RunState, TaskState
from fencepost.kube.errors import ServerError
from fencepost.memory.faults import Fault
from tests.unit.worker.stage import (
    BY_HAND,
    ETL,
    ETL_REVISION,
    NOON_S,
    Stage,
    entry,
    key_of,
    play,
    revision_of,
)

A = key_of(0)

LISTED: dict[str, Any] = {
    "tasks": [
        {"name": "list", "command": ["list"]},
        {"name": "note", "command": ["note"]},
        {
            "name": "load",
            "command": ["load", "$(item)", "$(tasks.note.output)"],
            "dependsOn": ["list", "note"],
            "rule": "AllDone",
            "forEach": {"from": "list"},
        },
    ]
}
LISTED_STATE = RunState(
    RunPhase.RUNNING,
    start_s=NOON_S,
    tasks={
        "list": TaskState({JobPhase.SUCCEEDED: IntervalSet.of([0])}),
        "note": TaskState({JobPhase.SUCCEEDED: IntervalSet.of([0])}),
        "load": TaskState(size=2),
    },
    outputs={JobKey("list", 0): '["a", {"b": 1}]', JobKey("note", 0): "long " * 200},
)


def test_params_of_the_run_stand_over_those_of_the_dag() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({A: entry(params={"region": "us"})})
        await stage.until(lambda: bool(stage.runner.jobs))
        assert stage.runner.job(0).launch.command == ("load", "--region=us")

    play(story)


def test_large_params_are_read_from_the_run_once_for_all_its_jobs() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        uid = await stage.store_run({"region": "us"})
        keys = [key_of(index, run=BY_HAND, run_uid=uid) for index in range(5)]
        await stage.deliver({key: entry(run_uid=uid, params=None) for key in keys})
        await stage.until(lambda: len(stage.runner.jobs) == 5)
        assert {job.launch.command for job in stage.runner.jobs} == {("load", "--region=us")}
        assert len(stage.seen("get", DAG_RUNS)) == 1

    play(story)


async def store_listed_run(stage: Stage, status: dict[str, Any]) -> str:
    """The run BY_HAND of the DAG LISTED with this status; its UID."""
    await stage.store_revision(LISTED)
    uid = await stage.store_run({})
    run = await stage.operator.get(DAG_RUNS, BY_HAND.namespace, BY_HAND.name)
    await stage.lead_shard(0)
    run["metadata"]["labels"] = {SHARD_LABEL: "0"}
    await stage.operator.replace(DAG_RUNS, {**run, "status": status})
    return uid


def test_items_and_outputs_are_read_from_the_run_once_for_all_jobs_of_a_task() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        uid = await store_listed_run(stage, encode_run_status(LISTED_STATE))
        keys = [key_of(index, run=BY_HAND, run_uid=uid) for index in range(3)]
        await stage.deliver({key: entry(run_uid=uid, revision=revision_of(LISTED), params=None) for key in keys})
        await stage.until(lambda: len(stage.runner.jobs) == 2)
        commands = sorted(job.launch.command for job in stage.runner.jobs)
        assert commands == [("load", "a", "long " * 200), ("load", '{"b":1}', "long " * 200)]
        assert {job.launch.env["FENCEPOST_RUN_STATUS"] for job in stage.runner.jobs} == {"Succeeded"}
        result = await stage.answer(keys[2])
        assert result.outcome is Outcome.INVALID
        assert "the list of task list has 2 items, none for job load/2" in result.message
        assert len(stage.seen("get", DAG_RUNS)) == 1

    play(story)


def test_a_run_whose_status_was_garbled_gives_no_job_its_inputs() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        uid = await store_listed_run(stage, encode_run_status(LISTED_STATE) | {"done": "three"})
        key = key_of(0, run=BY_HAND, run_uid=uid)
        await stage.deliver({key: entry(run_uid=uid, revision=revision_of(LISTED), params=None)})
        result = await stage.answer(key)
        assert result.outcome is Outcome.INVALID
        assert f"the status of DAGRun {BY_HAND} cannot be read" in result.message

    play(story)


def test_a_run_that_was_made_again_is_not_the_one_that_was_leased() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.store_run({"region": "us"})
        key = key_of(0, run=BY_HAND)
        await stage.deliver({key: entry(params=None)})
        result = await stage.answer(key)
        assert result.outcome is Outcome.INVALID
        assert f"DAGRun {BY_HAND} is another one now" in result.message

    play(story)


def test_many_jobs_of_one_revision_cost_one_read() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({key_of(index): entry() for index in range(10)})
        await stage.until(lambda: len(stage.runner.jobs) == 10)
        for job in stage.runner.jobs:
            job.end()
        await stage.answer(key_of(9))
        await stage.deliver({key_of(index): entry(2) for index in range(10)})
        await stage.until(lambda: len(stage.runner.jobs) == 20)
        assert len(stage.seen("get", CONTROLLER_REVISIONS)) == 1

    play(story)


def test_a_revision_that_is_gone_is_named_with_the_remedy() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({A: entry(revision="etl-0000000000")})
        result = await stage.answer(A)
        assert result.outcome is Outcome.MISSING
        assert result.message == (
            "ControllerRevision analytics/etl-0000000000 does not exist and its DAG has another content by now: "
            "start the run anew"
        )

    play(story)


def test_a_revision_whose_content_was_changed_is_never_run() -> None:
    async def story(stage: Stage) -> None:
        await stage.store_revision({**ETL, "params": {"region": "evil"}}, name=ETL_REVISION)
        stage.start()
        await stage.until(lambda: bool(stage.seen("watch", WORKERS)))
        await stage.deliver({A: entry()})
        result = await stage.answer(A)
        assert result.outcome is Outcome.INVALID
        assert "it has been changed" in result.message
        assert stage.runner.jobs == []

    play(story)


@pytest.mark.parametrize(
    ("data", "want"),
    [(None, "holds no definition"), ({"tasks": "none"}, "cannot be read: data.tasks")],
)
def test_a_revision_that_holds_no_definition_is_never_run(data: Any, want: str) -> None:
    async def story(stage: Stage) -> None:
        name = revision_of(data or {})
        await stage.open()
        await stage.store_revision(data, name=name)
        await stage.deliver({A: entry(revision=name)})
        result = await stage.answer(A)
        assert result.outcome is Outcome.INVALID
        assert want in result.message

    play(story)


@pytest.mark.parametrize(
    ("key", "want"),
    [
        (key_of(0, task="unload"), "has no job unload/0"),
        (key_of(100), "has no job load/100"),
        (key_of(0, task="broken"), "task broken of DAG etl: $(params.absent) has no value here"),
    ],
)
def test_a_job_that_the_definition_does_not_hold_is_invalid(key: str, want: str) -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({key: entry()})
        result = await stage.answer(key)
        assert result.outcome is Outcome.INVALID
        assert want in result.message

    play(story)


def test_a_definition_that_cannot_be_read_for_a_while_is_waited_for() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        stage.fault = lambda request: (
            Fault(error=ServerError("etcd has no leader")) if request.kind is CONTROLLER_REVISIONS else None
        )
        await stage.deliver({A: entry()})
        await stage.pass_time(20)
        stage.recover()
        await stage.until(lambda: stage.runner.started() == [0])

    play(story)


def test_a_job_whose_definition_cannot_be_read_at_all_is_handed_back() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        stage.fault = lambda request: (
            Fault(error=ServerError("etcd has no leader")) if request.kind is CONTROLLER_REVISIONS else None
        )
        await stage.deliver({A: entry()})
        result = await stage.answer(A, limit_s=120)
        assert (result.outcome, result.started_at_s) == (Outcome.HANDED_BACK, None)
        assert "could not be read for 60 s: etcd has no leader" in result.message

    play(story)
