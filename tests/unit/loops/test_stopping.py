"""Stopping: by a person, by a time limit, by a deletion; and workers that do not obey."""

from typing import Any

import pytest

from fencepost.api.names import DAG_RUNS, DAGS, WORKERS
from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase, RunPhase
from fencepost.kube.errors import ConnectionLostError, ServerError
from fencepost.loops.mailboxes import LIMIT_SLACK_S, STOP_SLACK_S
from fencepost.memory.faults import Fault, Request
from tests.unit.loops.processes import StageWorker
from tests.unit.loops.stage import SYSTEM, Stage, a_task, play

ONLY = JobKey("only", 0)
GRACE_S = 5.0


async def running(stage: Stage, *tasks: dict[str, Any], **spec: Any) -> StageWorker:
    """A worker whose jobs end when the story says so, and a run with one of them under way."""
    worker = stage.worker(job_s=None)
    stage.dag("etl", *tasks, terminationGracePeriod=f"{GRACE_S:g}s", **spec)
    stage.manual_run("r1", "etl")
    await stage.until(lambda: bool(worker.runner.jobs))
    return worker


def deaf(stage: Stage, worker: StageWorker, *verbs: str) -> None:
    """The worker renews, and does not hear of changes of its mailbox by these means (none named: by any)."""
    stage.trouble(
        lambda name, request: (
            Fault(delay_s=1e6)
            if name == worker.name and request.kind is WORKERS and request.verb in (verbs or ("event", "get"))
            else None
        )
    )


def test_a_cancelled_run_stops_what_runs_and_starts_nothing_more() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await running(stage, a_task("only"), a_task("next", "only"))
        stage.edit(DAG_RUNS, "r1", cancel=True)
        took_s = await stage.until(lambda: stage.finished("r1"))
        assert took_s < 1.0
        run = stage.run("r1")
        assert (run.phase, run.reason) == (RunPhase.CANCELLED, "Cancelled")
        assert {run.tasks[name].phase_of(0) for name in ("only", "next")} == {JobPhase.CANCELLED}
        assert worker.runner.jobs[0].ended
        await stage.until(stage.quiet)

    play(story)


def test_a_run_cancelled_before_anything_could_start_ends_at_once() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.dag("etl")
        stage.manual_run("r1", "etl")
        await stage.pass_time(10.0)
        assert stage.run("r1").reason == "NoWorker"
        stage.edit(DAG_RUNS, "r1", cancel=True)
        await stage.until(lambda: stage.run("r1").phase is RunPhase.CANCELLED, limit_s=1.0)

    play(story)


def test_a_result_that_crosses_the_request_to_stop_counts() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await running(stage)
        stage.once("Ann", "update", WORKERS, Fault(delay_s=2.0))
        stage.edit(DAG_RUNS, "r1", cancel=True)
        await stage.pass_time(0.5)
        worker.runner.jobs[0].end()
        await stage.until(lambda: stage.finished("r1"))
        assert stage.run("r1").phase is RunPhase.SUCCEEDED, "all its jobs had ended well"
        await stage.until(stage.quiet)

    play(story)


def test_a_worker_that_ignores_a_stop_has_the_entry_taken_away_after_the_grace_period() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await running(stage)
        deaf(stage, worker)
        stage.edit(DAG_RUNS, "r1", cancel=True)
        took_s = await stage.until(lambda: not stage.mailbox(worker))
        assert GRACE_S + STOP_SLACK_S <= took_s < GRACE_S + STOP_SLACK_S + 3.0
        await stage.until(lambda: stage.finished("r1"), limit_s=1.0)
        assert stage.run("r1").phase is RunPhase.CANCELLED
        assert not stage.is_fenced(worker)

    play(story)


def test_an_entry_counts_as_taken_away_though_the_answer_to_that_write_was_lost() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await running(stage)
        deaf(stage, worker)
        stage.once("Ann", "update", WORKERS, Fault(error=ServerError("timed out"), carried_out=True), skip=1)
        stage.edit(DAG_RUNS, "r1", cancel=True)
        await stage.until(lambda: not stage.mailbox(worker), limit_s=GRACE_S + STOP_SLACK_S + 3.0)
        await stage.until(lambda: stage.finished("r1"), limit_s=1.0)
        assert stage.run("r1").phase is RunPhase.CANCELLED
        assert not stage.is_fenced(worker)

    play(story)


