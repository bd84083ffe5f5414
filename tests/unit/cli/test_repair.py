"""Running again, marking and replaying from a terminal."""

import pytest

from fencepost.api.names import DAG_RUNS, DEAD_LETTERS
from fencepost.core.phases import JobPhase, RunPhase
from tests.unit.cli.desk import Desk
from tests.unit.loops.processes import StageWorker
from tests.unit.loops.stage import Stage, a_task, play

Captured = pytest.CaptureFixture[str]


async def failed_run(stage: Stage, count: int = 1) -> StageWorker:
    """A run `r1` in which `extract` is well and every job of `load` has failed; whatever runs next goes well."""
    stage.leader()
    worker = stage.worker(job_s=1.0)
    worker.runner.exit_codes["load"] = [3] * count
    fan_out = {} if count == 1 else {"forEach": {"count": count}}
    stage.dag("etl", a_task("extract"), a_task("load", "extract", **fan_out), a_task("report", "load"))
    stage.manual_run("r1", "etl")
    await stage.until(lambda: stage.finished("r1"))
    return worker


def tasks_of(worker: StageWorker) -> list[str]:
    return sorted(str(job.launch.source.job) for job in worker.runner.jobs)


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ([], ["load/0", "report/0"]),
        (["--from-failed"], ["load/0", "report/0"]),
        (["--all"], ["extract/0", "load/0", "report/0"]),
        (["--task", "load"], ["load/0", "report/0"]),
        (["--task", "extract", "--downstream"], ["extract/0", "load/0", "report/0"]),
    ],
    ids=" ".join,
)
def test_a_failed_run_is_run_again_and_followed_to_its_end(
    options: list[str], want: list[str], capsys: Captured
) -> None:
    async def story(stage: Stage) -> None:
        worker = await failed_run(stage)
        worker.runner.jobs.clear()
        assert await Desk(stage).types("rerun", "r1", *options, "--wait") == 0
        assert tasks_of(worker) == want
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "dagrun.fencepost.dev/r1 is run again, in round 1"
        assert "r1: Succeeded 3/3" in lines[-1]

    play(story)


def test_single_jobs_of_a_fan_out_are_run_again() -> None:
    async def story(stage: Stage) -> None:
        worker = await failed_run(stage, count=4)
        worker.runner.jobs.clear()
        assert await Desk(stage).types("rerun", "r1", "--task", "load/1", "--task", "load/3", "--wait") == 1
        assert tasks_of(worker) == ["load/1", "load/3"]

    play(story)


def test_a_cancelled_run_is_run_again_without_further_words() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=5.0)
        stage.dag("etl")
        stage.manual_run("r1", "etl")
        desk = Desk(stage)
        await stage.pass_time(1.0)
        assert await desk.types("cancel", "r1", "--wait") == 0
        assert await desk.types("rerun", "r1", "--wait") == 0

    play(story)


def test_a_job_of_a_finished_run_is_marked_by_whoever_does_it_and_what_was_skipped_goes_on(capsys: Captured) -> None:
    async def story(stage: Stage) -> None:
        worker = await failed_run(stage)
        worker.runner.jobs.clear()
        assert await Desk(stage).types("mark", "r1", "load/0", "Succeeded") == 0
        await stage.until(lambda: stage.run("r1").round == 1 and stage.finished("r1"))
        assert tasks_of(worker) == ["report/0"]
        assert stage.run("r1").phase is RunPhase.SUCCEEDED
        mark = stage.get(DAG_RUNS, "r1")["spec"]["overrides"]["load/0"]
        assert (mark["by"], mark["round"]) == ("user", 1)
        assert capsys.readouterr().out == "job load/0 of dagrun.fencepost.dev/r1 is marked Succeeded\n"

    play(story)


