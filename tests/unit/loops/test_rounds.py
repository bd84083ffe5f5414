"""Runs that are run again, and jobs that people mark by hand."""

from typing import Any

import pytest

from fencepost.api.names import DAG_RUNS, DAGS, EVENTS
from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase, RunPhase
from fencepost.kube.errors import ConflictError, ConnectionLostError, InvalidError
from fencepost.loops.history import AGE_MIN_S
from fencepost.memory.faults import Fault, Request
from fencepost.worker.runner import Launch
from tests.unit.loops.processes import StageWorker
from tests.unit.loops.stage import Stage, a_task, play, slot

SUCCEEDED, FAILED = JobPhase.SUCCEEDED, JobPhase.FAILED


async def failed_run(stage: Stage, **dag: Any) -> StageWorker:
    """A worker whose jobs end when the story says so; and the run r1, whose `load` has failed and `extract` has not."""
    worker = stage.worker(job_s=None)
    stage.dag("etl", a_task("extract"), a_task("load", "extract"), a_task("report", "load"), **dag)
    stage.manual_run("r1", "etl")
    await end_next(stage, worker, 0)
    await end_next(stage, worker, 3)
    await stage.until(lambda: stage.finished("r1"))
    return worker


async def end_next(stage: Stage, worker: StageWorker, exit_code: int = 0) -> None:
    """Let the job that starts next, or runs, end."""
    await stage.until(lambda: any(not job.ended for job in worker.runner.jobs))
    next(job for job in worker.runner.jobs if not job.ended).end(exit_code)
    await stage.pass_time(0.1)


def phase_of(stage: Stage, task: str, run: str = "r1") -> JobPhase | None:
    state = stage.run(run).tasks.get(task)
    return state.phase_of(0) if state else None


def test_a_failed_run_goes_on_from_where_it_failed() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await failed_run(stage)
        token = stage.run("r1").lease_counter
        stage.edit(DAG_RUNS, "r1", round=1)
        await end_next(stage, worker)
        assert stage.run("r1").phase is RunPhase.RUNNING
        await end_next(stage, worker)
        await stage.until(lambda: stage.finished("r1"))
        run = stage.run("r1")
        assert (run.phase, run.round, run.done) == (RunPhase.SUCCEEDED, 1, 3)
        assert [job.launch.source.job.task for job in worker.runner.jobs] == ["extract", "load", "load", "report"]
        first, again = (job.launch.env for job in worker.runner.jobs[1:3])
        assert first["FENCEPOST_EXECUTION_ID"] == again["FENCEPOST_EXECUTION_ID"]
        assert int(again["FENCEPOST_TOKEN"]) == token + 1
        await stage.until(stage.quiet)

    play(story)


def test_a_round_is_taken_up_in_the_write_that_leases_its_first_job() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await failed_run(stage)
        before = stage.writes("update", DAG_RUNS, by="Ann")
        stage.edit(DAG_RUNS, "r1", round=1)
        await stage.until(lambda: not worker.runner.jobs[-1].ended)
        assert stage.writes("update", DAG_RUNS, by="Ann") == before + 1

    play(story)


@pytest.mark.parametrize("fault", ["lost answer", "conflict", "death before", "death after"])
def test_a_round_begins_once_whatever_happens_to_the_write_that_begins_it(fault: str) -> None:
    async def story(stage: Stage) -> None:
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        worker = await failed_run(stage)

        def trouble(name: str, request: Request) -> Fault | None:
            if (name, request.verb, request.kind) != ("Ann", "update", DAG_RUNS) or hit:
                return None
            hit.append(request)
            match fault:
                case "lost answer":
                    return Fault(error=ConnectionLostError("reset"), carried_out=True)
                case "conflict":
                    return Fault(error=ConflictError("changed meanwhile"))
            ann.kill()
            return Fault(error=ConnectionLostError("dead"), carried_out=fault == "death after")

        hit: list[Request] = []
        stage.trouble(trouble)
        stage.edit(DAG_RUNS, "r1", round=1)
        if fault.startswith("death"):
            await stage.until(lambda: bool(hit))
            stage.lead(ben)
        await end_next(stage, worker)
        await end_next(stage, worker)
        await stage.until(lambda: stage.finished("r1"))
        assert (stage.run("r1").phase, stage.run("r1").round) == (RunPhase.SUCCEEDED, 1)
        assert [job.launch.source.job.task for job in worker.runner.jobs] == ["extract", "load", "load", "report"]

    play(story)


