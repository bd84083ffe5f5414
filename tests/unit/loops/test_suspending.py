"""Suspending a run: at any moment, over a takeover, before it has begun; and going on."""

from fencepost.api.names import DAG_RUNS
from fencepost.core.phases import RunPhase
from tests.unit.loops.stage import Stage, a_task, play


def conditions(stage: Stage, run: str) -> dict[str, str]:
    """Type to reason of all that are true."""
    status = stage.get(DAG_RUNS, run)["status"]
    return {each["type"]: each["reason"] for each in status.get("conditions", ()) if each["status"] == "True"}


def test_a_suspended_run_finishes_what_runs_and_goes_on_when_it_may() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl", a_task("first"), a_task("next", "first"))
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(worker.runner.jobs))
        stage.edit(DAG_RUNS, "r1", suspend=True)
        await stage.until(lambda: conditions(stage, "r1") == {"Suspended": "Suspended"}, limit_s=1.0)
        worker.runner.jobs[0].end()
        await stage.until(lambda: stage.run("r1").done == 1)
        await stage.pass_time(60.0)
        assert len(worker.runner.jobs) == 1, "what waited for the first job is not started"
        assert stage.run("r1").reason == "Suspended"
        stage.edit(DAG_RUNS, "r1", suspend=False)
        await stage.until(lambda: len(worker.runner.jobs) == 2, limit_s=1.0)
        assert conditions(stage, "r1") == {}
        worker.runner.jobs[1].end()
        await stage.until(lambda: stage.finished("r1"))
        assert conditions(stage, "r1") == {"Complete": "AllSucceeded", "Finished": "AllSucceeded"}

    play(story)


def test_a_run_created_suspended_waits_to_be_told() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker()
        stage.dag("etl")
        stage.manual_run("r1", "etl", suspend=True)
        await stage.pass_time(30.0)
        assert (stage.run("r1").phase, stage.run("r1").reason) == (RunPhase.PENDING, "Suspended")
        assert not worker.runner.jobs
        stage.edit(DAG_RUNS, "r1", suspend=None)
        await stage.until(lambda: stage.finished("r1"), limit_s=3.0)

    play(story)


def test_a_suspended_run_stays_suspended_under_the_next_leader_and_costs_no_writes() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader("Ann")
        worker = stage.worker(job_s=None)
        stage.dag("etl", a_task("first"), a_task("next", "first"))
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(worker.runner.jobs))
        stage.edit(DAG_RUNS, "r1", suspend=True)
        await stage.until(lambda: stage.run("r1").reason == "Suspended")
        since = stage.get(DAG_RUNS, "r1")["status"]["conditions"][0]["lastTransitionTime"]
        ann.kill()
        stage.leader("Ben")
        await stage.pass_time(600.0)
        assert stage.writes("update", DAG_RUNS, by="Ben") == 0
        worker.runner.jobs[0].end()
        await stage.until(lambda: stage.run("r1").done == 1)
        assert stage.get(DAG_RUNS, "r1")["status"]["conditions"][0]["lastTransitionTime"] == since
        assert len(worker.runner.jobs) == 1

    play(story)


def test_the_retry_of_a_lost_worker_waits_too_and_a_suspended_run_can_be_cancelled() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl")
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(worker.runner.jobs))
        stage.edit(DAG_RUNS, "r1", suspend=True)
        worker.kill()
        other = stage.worker("w2")
        await stage.until(lambda: bool(stage.run("r1").waiting), limit_s=60.0)
        await stage.pass_time(30.0)
        assert not other.runner.jobs
        stage.edit(DAG_RUNS, "r1", cancel=True)
        await stage.until(lambda: stage.finished("r1"), limit_s=3.0)
        assert stage.run("r1").phase is RunPhase.CANCELLED
        assert conditions(stage, "r1") == dict.fromkeys(("Failed", "Stalled", "Finished"), "Cancelled")

    play(story)


def test_the_time_limit_of_a_suspended_run_counts_on() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.dag("etl", timeout="60s")
        stage.manual_run("r1", "etl", suspend=True)
        await stage.until(lambda: stage.finished("r1"), limit_s=65.0)
        assert stage.run("r1").reason == "RunTimedOut"

    play(story)