def test_a_whole_task_of_a_run_under_way_is_marked_and_marks_of_earlier_rounds_are_cleared_away() -> None:
    async def story(stage: Stage) -> None:
        await failed_run(stage)
        desk = Desk(stage)
        assert await desk.types("mark", "r1", "load", "Failed") == 0
        await stage.until(lambda: stage.run("r1").round == 1 and stage.finished("r1"))
        assert await desk.types("rerun", "r1", "--all") == 0
        await stage.until(lambda: stage.run("r1").round == 2)
        assert await desk.types("mark", "r1", "extract", "Succeeded") == 0
        overrides = stage.get(DAG_RUNS, "r1")["spec"]["overrides"]
        assert {job: mark["round"] for job, mark in overrides.items()} == {"extract": 2}
        await stage.until(lambda: stage.finished("r1"))
        assert stage.run("r1").tasks["load"].phase_of(0) is JobPhase.SUCCEEDED

    play(story)


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["rerun", "nothing"], "not found"),
        (["rerun", "r1", "--task", "laod"], "the run has no task 'laod'; it has extract, load, report"),
        (["rerun", "r1", "--task", "load/1"], "'load/1': task load has 1 job; write load"),
        (["rerun", "r1", "--task", "load/x"], "not of the form TASK or TASK/INDEX"),
        (["mark", "r1", "laod", "Failed"], "has no task 'laod'"),
        (["rerun", "r2"], "is still under way; wait until it has ended, or cancel it"),
        (["rerun", "r3"], "every job of it has succeeded; say --all, or name a --task"),
        (["replay"], "name dead letters, or give a --selector"),
        (["replay", "nothing"], "not found"),
        (["replay", "-l", "a=b", "--rate", "0"], "no rate; write one such as 5/s"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_repaired_is_refused_with_2(words: list[str], want: str) -> None:
    async def story(stage: Stage) -> None:
        await failed_run(stage)
        stage.manual_run("r3", "etl")
        await stage.until(lambda: stage.run("r3").phase is RunPhase.SUCCEEDED)
        stage.manual_run("r2", "etl")
        desk = Desk(stage)
        assert await desk.types(*words) == 2
        assert want in desk.error

    play(story)


def test_a_second_round_is_refused_until_the_first_has_begun() -> None:
    async def story(stage: Stage) -> None:
        await failed_run(stage)
        stage.replicas["Ann"].kill()
        desk = Desk(stage)
        assert await desk.types("rerun", "r1") == 0
        assert await desk.types("rerun", "r1", "--all") == 2
        assert "round 1 has been asked for and has not begun yet" in desk.error

    play(story)


def test_dead_letters_are_replayed_by_name_or_by_label_at_the_rate_asked_for(capsys: Captured) -> None:
    async def story(stage: Stage) -> None:
        worker = await failed_run(stage, count=4)
        worker.runner.jobs.clear()
        names = [letter["metadata"]["name"] for letter in stage.all(DEAD_LETTERS)]
        desk = Desk(stage)
        assert await desk.types("replay", names[0]) == 0
        assert await desk.types("replay", names[0]) == 0
        assert (
            capsys.readouterr().out.splitlines()[1] == f"deadletter.fencepost.dev/{names[0]} is being replayed already"
        )
        await stage.until(lambda: stage.get(DEAD_LETTERS, names[0]).get("status", {}).get("phase") == "Succeeded")
        began_s = stage.now_s
        assert await desk.types("replay", "--selector", "fencepost.dev/run=r1", "--rate", "0.5/s") == 0
        assert stage.now_s - began_s == pytest.approx(4.0)
        await stage.until(lambda: stage.run("r1").phase is RunPhase.SUCCEEDED)
        assert [job for job in tasks_of(worker) if job != "report/0"] == ["load/0", "load/1", "load/2", "load/3"]
        await stage.pass_time(5.0)
        assert await desk.types("replay", "-l", "fencepost.dev/dag=etl") == 0
        assert "no dead letter of demo is to be replayed" in capsys.readouterr().out

    play(story)