@pytest.mark.parametrize("limits", [{"task": "20s", "run": None}, {"task": None, "run": "20s"}])
def test_a_job_over_its_limit_is_stopped_from_outside_when_its_worker_does_not(limits: dict[str, str | None]) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        task = a_task("only", **({"timeout": limits["task"]} if limits["task"] else {}))
        worker = await running(stage, task, **({"timeout": limits["run"]} if limits["run"] else {}))
        deaf(stage, worker)
        # the worker's own limit fires, and its answer never arrives
        stage.trouble(
            lambda name, request: Fault(error=ConnectionLostError("away")) if request.subresource == "status" else None
        )
        limit_s = 20.0 + GRACE_S + LIMIT_SLACK_S + GRACE_S + STOP_SLACK_S
        await stage.until(lambda: stage.finished("r1"), limit_s=limit_s + 5.0)
        assert stage.run("r1").phase is RunPhase.FAILED
        assert not stage.mailbox(worker)

    play(story)


def test_a_job_over_its_limit_is_stopped_by_a_leader_that_took_over_in_the_meantime() -> None:
    """Ben has been watching all the time, and his clock for the entry ran out while it was not his to stop."""

    async def story(stage: Stage) -> None:
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        worker = await running(stage, a_task("only", timeout="20s"))
        deaf(stage, worker)
        stage.trouble(
            lambda name, request: Fault(error=ConnectionLostError("away")) if request.subresource == "status" else None
        )
        await stage.at(30.0)
        ann.kill()
        await stage.at(60.0)
        stage.lead(ben)
        await stage.until(lambda: stage.finished("r1"), limit_s=60.0)
        assert stage.run("r1").phase is RunPhase.FAILED
        assert not stage.mailbox(worker)

    play(story)


def test_a_worker_that_answers_at_the_last_moment_is_heard() -> None:
    """The write that takes its entry away unanswered is on its way when the answer is stored: it was sent in vain, and
    the entry stays until the answer has been folded."""

    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await running(stage)
        [job] = worker.runner.jobs
        deaf(stage, worker, "event")

        def crossing(name: str, request: Request) -> Fault | None:
            taking_away = stage.writes("update", WORKERS, by="Ann") == 3
            if (name, request.verb, request.kind) != ("Ann", "update", WORKERS) or not taking_away:
                return None
            job.end()
            return Fault(delay_s=worker.settings.coalesce_s + 0.01)

        stage.trouble(crossing)
        stage.edit(DAG_RUNS, "r1", cancel=True)
        await stage.until(lambda: stage.finished("r1"), limit_s=30.0)
        assert job.ended
        assert stage.run("r1").phase is RunPhase.SUCCEEDED, "its only job had ended well"
        await stage.until(stage.quiet)

    play(story)


def test_a_run_deleted_before_its_lease_is_delivered_starts_nothing() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl")
        await stage.pass_time(1.0)
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(stage.run("r1").leases), limit_s=0.5)
        await stage.delete(DAG_RUNS, "r1")
        await stage.pass_time(5.0)
        assert not stage.mailbox(worker)
        assert all(job.ended for job in worker.runner.jobs)

    play(story, lawful=False)


@pytest.mark.parametrize("after_s", [0.0, 0.06, 0.11, 0.2, 1.0])
def test_a_run_deleted_at_any_moment_leaves_nothing(after_s: float) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(slots=1, job_s=None)
        stage.dag("etl")
        await stage.pass_time(1.0)
        stage.once("Ann", "update", WORKERS, Fault(delay_s=0.5, answer_delay_s=0.5))
        stage.manual_run("r1", "etl")
        await stage.pass_time(after_s)
        await stage.delete(DAG_RUNS, "r1")
        await stage.pass_time(5.0)
        assert not stage.mailbox(worker)
        assert all(job.ended for job in worker.runner.jobs)
        stage.manual_run("r2", "etl")
        await stage.until(lambda: bool(worker.runner.of_task("only")))

    play(story, lawful=False)


def test_a_deleted_dag_takes_its_runs_and_their_jobs_along() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await running(stage)
        await stage.delete(DAGS, "etl")
        await stage.until(lambda: not stage.mailbox(worker) and worker.runner.jobs[0].ended, limit_s=5.0)
        assert not stage.all(DAG_RUNS)

    play(story)


def test_orphaned_runs_go_on_without_their_dag() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await running(stage, a_task("only"), a_task("next", "only"))
        await stage.delete(DAGS, "etl", propagation="Orphan")
        worker.runner.job_s = 1.0
        worker.runner.jobs[0].end()
        await stage.until(lambda: stage.finished("r1"))
        assert stage.run("r1").phase is RunPhase.SUCCEEDED
        await stage.until(stage.quiet)

    play(story)


def test_a_worker_that_ends_stops_nobodys_retries() -> None:
    """Hurried, it stops its job: not the job's failure, so that it runs again elsewhere as the same attempt."""

    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await running(stage)
        worker.worker.hurry()
        other = stage.worker("w2")
        await stage.until(lambda: stage.finished("r1"))
        assert stage.run("r1").phase is RunPhase.SUCCEEDED
        assert other.runner.jobs[0].launch.env["FENCEPOST_ATTEMPT"] == "1"
        assert stage.find(WORKERS, worker.full_name, SYSTEM) is not None

    play(story)
