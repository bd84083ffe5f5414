"""explain, tree and logs, of runs on the stage of the loops' stories."""

import asyncio
import re

import orjson
import pytest

from fencepost.api.names import CONTROLLER_REVISIONS, DAG_RUNS, DEAD_LETTERS
from fencepost.api.times import format_time
from fencepost.cli.logs import Line, Tail
from fencepost.core.rules import Rule
from tests.unit.cli.desk import Desk
from tests.unit.loops.processes import StageWorker
from tests.unit.loops.stage import Stage, a_task, play

Captured = pytest.CaptureFixture[str]
DIAMOND = (
    a_task("extract"),
    a_task("left", "extract"),
    a_task("right", "extract"),
    a_task("join", "left", "right"),
    a_task("report", "join", rule=Rule.ALL_DONE.value),
)


async def see(desk: Desk, capsys: Captured, *words: str) -> list[str]:
    """What a command prints that goes well."""
    capsys.readouterr()
    assert await desk.types(*words) == 0, desk.error
    return capsys.readouterr().out.splitlines()


async def begun(stage: Stage, worker: StageWorker, task: str) -> None:
    await stage.until(lambda: bool(worker.runner.of_task(task)))


def test_explain_tells_what_every_job_waits_for(capsys: Captured) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(slots=1, job_s=None)
        stage.dag("etl", a_task("load", forEach={"count": 3}), a_task("report", "load"))
        stage.manual_run("r", "etl")
        await stage.until(lambda: bool(worker.runner.jobs))
        await stage.pass_time(10.0)
        full = "PoolFull: all 1 slots of pool 'default' are taken; add workers or wait"
        counts = "(2 jobs wait for a slot, 1 cannot start yet)"
        assert await see(Desk(stage), capsys, "explain", "r") == [
            f"r of DAG etl: Running 0/4: {full} {counts}",
            "load: 1 Running, 2 Queued",
            "  load/0 runs on w1-aaaaa, attempt 1, for 10 s",
            "  2 jobs are queued for 10 s: PoolFull",
            "report: Pending",
            "  1 job is pending: waits for load (0 of its jobs ended)",
        ]

    play(story)


def test_explain_of_a_run_that_nobody_has_taken_up(capsys: Captured) -> None:
    async def story(stage: Stage) -> None:
        stage.manual_run("r", "etl")
        desk = Desk(stage)
        first, second = await see(desk, capsys, "explain", "r")
        assert first == "r of DAG etl: Pending"
        assert "no operator has looked at it yet" in second
        stage.leader()
        await stage.pass_time(2.0)
        [only] = await see(desk, capsys, "explain", "r")
        assert only.startswith("r of DAG etl: Pending 0/0: DAGNotFound: there is no DAG demo/etl")
        assert await see(desk, capsys, "tree", "r") == [only]
        assert await desk.types("logs", "r", "only") == 2
        assert "has not begun" in desk.error

    play(story)


def test_a_run_whose_revision_is_gone_is_refused_with_the_remedy() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl")
        stage.manual_run("r", "etl")
        await stage.until(lambda: stage.finished("r"))
        await stage.delete(CONTROLLER_REVISIONS, stage.get(DAG_RUNS, "r")["spec"]["revision"])
        desk = Desk(stage)
        assert await desk.types("tree", "r") == 2
        assert "is gone, so its graph is not known" in desk.error

    play(story)


def test_tree_draws_each_task_once_below_what_it_waited_for_last(capsys: Captured) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl", *DIAMOND, a_task("aside"))
        stage.manual_run("r", "etl")
        for task, seconds in (("extract", 2.0), ("right", 3.0), ("left", 20.0)):
            await begun(stage, worker, task)
            await stage.pass_time(seconds)
            worker.runner.of_task(task)[0].end()
        await begun(stage, worker, "join")
        lines = await see(Desk(stage), capsys, "tree", "r")
        drawn = [re.match(r"\W*\w+", line) for line in lines[1:]]
        assert [name and name[0] for name in drawn] == [
            "extract",
            "├─ left",
            "│  ↓ join",
            "│  ↓ report",
            "└─ right",
            "aside",
        ]
        by_name = {line.strip("│├└─↓ ").split()[0]: line for line in lines[1:]}
        assert {name for name, line in by_name.items() if " *" in line} == {"extract", "left"}
        assert re.search(r"Succeeded  +23s from \+2\.[0-9]s  +\*$", by_name["left"])
        assert by_name["join"].endswith("after left, right")
        assert by_name["report"].split()[-1] == "Pending"

    play(story)


