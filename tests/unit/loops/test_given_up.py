"""Jobs that are given up: by a fan-out that fails fast, for an exit code that no retry helps, for want of a slot."""

import signal

from fencepost.api.names import DAG_RUNS
from fencepost.core.phases import JobPhase, RunPhase
from tests.unit.loops.stage import Stage, a_task, play


def test_a_fan_out_that_fails_fast_stops_what_runs_and_starts_nothing_more() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(slots=3, job_s=None)
        other = a_task("other")
        stage.dag("etl", a_task("load", forEach={"count": 9, "failFast": True}), other, a_task("report", "load"))
        stage.manual_run("r1", "etl")
        await stage.until(lambda: len(worker.runner.jobs) == 3)

        first, second, third = worker.runner.of_task("load")
        first.end(1)
        await stage.until(lambda: second.ended and third.ended, limit_s=2.0)
        assert second.signals == third.signals == [signal.SIGTERM]
        await stage.until(lambda: bool(worker.runner.of_task("other")))
        worker.runner.of_task("other")[0].end()
        await stage.until(lambda: stage.finished("r1"))

        load = stage.run("r1").tasks["load"]
        assert (load.count(JobPhase.FAILED), load.count(JobPhase.CANCELLED)) == (1, 8)
        assert stage.run("r1").tasks["report"].phase_of(0) is JobPhase.SKIPPED
        assert (stage.run("r1").phase, stage.run("r1").reason) == (RunPhase.FAILED, "JobsFailed")
        await stage.until(stage.quiet)

    play(story)


def test_a_fan_out_that_fails_fast_under_one_leader_is_stopped_by_the_next() -> None:
    async def story(stage: Stage) -> None:
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        worker = stage.worker(slots=2, job_s=None)
        stage.dag("etl", a_task("load", forEach={"count": 2, "failFast": True}))
        stage.manual_run("r1", "etl")
        await stage.until(lambda: len(worker.runner.jobs) == 2)

        worker.runner.jobs[0].end(1)
        await stage.until(lambda: stage.run("r1").done == 1)
        ann.kill()
        stage.lead(ben)
        await stage.until(lambda: stage.finished("r1"))

        assert worker.runner.jobs[1].ended
        assert stage.run("r1").tasks["load"].count(JobPhase.CANCELLED) == 1
        await stage.until(stage.quiet)

    play(story)


def test_an_exit_code_that_no_retry_helps_is_not_tried_again() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl", a_task("load", retries={"limit": 5, "retryOn": [75], "backoff": {"base": "1s"}}))
        stage.manual_run("r1", "etl")
        await stage.until(lambda: len(worker.runner.jobs) == 1)

        worker.runner.jobs[0].end(75)
        await stage.until(lambda: len(worker.runner.jobs) == 2)
        worker.runner.jobs[1].end(2)
        await stage.until(lambda: stage.finished("r1"))

        [failure] = stage.run("r1").failures.values()
        assert failure == "Failed exit 2, not tried again as exit code 2 is not in retryOn"
        assert len(worker.runner.jobs) == 2

    play(story)


def test_a_run_whose_jobs_find_no_slot_in_time_fails_and_waiting_costs_no_write() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.dag("etl", queueTimeout="1h")
        stage.manual_run("r1", "etl")
        await stage.pass_time(60.0)
        assert stage.run("r1").reason == "NoWorker"
        written = len(stage.requests)

        await stage.at(3595.0)
        assert [
            each for _, _, each in stage.requests[written:] if each.kind is DAG_RUNS and each.verb == "update"
        ] == []
        assert stage.run("r1").phase is RunPhase.PENDING
        await stage.until(lambda: stage.finished("r1"), limit_s=10.0)

        assert stage.run("r1").phase is RunPhase.FAILED
        assert stage.run("r1").message.startswith("job only/0 failed: QueueTimeout: it found no slot within 3600 s")

    play(story)


def test_time_in_the_queue_goes_on_under_the_next_leader() -> None:
    async def story(stage: Stage) -> None:
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        stage.dag("etl", queueTimeout="10m")
        stage.manual_run("r1", "etl")
        await stage.at(300.0)
        ann.kill()
        await stage.at(400.0)
        stage.lead(ben)
        await stage.at(595.0)
        assert not stage.finished("r1")
        await stage.until(lambda: stage.finished("r1"), limit_s=10.0)
        assert "QueueTimeout" in stage.run("r1").message

    play(story)
