"""Backfills from a terminal, on the stage of the loops' stories."""

import asyncio
from typing import Any

import pytest

from fencepost.api.names import BACKFILL_LABEL, DAG_RUNS, DAGS
from fencepost.core.phases import RunPhase
from fencepost.core.run_state import Trigger
from fencepost.kube.protocol import Obj
from tests.unit.cli.desk import Desk
from tests.unit.loops.processes import StageWorker
from tests.unit.loops.stage import Stage, a_task, play, slot

Captured = pytest.CaptureFixture[str]
RANGE = ("--from", "2026-11-30T11:00:00Z", "--to", "2026-11-30T11:20:00Z")
"""Five slots of the DAG below, the hour before every story begins."""
SLOTS = [slot(minute) for minute in (-60, -55, -50, -45, -40)]


def quarter_dag(stage: Stage, *tasks: dict[str, Any], **spec: Any) -> None:
    stage.dag("etl", *tasks, cron="*/5 * * * *", **spec)


def names(stage: Stage) -> list[str]:
    return [run["metadata"]["name"] for run in stage.all(DAG_RUNS)]


async def another_job(stage: Stage, worker: StageWorker) -> None:
    count = len(worker.runner.jobs)
    await stage.until(lambda: len(worker.runner.jobs) > count)


def under_way(stage: Stage) -> int:
    return sum(not stage.run(name).phase.finished for name in names(stage) if name in SLOTS)


def test_past_times_are_run_oldest_first_and_so_many_at_a_time(capsys: Captured) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=10.0)
        quarter_dag(stage)
        peak = 0

        async def watch() -> None:
            nonlocal peak
            while True:
                peak = max(peak, under_way(stage))
                await asyncio.sleep(0.1)

        stage.spawn(watch())
        assert await Desk(stage).types("backfill", "etl", *RANGE, "--max-parallel", "2") == 0
        assert peak == 2
        runs = [run for run in stage.all(DAG_RUNS) if run["metadata"]["name"] in SLOTS]
        assert [run["metadata"]["name"] for run in runs] == SLOTS
        assert {run["spec"]["trigger"] for run in runs} == {"Backfill"}
        out = capsys.readouterr().out.splitlines()
        assert out[:3] == ["backfill 1796036400-1796037600: 5 times", f"{SLOTS[0]}: created", f"{SLOTS[1]}: created"]
        assert out[-1] == "backfill 1796036400-1796037600: 5 of 5 runs Succeeded"

    play(story)


def test_a_job_of_a_backfill_sees_the_time_that_it_is_for() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker()
        quarter_dag(stage)
        await Desk(stage).types("backfill", "etl", *RANGE)
        times = [job.launch.env["FENCEPOST_SCHEDULED_TIME"] for job in worker.runner.jobs]
        assert times[:2] == ["2026-11-30T11:00:00Z", "2026-11-30T11:05:00Z"]

    play(story)


def test_a_backfill_that_was_interrupted_goes_on_where_it_stood(capsys: Captured) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=10.0)
        quarter_dag(stage)
        first = asyncio.create_task(Desk(stage).types("backfill", "etl", *RANGE))
        await stage.until(lambda: SLOTS[2] in names(stage))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert "the same command goes on with the others" in capsys.readouterr().err
        await stage.pass_time(30.0)
        assert SLOTS[3] not in names(stage)
        await stage.delete(DAG_RUNS, SLOTS[0])
        assert await Desk(stage).types("backfill", "etl", *RANGE) == 0
        assert [name for name in names(stage) if name in SLOTS] == SLOTS[1:]
        assert f"{SLOTS[0]}: left alone: dealt with before, and deleted since" in capsys.readouterr().out

    play(story)


async def interrupted(stage: Stage, made: str, *options: str) -> None:
    """A backfill that is interrupted once it has made this run."""
    first = asyncio.create_task(Desk(stage).types("backfill", "etl", *RANGE, *options))
    await stage.until(lambda: made in names(stage))
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