def printed(desk: Desk, pod: str, *lines: str, task: str = "only", run: str = "r", at_s: float | None = None) -> None:
    """A worker's pod prints lines of a job."""
    now_s = desk.stage.clock.now_s() if at_s is None else at_s
    label = {"time": format_time(now_s, millis=True), "namespace": "demo", "run": run, "task": task, "index": 0}
    log = desk.cluster.logs.setdefault(pod, [b"not JSON at all"])
    log += [orjson.dumps({**label, "attempt": 1, "line": line}) for line in lines]


def test_logs_of_a_job_that_runs_are_those_of_its_worker_and_are_followed_to_its_end(capsys: Captured) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl")
        stage.manual_run("r", "etl")
        await stage.until(lambda: bool(worker.runner.jobs))
        desk = Desk(stage)
        printed(desk, "w1", "one", "two")
        printed(desk, "w1", "of another", task="other")
        printed(desk, "w1", "of another run", run="r2")
        assert await see(desk, capsys, "logs", "r", "only") == ["one", "two"]

        following = asyncio.create_task(desk.types("logs", "r", "only/0", "--follow"))
        await stage.pass_time(3.5)
        printed(desk, "w1", "three", "three")
        await stage.pass_time(3.5)
        printed(desk, "w1", "four")
        worker.runner.jobs[0].end()
        await stage.pass_time(1.0)
        printed(desk, "w1", "last words")
        assert await following == 0
        said = capsys.readouterr()
        assert said.out.splitlines() == ["one", "two", "three", "three", "four", "last words"]
        assert said.err == "from the log of pod fencepost-system/w1\n"

    play(story)


def test_logs_of_a_job_that_has_ended_are_looked_for_in_all_workers_of_its_pool(capsys: Captured) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker("w1")
        stage.worker("w2")
        stage.dag("etl")
        stage.manual_run("r", "etl")
        await stage.until(lambda: stage.finished("r"))
        desk = Desk(stage)
        printed(desk, "w2", "it was here")
        assert await see(desk, capsys, "logs", "r", "only") == ["it was here"]

    play(story)


def test_where_no_log_is_left_the_end_that_is_stored_of_a_failed_job_is_printed(capsys: Captured) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl", a_task("only"), a_task("next", "only"))
        stage.manual_run("r", "etl")
        await stage.until(lambda: bool(worker.runner.jobs))
        desk = Desk(stage)
        assert await desk.types("logs", "r", "next") == 2
        assert "job next/0 has not been started" in desk.error
        assert await desk.types("logs", "r", "only") == 2
        assert "job only/0 runs, and nothing that it printed is to be had" in desk.error
        worker.runner.jobs[0].end(exit_code=3, tail="the last words")
        await stage.until(lambda: stage.finished("r"))
        for kept, want in (("dead letter", "the last words\n"), ("run", "Failed exit 3: the last words\n")):
            assert await desk.types("logs", "r", "only") == 0
            said = capsys.readouterr()
            assert said.out == want
            assert f"pods 'w1' not found; what follows is the end that its {kept} keeps" in said.err
            for letter in stage.all(DEAD_LETTERS):
                await stage.delete(DEAD_LETTERS, letter["metadata"]["name"])

    play(story)


@pytest.mark.parametrize(
    ("job", "want"),
    [
        ("nothing", "the run has no task 'nothing'; it has load, only"),
        ("load", "task load has 3 jobs; write load/0 to load/2"),
        ("load/3", "task load has 3 jobs"),
        ("only/x", "'only/x' is not of the form TASK or TASK/INDEX"),
    ],
)
def test_a_job_that_there_is_not_is_refused(job: str, want: str) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl", a_task("only"), a_task("load", forEach={"count": 3}))
        stage.manual_run("r", "etl")
        await stage.until(lambda: stage.finished("r"))
        desk = Desk(stage)
        assert await desk.types("logs", "r", job) == 2
        assert want in desk.error

    play(story)


def test_a_tail_prints_each_line_once_though_it_is_asked_for_again_and_again() -> None:
    tail = Tail(since_s=100.0)
    log = [Line(100.2, "a"), Line(100.9, "b")]
    assert [line.text for line in tail.news(log)] == ["a", "b"]
    log += [Line(100.9, "b"), Line(102.5, "c")]
    assert [line.text for line in tail.news(log)] == ["b", "c"]
    assert tail.news(log[2:]) == [], "the log may begin later by now"
    log += [Line(102.5, "d")]
    assert [line.text for line in tail.news(log[3:])] == ["d"]
