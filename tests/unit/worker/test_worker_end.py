"""How a worker keeps its lease, and how it ends: lost, fenced, drained. Virtual time throughout."""

import signal

import pytest

from fencepost.api.names import LEASES, MAILBOX_SEEN_ANNOTATION, WORKERS
from fencepost.core.run_state import Outcome
from fencepost.kube.errors import ConflictError, ConnectionLostError
from fencepost.memory.faults import Fault
from fencepost.worker.objects import lease_object, worker_object
from fencepost.worker.worker import WorkerEnd
from tests.unit.worker.stage import ETL, FakeJob, Stage, entry, failing_once, key_of, play

A, B = key_of(0), key_of(1)
LEASE_S = 30.0


async def running(stage: Stage, *keys: str) -> list[FakeJob]:
    """Have these jobs running."""
    await stage.open()
    return await running_on(stage, *keys)


async def running_on(stage: Stage, *keys: str) -> list[FakeJob]:
    """Have these jobs running on a worker that has been started."""
    await stage.deliver(dict.fromkeys(keys, entry(7)))
    await stage.until(lambda: len(stage.runner.jobs) == len(keys))
    return stage.runner.jobs


def test_the_lease_is_renewed_at_each_heartbeat_and_not_more_often() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        before = (await stage.lease())["spec"]["renewTime"]
        await stage.pass_time(101)
        assert stage.renewals == 10
        assert (await stage.lease())["spec"]["renewTime"] > before
        assert not stage.over

    play(story)


def test_the_lease_says_which_mailbox_has_been_seen() -> None:
    async def story(stage: Stage) -> None:
        await running(stage, A)
        version = (await stage.stored())["metadata"]["resourceVersion"]
        await stage.pass_time(12)
        assert (await stage.lease())["metadata"]["annotations"][MAILBOX_SEEN_ANNOTATION] == version

    play(story)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(error=ConnectionLostError("no answer"), carried_out=True),
        Fault(error=ConnectionLostError("no answer")),
        Fault(error=ConflictError("changed")),
        Fault(answer_delay_s=60),
    ],
)
def test_one_renewal_that_goes_wrong_is_made_again_in_time(fault: Fault) -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        stage.fault = failing_once("update", LEASES, fault)
        await stage.pass_time(300)
        assert not stage.over

    play(story)


def test_a_lease_that_was_made_again_is_not_ours() -> None:
    async def story(stage: Stage) -> None:
        [job] = await running(stage, A)
        await stage.admin.delete(LEASES, stage.settings.namespace, stage.name)
        await stage.admin.create(LEASES, lease_object(stage.settings, stage.clock.now_s()))
        assert await stage.end(limit_s=12) is WorkerEnd.LOST
        assert job.ended

    play(story)


def test_a_renewal_whose_conflict_cannot_be_looked_into_is_tried_again() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        faults = [Fault(error=ConflictError("changed")), Fault(error=ConnectionLostError("no answer"))]
        stage.fault = lambda request: faults.pop(0) if request.kind is LEASES and faults else None
        await stage.pass_time(60)
        assert (faults, stage.over) == ([], False)

    play(story)


def test_an_outage_between_two_renewals_costs_no_job() -> None:
    async def story(stage: Stage) -> None:
        [job] = await running(stage, A)
        await stage.until(lambda: stage.renewals == 2)
        stage.break_down()
        await stage.pass_time(20)
        stage.recover()
        await stage.pass_time(60)
        assert (job.signals, stage.over) == ([], False)

    play(story)


@pytest.mark.parametrize("stubborn", [False, True])
def test_jobs_of_a_worker_that_cannot_renew_are_dead_before_its_lease_can_end(stubborn: bool) -> None:
    async def story(stage: Stage) -> None:
        stage.runner.stubborn = stubborn
        [job] = await running(stage, A)
        await stage.until(lambda: stage.renewals == 2)
        renewed_at_s = stage.clock.steady_s()
        await stage.pass_time(0.1)
        stage.break_down("update")
        assert await stage.end(limit_s=60) is WorkerEnd.LOST
        assert job.ended
        passed_s = stage.clock.steady_s() - renewed_at_s
        assert passed_s == pytest.approx(LEASE_S - 3 if stubborn else LEASE_S - 8, abs=0.2)
        assert [number.name for number in job.signals] == (["SIGTERM", "SIGKILL"] if stubborn else ["SIGTERM"])

    play(story)


def test_trust_counts_from_before_the_renewal_was_sent_not_from_its_answer() -> None:
    async def story(stage: Stage) -> None:
        [job] = await running(stage, A)
        await stage.until(lambda: stage.renewals == 1)
        stage.fault = lambda request: Fault(answer_delay_s=4.5) if request.kind is LEASES else None
        await stage.until(lambda: stage.renewals == 2)
        sent_at_s = stage.clock.steady_s()
        await stage.pass_time(5)
        stage.break_down("update")
        await stage.until(lambda: job.ended)
        assert stage.clock.steady_s() - sent_at_s == pytest.approx(22, abs=0.2)

    play(story)


async def ask_for_renewals_each(stage: Stage, seconds: int) -> None:
    """As the operator does when there are many workers."""
    worker = await stage.operator.get(WORKERS, stage.settings.namespace, stage.name)
    worker["spec"]["renewalIntervalSeconds"] = seconds
    await stage.operator.replace(WORKERS, worker)