@pytest.mark.parametrize("limits", [{"succeeded": 0}, {"ttl": "1m"}])
def test_a_backfill_goes_on_where_it_stood_though_the_dag_keeps_no_runs(
    limits: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its latest run stays, but not for ever."""
    monkeypatch.setattr("fencepost.core.history.PROGRESS_KEPT_S", 1200.0)

    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker()
        quarter_dag(stage, suspend=True, history=limits)
        await interrupted(stage, SLOTS[2])
        await stage.until(lambda: names(stage) == [SLOTS[2]], limit_s=200.0)
        await stage.pass_time(200.0)
        assert await Desk(stage).types("backfill", "etl", *RANGE) == 0
        assert [job.launch.env["FENCEPOST_RUN"] for job in worker.runner.jobs] == SLOTS
        await stage.pass_time(1100.0)
        assert names(stage) == [SLOTS[4]]
        await stage.pass_time(200.0)
        assert names(stage) == []

    play(story)


def test_a_backfill_goes_on_after_the_latest_time_also_where_its_run_was_not_the_last_to_end() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        quarter_dag(stage, suspend=True, history={"succeeded": 1})
        await interrupted(stage, SLOTS[2], "--max-parallel", "3")
        await stage.until(lambda: len(worker.runner.jobs) == 3)
        jobs = {job.launch.env["FENCEPOST_RUN"]: job for job in worker.runner.jobs}
        for run in reversed(SLOTS[:3]):
            jobs[run].end()
            await stage.until(lambda run=run: stage.finished(run))  # type: ignore[misc]
        await stage.until(lambda: names(stage) == [SLOTS[0], SLOTS[2]], limit_s=200.0)
        await stage.pass_time(200.0)
        worker.runner.job_s = 1.0
        assert await Desk(stage).types("backfill", "etl", *RANGE) == 0
        assert sorted(job.launch.env["FENCEPOST_RUN"] for job in worker.runner.jobs) == SLOTS

    play(story)


def test_a_slot_whose_run_exists_is_left_alone_and_reprocessed_only_if_asked(capsys: Captured) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        quarter_dag(stage, history={"succeeded": 10, "failed": 10})
        desk = Desk(stage)
        filling = asyncio.create_task(desk.types("backfill", "etl", *RANGE, "--max-parallel", "5"))
        await stage.until(lambda: len(worker.runner.jobs) == 4, limit_s=20.0)
        worker.runner.job_s = 1.0
        for job, code in zip(worker.runner.jobs[:4], (0, 3, 0, 0), strict=True):
            job.end(exit_code=code)
        assert await filling == 1
        assert "4 of 5 runs Succeeded" in capsys.readouterr().out
        failed = [name for name in SLOTS if stage.run(name).phase is RunPhase.FAILED]
        assert len(failed) == 1

        assert await desk.types("backfill", "etl", *RANGE, "--name", "again") == 0
        assert capsys.readouterr().out.count("left alone") == 5
        assert await desk.types("backfill", "etl", *RANGE, "--reprocess", "failed") == 0
        assert f"{failed[0]}: run again, round 1" in capsys.readouterr().out
        assert {stage.run(name).phase for name in SLOTS} == {RunPhase.SUCCEEDED}
        assert [stage.run(name).round for name in SLOTS if name != failed[0]] == [0] * 4
        assert await desk.types("backfill", "etl", *RANGE, "--reprocess", "all") == 0
        assert sorted(stage.run(name).round for name in SLOTS) == [1, 1, 1, 1, 2]
        assert await desk.types("backfill", "etl", *RANGE, "--reprocess", "all") == 0
        assert sorted(stage.run(name).round for name in SLOTS) == [1, 1, 1, 1, 2], "it has done so already"

    play(story)


def test_a_dry_run_says_what_would_be_done_and_does_nothing(capsys: Captured) -> None:
    async def story(stage: Stage) -> None:
        quarter_dag(stage)
        before = stage.server.engine.version
        assert await Desk(stage).types("backfill", "etl", *RANGE, "--dry-run") == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == f"{SLOTS[0]}  2026-11-30T11:00:00Z  would be created"
        assert len(lines) == 5
        assert stage.server.engine.version == before

    play(story)


def test_scheduled_runs_go_first_and_are_not_held_up_by_a_backfill() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(slots=1, job_s=None)
        quarter_dag(stage)
        stage.dag("other", priority="normal")
        filling = asyncio.create_task(Desk(stage).types("backfill", "etl", *RANGE, "--max-parallel", "3"))
        await stage.until(lambda: len(worker.runner.jobs) == 1)
        await stage.at(301.0)
        assert slot(5) in names(stage), "the limit of one run at a time does not count those of a backfill"
        stage.manual_run("r1", "other")
        await stage.pass_time(1.0)
        for _ in range(2):
            worker.runner.jobs[-1].end()
            await another_job(stage, worker)
        first, *others = (job.launch.env["FENCEPOST_RUN"] for job in worker.runner.jobs)
        assert first in SLOTS
        assert set(others) == {slot(5), "r1"}, "the other two of the backfill come last"
        filling.cancel()

    play(story)


def test_a_slot_that_is_due_while_its_run_is_being_backfilled_fires_once() -> None:
    """The client was quicker than the leader: the slot's run is there, and that is what counts."""

    async def story(stage: Stage) -> None:
        quarter_dag(stage)
        stage.worker()
        await stage.at(301.0)
        stage.put(DAG_RUNS, a_backfill_run(5))
        stage.leader()
        await stage.until(lambda: stage.finished(slot(5)))
        await stage.at(620.0)
        assert stage.get(DAGS, "etl")["status"]["skipped"] == 0
        assert sorted(names(stage)) == [slot(5), slot(10)]

    play(story)


def a_backfill_run(minute: int) -> Obj:
    name = slot(minute)
    return {
        "apiVersion": "fencepost.dev/v1alpha1",
        "kind": "DAGRun",
        "metadata": {"name": name, "namespace": "demo", "labels": {BACKFILL_LABEL: "b"}},
        "spec": {"dag": "etl", "trigger": str(Trigger.BACKFILL), "scheduledTime": "2026-11-30T12:05:00Z"},
    }


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["elt", *RANGE], "not found"),
        (["etl", "--from", "yesterday", "--to", "2026-11-30T11:20:00Z"], "--from: 'yesterday' is not an RFC 3339"),
        (["etl", "--from", "2026-11-30T11:00:00Z", "--to", "2026-12-01T00:00:00Z"], "that is not past yet"),
        (["etl", "--from", "2026-11-30T11:01:00Z", "--to", "2026-11-30T11:02:00Z"], "the schedule has no time between"),
        (["etl", "--from", "2020-01-01T00:00:00Z", "--to", "2026-11-30T11:02:00Z"], "more than 10000 times"),
        (["etl", *RANGE, "--max-parallel", "0"], "write a number from 1 to 100"),
        (["etl", *RANGE, "--name", "a b"], "it becomes a label's value"),
        (["by-hand", *RANGE], "has no schedule"),
        (["broken", *RANGE], "depend on each other"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value,
)
def test_what_cannot_be_backfilled_is_refused_with_2(words: list[str], want: str) -> None:
    async def story(stage: Stage) -> None:
        quarter_dag(stage)
        stage.dag("by-hand")
        stage.dag("broken", a_task("a", "b"), a_task("b", "a"), cron="* * * * *")
        desk = Desk(stage)
        assert await desk.types("backfill", *words) == 2
        assert want in desk.error
        assert not names(stage)

    play(story)


