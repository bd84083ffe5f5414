"""How a worker keeps its lease, and how it ends: lost, fenced, drained. Virtual time throughout."""

import signal

import pytest

from fencepost.api.names import LEASES, MAILBOX_SEEN_ANNOTATION, WORKERS
from fencepost.kube.errors import ConflictError, ConnectionLostError
from fencepost.memory.faults import Fault
from fencepost.worker.objects import lease_object, worker_object
from fencepost.worker.worker import WorkerEnd
from tests.unit.worker.stage import Stage, failing_once, key_of, play, running

A, B = key_of(0), key_of(1)
LEASE_S = 30.0


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