def test_a_run_that_is_run_again_counts_as_active_so_that_no_slot_fires_beside_it() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await failed_run(stage, cron="* * * * *")
        stage.edit(DAG_RUNS, "r1", round=1)
        await stage.at(65.0)
        assert stage.find(DAG_RUNS, slot(1)) is None
        assert stage.get(DAGS, "etl")["status"]["skipped"] == 1
        await end_next(stage, worker)
        await end_next(stage, worker)
        await stage.until(lambda: stage.finished("r1"))
        await stage.at(125.0)
        assert stage.find(DAG_RUNS, slot(2)) is not None

    play(story)


def test_a_round_waits_until_the_runs_under_way_leave_room_for_it_and_rounds_begin_in_turn() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl", concurrency={"policy": "Forbid", "limit": 1})
        for name in ("r1", "r2"):
            stage.manual_run(name, "etl")
            await end_next(stage, worker, 1)
            await stage.until(lambda name=name: stage.finished(name))  # type: ignore[misc]
        stage.manual_run("r3", "etl")
        await stage.until(lambda: len(worker.runner.jobs) == 3)
        for name in ("r1", "r2"):
            stage.edit(DAG_RUNS, name, round=1)
        await stage.pass_time(60.0)
        assert (stage.run("r1").round, stage.run("r2").round) == (0, 0)
        await end_next(stage, worker)
        await stage.pass_time(1.0)
        assert (stage.run("r1").round, stage.run("r2").round) == (1, 0)
        await end_next(stage, worker)
        await stage.pass_time(1.0)
        assert (stage.run("r1").phase, stage.run("r2").round) == (RunPhase.SUCCEEDED, 1)

    play(story)


def test_a_cancelled_run_is_run_again_when_the_cancelling_is_taken_back_in_the_same_write() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl")
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(worker.runner.jobs))
        stage.edit(DAG_RUNS, "r1", cancel=True)
        with pytest.raises(InvalidError):
            stage.edit(DAG_RUNS, "r1", cancel=False)
        await stage.until(lambda: stage.finished("r1"))
        with pytest.raises(InvalidError):
            stage.edit(DAG_RUNS, "r1", round=1)
        stage.edit(DAG_RUNS, "r1", round=1, cancel=False)
        await end_next(stage, worker)
        await stage.until(lambda: stage.finished("r1"))
        assert stage.run("r1").phase is RunPhase.SUCCEEDED

    play(story)


def test_an_old_scheduled_run_that_is_run_again_is_no_ghost_to_a_new_leader_and_is_not_deleted_meanwhile() -> None:
    async def story(stage: Stage) -> None:
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        worker = stage.worker(job_s=None)
        stage.dag("etl", cron="* * * * *", history={"failed": 1}, concurrency={"policy": "Allow"})
        await stage.at(61.0)
        await end_next(stage, worker, 1)
        await stage.at(121.0)
        ann.kill()
        stage.edit(DAG_RUNS, slot(1), round=1)
        stage.edit(DAGS, "etl", suspend=True)
        stage.lead(ben)
        await stage.pass_time(AGE_MIN_S + 60.0)
        assert stage.run(slot(1)).phase is RunPhase.RUNNING
        await end_next(stage, worker)
        await end_next(stage, worker)
        await stage.until(lambda: stage.finished(slot(1), slot(2)))
        assert stage.run(slot(1)).phase is RunPhase.SUCCEEDED

    play(story)


def test_a_round_that_is_asked_for_while_the_run_is_about_to_be_deleted_keeps_it() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl", history={"failed": 0})
        stage.manual_run("r1", "etl")
        await end_next(stage, worker, 1)
        await stage.until(lambda: stage.finished("r1"))
        asked: list[Request] = []

        def cross(name: str, request: Request) -> Fault | None:
            if (request.verb, request.kind) == ("delete", DAG_RUNS) and not asked:
                asked.append(request)
                stage.edit(DAG_RUNS, "r1", round=1)
            return None

        stage.trouble(cross)
        await stage.until(lambda: bool(asked), limit_s=2 * AGE_MIN_S)
        await end_next(stage, worker)
        await stage.until(lambda: stage.run("r1").phase is RunPhase.SUCCEEDED)

    play(story)


def test_a_running_job_that_is_marked_is_stopped_and_its_end_does_not_count() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl", a_task("load"), a_task("report", "load"))
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(worker.runner.jobs))
        stage.edit(DAG_RUNS, "r1", overrides={"load/0": {"phase": "Succeeded", "by": "admin"}})
        await stage.until(lambda: len(worker.runner.jobs) == 2)
        assert worker.runner.jobs[0].signals
        assert worker.runner.jobs[1].launch.source.job.task == "report"
        assert phase_of(stage, "load") is SUCCEEDED
        await end_next(stage, worker)
        await stage.until(lambda: stage.finished("r1"))
        assert stage.run("r1").phase is RunPhase.SUCCEEDED
        await stage.until(stage.quiet)

    play(story)