def test_a_create_whose_answer_was_lost_is_made_again_and_found() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        quarter_dag(stage)
        desk = Desk(stage)
        desk.cluster.answers_lost = 1
        assert await desk.types("backfill", "etl", *RANGE) == 0
        assert [name for name in names(stage) if name in SLOTS] == SLOTS

    play(story)


def test_a_backfill_whose_run_another_one_takes_over_sees_it_to_its_end(capsys: Captured) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=30.0)
        quarter_dag(stage)
        stage.spawn(finished_and_taken_over(stage))
        assert await Desk(stage).types("backfill", "etl", *RANGE[:2], "--to", RANGE[1]) == 0
        out = capsys.readouterr().out
        assert f"{SLOTS[0]}: Succeeded" in out
        assert "deleted" not in out
        assert [job.launch.env["FENCEPOST_SCHEDULED_TIME"] for job in worker.runner.jobs][:2] == [RANGE[1]] * 2

    async def finished_and_taken_over(stage: Stage) -> None:
        """Another backfill asks for another round, in the moment between the end of a run and the next look at it."""
        await stage.until(lambda: SLOTS[0] in names(stage) and stage.run(SLOTS[0]).phase.finished)
        run = stage.get(DAG_RUNS, SLOTS[0])
        run["metadata"]["labels"][BACKFILL_LABEL] = "other"
        run["spec"] |= {"round": 1, "rerun": {"round": 1, "from": "All"}}
        stage.put(DAG_RUNS, run)

    play(story)


def test_a_backfill_tells_once_why_its_runs_do_not_begin(capsys: Captured) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=10.0)
        quarter_dag(stage)
        first = asyncio.create_task(Desk(stage).types("backfill", "etl", *RANGE, "--max-parallel", "2"))
        await stage.until(lambda: SLOTS[0] in names(stage))
        await stage.delete(DAGS, "etl")
        await stage.pass_time(60.0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        out = capsys.readouterr().out
        assert out.count("DAGNotFound: there is no DAG") == 1

    play(story)
