"""One worker and its mailbox: what it starts, and how jobs end; in virtual time, with jobs that the story ends."""

import pytest

from fencepost.api.names import CONTROLLER_REVISIONS, WORKERS
from fencepost.core.run_state import Order, Outcome
from fencepost.kube.errors import ConnectionLostError, GoneError, ServerError
from fencepost.memory.faults import Fault
from fencepost.worker.runner import CannotStartError, RunnerBusyError
from tests.unit.worker.stage import (
    Stage,
    entry,
    failing_once,
    key_of,
    play,
)

A, B, C = key_of(0), key_of(1), key_of(2)


def test_a_job_is_started_with_its_command_and_answered() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({key_of(3): entry(7)})
        await stage.until(lambda: stage.runner.started() == [3])
        launch = stage.runner.job(3).launch
        assert launch.command == ("load", "--region=eu")
        assert launch.env["FENCEPOST_TOKEN"] == "7"
        await stage.pass_time(5)
        stage.runner.job(3).end(0, output="42")
        result = await stage.answer(key_of(3))
        assert (result.token, result.outcome, result.exit_code, result.output) == (7, Outcome.SUCCEEDED, 0, "42")
        assert result.ended_at_s - result.started_at_s == pytest.approx(5, abs=0.1)  # type: ignore[operator]
        assert stage.metrics.answered == [Outcome.SUCCEEDED]

    play(story)


@pytest.mark.parametrize(
    ("error", "want"),
    [
        (CannotStartError("command 'laod' was not found", 127), (Outcome.FAILED, 127)),
        (RunnerBusyError("no processes left"), (Outcome.HANDED_BACK, None)),
        (ZeroDivisionError("our own mistake"), (Outcome.FAILED, None)),
    ],
)
def test_a_job_that_does_not_come_to_run_is_answered(error: Exception, want: tuple[Outcome, int | None]) -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        stage.runner.error = error
        await stage.deliver({A: entry()})
        result = await stage.answer(A)
        assert (result.outcome, result.exit_code) == want
        assert str(error) in result.message
        assert not stage.over

    play(story)


def test_the_end_of_a_failed_jobs_output_is_its_message() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({A: entry(), B: entry()})
        await stage.until(lambda: len(stage.runner.jobs) == 2)
        stage.runner.job(0).end(3, tail="no such table: sales", output="ignored")
        stage.runner.job(1).end(0, fault="FENCEPOST_OUTPUT is too long", output="ignored")
        first, second = await stage.answer(A), await stage.answer(B)
        assert (first.outcome, first.exit_code, first.message, first.output) == (
            Outcome.FAILED, 3, "no such table: sales", "",
        )  # fmt: skip
        assert (second.outcome, second.exit_code, second.message) == (Outcome.FAILED, 0, "FENCEPOST_OUTPUT is too long")

    play(story)


def test_a_job_out_of_time_gets_its_grace_period_and_is_then_killed() -> None:
    async def story(stage: Stage) -> None:
        stage.runner.stubborn = True
        await stage.open()
        await stage.deliver({A: entry(timeout_s=90, grace_s=20)})
        await stage.until(lambda: bool(stage.runner.jobs))
        job = stage.runner.job(0)
        await stage.pass_time(89)
        assert job.signals == []
        await stage.pass_time(2)
        assert [number.name for number in job.signals] == ["SIGTERM"]
        await stage.pass_time(18)
        assert not job.ended
        result = await stage.answer(A)
        assert [number.name for number in job.signals] == ["SIGTERM", "SIGKILL"]
        assert (result.outcome, result.exit_code) == (Outcome.TIMED_OUT, -9)
        assert result.message == "stopped at its time limit of 1m30s"

    play(story)


def test_an_order_to_stop_ends_the_job_under_the_same_token() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({A: entry(7)})
        await stage.until(lambda: bool(stage.runner.jobs))
        await stage.deliver({A: entry(7, order=Order.STOP)})
        result = await stage.answer(A)
        assert (result.token, result.outcome, result.exit_code) == (7, Outcome.STOPPED, -15)

    play(story)