def test_a_mark_of_a_job_that_the_run_does_not_have_is_told_of_once() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl", a_task("load"))
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(worker.runner.jobs))
        stage.edit(DAG_RUNS, "r1", overrides={"lode": {"phase": "Succeeded", "by": "admin"}})
        await end_next(stage, worker)
        await stage.until(lambda: stage.finished("r1"))
        await stage.until(stage.quiet)
        [event] = [event for event in stage.all(EVENTS) if event["reason"] == "UnknownJob"]
        assert "marks lode, which run demo/r1 does not have" in event["message"]

    play(story)


def test_a_job_on_a_worker_that_hears_nothing_ends_as_marked_once_its_entry_has_been_taken_away() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl", terminationGracePeriod="5s")
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(worker.runner.jobs))
        worker.runner.stubborn = True
        heals = stage.trouble(
            lambda name, request: (
                Fault(delay_s=1e6) if name == worker.name and request.verb in ("event", "get") else None
            )
        )
        stage.edit(DAG_RUNS, "r1", overrides={"only/0": {"phase": "Failed", "by": "admin"}})
        await stage.until(lambda: stage.finished("r1"), limit_s=60.0)
        assert stage.run("r1").phase is RunPhase.FAILED
        heals()

    play(story)


def test_a_failed_job_of_a_finished_run_is_marked_with_a_round_and_what_was_skipped_goes_on() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await failed_run(stage)
        mark = {"load": {"phase": "Succeeded", "by": "admin", "round": 1}}
        with pytest.raises(InvalidError):
            stage.edit(DAG_RUNS, "r1", overrides={"load": mark["load"] | {"round": 0}})
        stage.edit(DAG_RUNS, "r1", round=1, rerun={"round": 1, "from": "Jobs"}, overrides=mark)
        await end_next(stage, worker)
        await stage.until(lambda: stage.finished("r1"))
        assert [job.launch.source.job.task for job in worker.runner.jobs] == ["extract", "load", "report"]
        assert stage.run("r1").phase is RunPhase.SUCCEEDED
        assert phase_of(stage, "load") is SUCCEEDED

    play(story)


def test_a_run_may_be_made_with_jobs_that_are_marked_beforehand() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker()
        stage.dag("etl", a_task("extract"), a_task("load", "extract"))
        stage.manual_run("r1", "etl", overrides={"extract": {"phase": "Succeeded", "by": "admin"}})
        await stage.until(lambda: stage.finished("r1"))
        assert stage.run("r1").phase is RunPhase.SUCCEEDED
        assert [job.launch.source.job.task for job in worker.runner.jobs] == ["load"]

    play(story)


def test_a_run_that_failed_before_it_was_taken_up_may_be_run_again_when_its_dag_has_been_put_right() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl")
        stage.manual_run("r1", "etl", params={"region": "eu"})
        await stage.until(lambda: stage.finished("r1"))
        assert stage.run("r1").reason == "UnknownParam"
        stage.edit(DAGS, "etl", params={"region": "us"})
        await stage.pass_time(1.0)
        stage.edit(DAG_RUNS, "r1", round=1)
        await stage.until(lambda: stage.run("r1").phase is RunPhase.SUCCEEDED)

    play(story)


@pytest.mark.parametrize("how", ["another round of the list", "the list marked by hand"])
def test_a_job_whose_item_is_no_longer_in_the_list_fails_and_says_so(how: str) -> None:
    """It keeps its index, as its neighbour keeps its end; everything else goes on."""

    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker()
        lists = iter(('["a","b"]', '["a"]'))

        def ends(launch: Launch) -> tuple[float, int, str]:
            job = launch.source.job
            return 1.0, int((job.task, job.index) == ("each", 1)), next(lists) if job.task == "list" else ""

        worker.runner.on_start = ends
        stage.dag("etl", a_task("list"), a_task("each", "list", rule="AllDone", forEach={"from": "list"}))
        stage.manual_run("r1", "etl")
        await stage.until(lambda: stage.finished("r1"))
        if how == "another round of the list":
            asked = {"rerun": {"round": 1, "from": "Jobs", "jobs": {"list": "*", "each": "1"}}}
        else:
            asked = {"overrides": {"list": {"phase": "Failed", "by": "admin", "round": 1}}}
        stage.edit(DAG_RUNS, "r1", round=1, **asked)
        await stage.until(lambda: stage.run("r1").round == 1 and stage.finished("r1"), limit_s=10.0)
        run = stage.run("r1")
        assert run.phase is RunPhase.FAILED
        assert "Invalid" in run.failures[JobKey("each", 1)]
        assert len(worker.runner.jobs) == 4 - (how == "the list marked by hand")
        await stage.until(stage.quiet)

    play(story)