def test_a_worker_that_is_asked_to_renew_more_seldom_makes_its_lease_longer_first() -> None:
    async def story(stage: Stage) -> None:
        [job] = await running(stage, A)
        await ask_for_renewals_each(stage, 40)
        await stage.until(lambda: stage.renewals == 1)
        assert (await stage.lease())["spec"]["leaseDurationSeconds"] == 120
        await stage.pass_time(400)
        assert stage.renewals == 11
        await stage.until(lambda: stage.renewals == 12)
        sent_at_s = stage.clock.steady_s()
        stage.break_down("update")
        await stage.until(lambda: job.ended, limit_s=200)
        assert stage.clock.steady_s() - sent_at_s == pytest.approx(120 - 8, abs=0.2)

    play(story)


def test_a_longer_lease_is_not_trusted_in_before_it_is_known_to_be_stored() -> None:
    async def story(stage: Stage) -> None:
        [job] = await running(stage, A)
        await stage.until(lambda: stage.renewals == 2)
        sent_at_s = stage.clock.steady_s()
        await ask_for_renewals_each(stage, 40)
        stage.break_down("update", "get")
        await stage.until(lambda: job.ended)
        assert stage.clock.steady_s() - sent_at_s == pytest.approx(22, abs=0.2)

    play(story)


def test_a_shorter_lease_binds_from_the_moment_at_which_it_is_sent() -> None:
    """It is stored, but no answer says so: whoever watches the Lease counts by the shorter one."""

    async def story(stage: Stage) -> None:
        [job] = await running(stage, A)
        await ask_for_renewals_each(stage, 40)
        await stage.until(lambda: stage.renewals == 3, limit_s=120)
        await ask_for_renewals_each(stage, 10)
        lost = failing_once("update", LEASES, Fault(error=ConnectionLostError("no answer"), carried_out=True))
        gone = Fault(error=ConnectionLostError("no answer"))
        stage.fault = lambda request: lost(request) or (gone if request.kind is LEASES and stage.renewals > 4 else None)
        await stage.until(lambda: stage.renewals == 4)
        sent_at_s = stage.clock.steady_s()
        stage.break_down("update", "get")
        assert (await stage.lease())["spec"]["leaseDurationSeconds"] == 30
        await stage.until(lambda: job.ended, limit_s=100)
        assert stage.clock.steady_s() - sent_at_s == pytest.approx(22, abs=0.2)

    play(story)


def test_a_machine_that_was_suspended_stops_its_jobs_when_it_wakes_up() -> None:
    async def story(stage: Stage) -> None:
        [job] = await running(stage, A)
        steady_s = stage.clock.steady_s
        stage.clock.steady_s = lambda: steady_s() + 3600  # type: ignore[method-assign]
        assert await stage.end(limit_s=2) is WorkerEnd.LOST
        assert job.signals[0] == signal.SIGTERM

    play(story)


def test_a_lost_worker_says_nothing_of_its_jobs() -> None:
    async def story(stage: Stage) -> None:
        await running(stage, A)
        stage.fault = lambda request: Fault(error=ConnectionLostError("no answer")) if request.kind is LEASES else None
        assert await stage.end(limit_s=60) is WorkerEnd.LOST
        assert (stage.status_writes, await stage.results()) == (0, {})

    play(story)


def test_a_fenced_worker_kills_its_jobs_at_once() -> None:
    async def story(stage: Stage) -> None:
        stage.runner.stubborn = True
        [job] = await running(stage, A)
        await stage.fence()
        assert await stage.end(limit_s=1) is WorkerEnd.LOST
        assert job.ended
        assert stage.status_writes == 0

    play(story)


def test_a_worker_learns_that_it_is_fenced_from_the_refusal_of_a_result() -> None:
    async def story(stage: Stage) -> None:
        first, second = await running(stage, A, B)
        stage.fault = lambda request: Fault(delay_s=60) if request.verb == "event" else None
        await stage.fence()
        first.end()
        assert await stage.end(limit_s=5) is WorkerEnd.LOST
        assert second.ended
        assert await stage.results() == {}

    play(story)


@pytest.mark.parametrize("kind", [WORKERS, LEASES])
def test_a_worker_whose_objects_are_deleted_kills_its_jobs(kind: object) -> None:
    async def story(stage: Stage) -> None:
        [job] = await running(stage, A)
        await stage.admin.delete(kind, stage.settings.namespace, stage.name)  # type: ignore[arg-type]
        assert await stage.end(limit_s=11) is WorkerEnd.LOST
        assert job.ended

    play(story)


@pytest.mark.parametrize("trigger", ["a result", "a read"])
def test_a_worker_that_missed_its_deletion_learns_of_it_from_its_next_request(trigger: str) -> None:
    async def story(stage: Stage) -> None:
        first, second = await running(stage, A, B)
        broken = Fault(error=ConnectionLostError("cut"), delay_s=3)
        stage.fault = lambda request: broken if request.verb == "event" else None
        await stage.admin.delete(WORKERS, stage.settings.namespace, stage.name)
        if trigger == "a result":
            first.end()
        assert await stage.end(limit_s=5) is WorkerEnd.LOST
        assert second.ended

    play(story)


def test_a_worker_that_was_made_again_under_the_same_name_is_not_this_one() -> None:
    async def story(stage: Stage) -> None:
        [job] = await running(stage, A)
        stage.fault = lambda request: Fault(delay_s=60) if request.verb == "event" else None
        await stage.admin.delete(WORKERS, stage.settings.namespace, stage.name)
        await stage.admin.create(WORKERS, worker_object(stage.settings))
        job.end()
        assert await stage.end(limit_s=5) is WorkerEnd.LOST
        assert await stage.results() == {}

    play(story)


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
