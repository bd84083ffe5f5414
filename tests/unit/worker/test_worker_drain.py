"""How a worker drains and leaves, and what its probes say meanwhile. Virtual time throughout."""

import pytest

from fencepost.api.names import WORKERS
from fencepost.core.run_state import Outcome
from fencepost.kube.errors import ConnectionLostError
from fencepost.memory.faults import Fault
from fencepost.worker.worker import WorkerEnd
from tests.unit.worker.stage import ETL, Stage, entry, failing_once, key_of, play, running, running_on

A, B = key_of(0), key_of(1)


def test_an_idle_worker_drains_with_one_write() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        stage.worker.drain()
        assert await stage.end(limit_s=1) is WorkerEnd.DRAINED
        assert stage.status_writes == 1
        status = (await stage.stored())["status"]
        assert (status["draining"], status["left"]) == (True, True)

    play(story)


def test_a_worker_is_ready_once_it_has_registered_and_until_it_drains() -> None:
    async def story(stage: Stage) -> None:
        await stage.store_revision(ETL)
        stage.break_down("create")
        stage.start()
        await stage.pass_time(5)
        assert (stage.worker.unready(), stage.worker.stuck()) == (f"worker {stage.name} has not registered yet", "")
        stage.recover()
        await stage.until(lambda: not stage.worker.unready())
        await running_on(stage, A)
        assert stage.metrics.running == 1
        stage.worker.drain()
        assert stage.worker.unready() == f"worker {stage.name} is draining"

    play(story)


def test_a_fenced_worker_is_not_ready() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.fence()
        await stage.end(limit_s=1)
        assert "is fenced" in stage.worker.unready()

    play(story)


def test_a_worker_whose_loop_stands_still_says_so() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.pass_time(100)
        assert stage.worker.stuck() == ""
        steady_s = stage.clock.steady_s
        stage.clock.steady_s = lambda: steady_s() + 12  # type: ignore[method-assign]
        assert stage.worker.stuck() == "the worker has made no progress for 12 s"

    play(story)


def test_a_worker_that_is_asked_to_end_before_it_could_register_ends() -> None:
    async def story(stage: Stage) -> None:
        stage.break_down()
        stage.start()
        await stage.pass_time(5)
        stage.worker.drain()
        assert await stage.end(limit_s=1) is WorkerEnd.DRAINED

    play(story)


def test_a_draining_worker_lets_its_jobs_end_and_leaves_with_its_last_answer() -> None:
    async def story(stage: Stage) -> None:
        [job] = await running(stage, A)
        stage.worker.drain()
        await stage.pass_time(100)
        assert not stage.over
        job.end()
        assert await stage.end(limit_s=1) is WorkerEnd.DRAINED
        assert (await stage.answer(A)).outcome is Outcome.SUCCEEDED
        assert (await stage.stored())["status"]["left"] is True
        assert stage.status_writes == 2, "draining; then the answer, and that it has left"
        assert stage.renewals >= 10

    play(story)


def test_a_worker_does_not_leave_with_an_entry_unanswered() -> None:
    """It is delivered just before the farewell is stored, by somebody who has not seen the worker drain."""

    async def story(stage: Stage) -> None:
        await stage.open()
        delivered = failing_once("update", WORKERS, Fault(delay_s=1.0), "status")
        stage.fault = lambda request: Fault(delay_s=3.0) if request.verb == "event" else delivered(request)
        stage.worker.drain()
        await stage.pass_time(0.5)
        await stage.deliver({A: entry(7)})
        assert await stage.end(limit_s=5) is WorkerEnd.DRAINED
        assert (await stage.stored())["status"]["left"] is True
        assert (await stage.answer(A)).outcome is Outcome.HANDED_BACK

    play(story)


@pytest.mark.parametrize("answered", [True, False])
def test_a_worker_whose_object_goes_right_after_its_farewell_has_come_to_a_good_end(answered: bool) -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        lost = Fault(answer_delay_s=2.0) if answered else Fault(error=ConnectionLostError("reset"), carried_out=True)
        stage.fault = failing_once("update", WORKERS, lost, "status")
        stage.worker.drain()
        await stage.pass_time(0.1)
        await stage.admin.delete(WORKERS, stage.settings.namespace, stage.name)
        assert await stage.end(limit_s=5) is WorkerEnd.DRAINED

    play(story)


def test_an_entry_that_cannot_be_answered_does_not_keep_a_worker() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({A: "no token at all"})
        stage.worker.drain()
        assert await stage.end(limit_s=1) is WorkerEnd.DRAINED
        assert (await stage.stored())["status"]["left"] is True

    play(story)


def test_a_draining_worker_hands_back_what_it_has_not_started() -> None:
    async def story(stage: Stage) -> None:
        stage.fault = lambda request: Fault(delay_s=30) if request.kind.kind == "ControllerRevision" else None
        await stage.open()
        await stage.deliver({A: entry(7)})
        await stage.pass_time(1)
        stage.worker.drain()
        await stage.deliver({B: entry(7)})
        results = [await stage.answer(A, limit_s=2), await stage.answer(B, limit_s=2)]
        assert [(result.outcome, result.started_at_s) for result in results] == [(Outcome.HANDED_BACK, None)] * 2
        assert "is draining" in results[0].message
        await stage.pass_time(60)
        assert stage.runner.jobs == []

    play(story)


def test_jobs_that_outlast_the_drain_timeout_are_stopped_and_answered() -> None:
    async def story(stage: Stage) -> None:
        [job] = await running(stage, A)
        stage.worker.drain()
        await stage.pass_time(299)
        assert job.signals == []
        result = await stage.answer(A)
        assert (result.outcome, result.message) == (Outcome.STOPPED, "the worker is draining")
        assert await stage.end(limit_s=15) is WorkerEnd.DRAINED, "it does not wait for ever for somebody to take it"

    play(story)


def test_a_second_request_to_end_stops_running_jobs_now() -> None:
    async def story(stage: Stage) -> None:
        await running(stage, A)
        stage.worker.drain()
        await stage.pass_time(10)
        stage.worker.hurry()
        assert (await stage.answer(A, limit_s=1)).outcome is Outcome.STOPPED

    play(story)


def test_an_api_server_that_is_away_does_not_hold_up_the_end_for_ever() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        stage.break_down()
        stage.worker.drain()
        assert await stage.end(limit_s=15) is WorkerEnd.DRAINED

    play(story)


def test_a_worker_inside_another_process_can_be_cancelled_and_leaves_no_job() -> None:
    async def story(stage: Stage) -> None:
        stage.runner.stubborn = True
        [job] = await running(stage, A)
        await stage.close()
        assert job.ended

    play(story)