def test_a_job_that_ended_by_itself_before_the_signal_keeps_its_outcome() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({A: entry(7)})
        await stage.until(lambda: bool(stage.runner.jobs))
        job = stage.runner.job(0)
        job.signal = lambda number: job.end() or False  # type: ignore[method-assign,func-returns-value]
        await stage.deliver({A: entry(7, order=Order.STOP)})
        assert (await stage.answer(A)).outcome is Outcome.SUCCEEDED

    play(story)


def test_an_order_to_stop_reaches_a_job_that_is_still_being_prepared() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        stage.fault = lambda request: Fault(delay_s=30) if request.kind is CONTROLLER_REVISIONS else None
        await stage.deliver({A: entry(7)})
        await stage.pass_time(1)
        await stage.deliver({A: entry(7, order=Order.STOP)})
        result = await stage.answer(A, limit_s=5)
        assert (result.outcome, result.started_at_s) == (Outcome.STOPPED, None)
        await stage.pass_time(60)
        assert stage.runner.jobs == []

    play(story)


def test_a_job_whose_entry_is_taken_away_is_killed_and_nothing_written() -> None:
    async def story(stage: Stage) -> None:
        stage.runner.stubborn = True
        await stage.open()
        await stage.deliver({A: entry(7)})
        await stage.until(lambda: bool(stage.runner.jobs))
        await stage.take(A)
        await stage.until(lambda: stage.runner.job(0).ended)
        await stage.pass_time(5)
        assert (await stage.results(), stage.status_writes) == ({}, 0)

    play(story)


def test_the_next_lease_of_a_key_starts_only_after_the_last_one_has_died() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({A: entry(7)})
        await stage.until(lambda: bool(stage.runner.jobs))
        old = stage.runner.job(0)
        old.signal = lambda number: True  # type: ignore[method-assign]
        await stage.deliver({A: entry(9)})
        await stage.pass_time(10)
        assert len(stage.runner.jobs) == 1
        old.end(-9)
        await stage.until(lambda: len(stage.runner.jobs) == 2)
        stage.runner.job(0).end()
        assert (await stage.answer(A)).token == 9

    play(story)


def test_a_garbled_entry_is_answered_and_stops_nobody() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({A: "7 what is this", B: entry()})
        assert (await stage.answer(A)).outcome is Outcome.INVALID
        await stage.until(lambda: stage.runner.started() == [1])

    play(story)


@pytest.mark.parametrize("error", [GoneError("too old"), ConnectionLostError("cut"), ServerError("internal error")])
def test_a_watch_that_breaks_is_begun_again_with_a_read(error: Exception) -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        stage.fault = failing_once("event", WORKERS, Fault(error=error))  # type: ignore[arg-type]
        await stage.deliver({A: entry()})
        await stage.until(lambda: stage.runner.started() == [0])
        await stage.deliver({B: entry()})
        await stage.until(lambda: stage.runner.started() == [0, 1])

    play(story)


def test_a_quiet_worker_reads_again_a_few_times_an_hour() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.pass_time(3600)
        assert len(stage.seen("watch", WORKERS)) < 15
        await stage.deliver({A: entry()})
        await stage.until(lambda: stage.runner.started() == [0], limit_s=1)

    play(story)


def test_a_delayed_event_does_not_take_back_what_an_answer_has_told() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({A: entry(7)})
        await stage.until(lambda: bool(stage.runner.jobs))
        stage.fault = lambda request: Fault(delay_s=3) if request.verb == "event" else None
        await stage.deliver({B: entry(7)})
        await stage.deliver({C: entry(7)})
        stage.runner.job(0).end()
        await stage.answer(A)
        await stage.until(lambda: stage.runner.started() == [0, 1, 2])
        await stage.pass_time(10)
        assert not stage.runner.job(2).ended, "the event that tells of B alone came when C was running"

    play(story)
