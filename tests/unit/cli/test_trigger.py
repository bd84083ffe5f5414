"""Starting, cancelling, suspending and resuming from a terminal."""

import asyncio

import pytest

from fencepost.api.names import DAG_RUNS, DAGS
from fencepost.core.phases import RunPhase
from tests.unit.cli.desk import Desk
from tests.unit.loops.stage import Stage, a_task, play

Captured = pytest.CaptureFixture[str]


def test_a_triggered_run_is_followed_to_its_end(capsys: Captured) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=5.0)
        stage.dag("etl", a_task("first"), a_task("next", "first"), params={"region": "eu"})
        assert await Desk(stage).types("trigger", "etl", "--param", "region=us=1", "--wait") == 0
        [run] = stage.all(DAG_RUNS)
        assert run["spec"]["params"] == {"region": "us=1"}
        name = run["metadata"]["name"]
        assert name.startswith("etl-")
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == f"dagrun.fencepost.dev/{name} created"
        assert lines[-2:] == [f"{name}: Running 1/2", f"{name}: Succeeded 2/2 in 10s"]

    play(story)


def test_whoever_does_not_wait_gets_the_name_at_once(capsys: Captured) -> None:
    async def story(stage: Stage) -> None:
        stage.dag("etl")
        assert await Desk(stage).types("trigger", "etl", "--name", "by-ann") == 0
        assert capsys.readouterr().out == "dagrun.fencepost.dev/by-ann created\n"
        assert stage.now_s == 0.0

    play(story)


def test_a_run_that_fails_ends_the_wait_with_1_and_says_why(capsys: Captured) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl")
        waiting = asyncio.create_task(Desk(stage).types("trigger", "etl", "--name=r", "--wait"))
        await stage.until(lambda: bool(worker.runner.jobs))
        worker.runner.jobs[0].end(exit_code=3)
        assert await waiting == 1
        assert "r: Failed 1/1 in 0s: JobsFailed: job only/0 failed: Failed exit 3" in capsys.readouterr().out

    play(story)


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["trigger", "elt"], "not found"),
        (["trigger", "etl", "--param", "region"], "there is no = in it"),
        (["trigger", "etl", "--param", "zone=a"], "DAG etl declares no param 'zone'; it has region"),
        (["trigger", "etl", "--param", "region=a", "--param", "region=b"], "'region' is given twice"),
        (["trigger", "etl", "--name", "etl-1796040000"], "names that end in a dash and ten digits"),
        (["cancel", "nothing"], "not found"),
        (["suspend", "elt"], "not found"),
        (["resume", "--run", "nothing"], "not found"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_refused_with_2_and_changes_nothing(words: list[str], want: str) -> None:
    async def story(stage: Stage) -> None:
        stage.dag("etl", params={"region": "eu"})
        before = stage.server.engine.version
        desk = Desk(stage)
        assert await desk.types(*words) == 2
        assert want in desk.error
        assert stage.server.engine.version == before

    play(story)


def test_a_dag_that_is_not_ready_is_warned_of(capsys: Captured) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.dag("etl", a_task("a", "b"), a_task("b", "a"))
        await stage.pass_time(3.0)
        assert await Desk(stage).types("trigger", "etl") == 0
        assert "warning: DAG etl is not ready: spec.tasks: the tasks depend on each other" in capsys.readouterr().err

    play(story)


def test_the_wait_outlasts_an_api_server_that_is_away_for_a_while_but_not_for_ever() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=300.0)
        stage.dag("etl")
        desk = Desk(stage)
        waiting = asyncio.create_task(desk.types("trigger", "etl", "--wait"))
        await stage.pass_time(5.0)
        desk.cluster.away = True
        await stage.pass_time(100.0)
        desk.cluster.away = False
        await stage.pass_time(5.0)
        assert not waiting.done()
        desk.cluster.away = True
        await stage.pass_time(125.0)
        assert waiting.done()
        assert await waiting == 1
        assert "nobody has answered for 120 s" in desk.error

    play(story)


def test_a_run_that_is_deleted_ends_the_wait() -> None:
    async def story(stage: Stage) -> None:
        stage.dag("etl")
        desk = Desk(stage)
        waiting = asyncio.create_task(desk.types("trigger", "etl", "--name=r", "--wait"))
        await stage.pass_time(5.0)
        await stage.delete(DAG_RUNS, "r")
        assert await waiting == 1
        assert "was deleted before it had ended" in desk.error

    play(story)


def test_a_cancelled_run_is_waited_for_and_cancelling_it_again_changes_nothing(capsys: Captured) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl")
        stage.manual_run("r", "etl")
        await stage.until(lambda: bool(worker.runner.jobs))
        desk = Desk(stage)
        assert await desk.types("cancel", "r", "--wait") == 0
        assert stage.run("r").phase is RunPhase.CANCELLED
        capsys.readouterr()
        assert await desk.types("cancel", "r") == 0
        assert capsys.readouterr().out == "dagrun.fencepost.dev/r was cancelled before\n"

    play(story)


def test_a_run_that_has_ended_can_be_neither_cancelled_nor_suspended() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl")
        stage.manual_run("r", "etl")
        await stage.until(lambda: stage.finished("r"))
        desk = Desk(stage)
        for words in (["cancel", "r"], ["suspend", "--run", "r"]):
            assert await desk.types(*words) == 2
            assert desk.error.startswith("DAGRun demo/r has succeeded already; ")

    play(story)


def test_suspending_and_resuming_a_dag_and_a_run(capsys: Captured) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.dag("etl")
        stage.manual_run("r", "etl")
        desk = Desk(stage)
        for words in (["suspend", "etl"], ["suspend", "--run", "r"]):
            assert await desk.types(*words) == 0
        assert stage.get(DAGS, "etl")["spec"]["suspend"] is True
        await stage.until(lambda: stage.run("r").reason == "Suspended", limit_s=2.0)
        for words in (["suspend", "etl"], ["resume", "etl"], ["resume", "--run", "r"], ["resume", "--run", "r"]):
            assert await desk.types(*words) == 0
        await stage.until(lambda: stage.run("r").reason != "Suspended", limit_s=2.0)
        assert capsys.readouterr().out.splitlines() == [
            "dag.fencepost.dev/etl suspended",
            "dagrun.fencepost.dev/r suspended",
            "dag.fencepost.dev/etl was suspended before",
            "dag.fencepost.dev/etl resumed",
            "dagrun.fencepost.dev/r resumed",
            "dagrun.fencepost.dev/r is not suspended",
        ]

    play(story)
