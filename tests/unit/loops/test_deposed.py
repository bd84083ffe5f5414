"""What a deposed leader can still do: nothing that it has not sent, and nothing that counts."""

import pytest

from fencepost.api.codec import encode_run_status
from fencepost.api.names import CONTROLLER_REVISIONS, DAG_LABEL, DAG_RUNS, DAGS, LEASES, SHARD_LABEL, WORKERS
from fencepost.api.times import format_time
from fencepost.core.names import JobKey, shard_lease_name
from fencepost.core.phases import RunPhase
from fencepost.core.run_state import Lease, RunState
from fencepost.kube.errors import ConnectionLostError
from fencepost.memory.faults import Fault, Request
from tests.unit.loops.stage import NAMESPACE, NOON_S, SYSTEM, Stage, a_task, an_object, play, slot


def test_nothing_is_sent_once_the_trust_window_is_over_between_plan_and_write() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader()
        stage.worker()
        stage.dag("etl", cron="* * * * *")

        def end_of_trust(name: str, request: Request) -> Fault | None:
            if request.kind is CONTROLLER_REVISIONS:
                ann.held.clear()
            return None

        stage.trouble(end_of_trust)
        await stage.at(70.0)
        assert stage.writes("create", CONTROLLER_REVISIONS) == 1, "the window was open when the turn began"
        assert stage.writes("create", DAG_RUNS) == 0

    play(story)


def test_wishes_for_a_mailbox_end_with_the_leadership_they_were_made_under() -> None:
    """The lease is stored, its delivery is not sent yet. It is the next leader's to deliver, once."""

    async def story(stage: Stage) -> None:
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        worker = stage.worker(job_s=None)
        stage.dag("etl")
        await stage.pass_time(1.0)
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(stage.run("r1").leases))
        ann.held.clear()
        await stage.pass_time(10.0)
        assert not stage.mailbox(worker)
        assert stage.writes("update", WORKERS, by="Ann") == 0
        stage.lead(ben)
        await stage.until(lambda: bool(worker.runner.jobs))
        worker.runner.jobs[0].end()
        await stage.until(stage.quiet)
        assert len(stage.started) == 1

    play(story)


def test_a_leader_that_comes_back_under_a_new_epoch_goes_on() -> None:
    async def story(stage: Stage) -> None:
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        stage.worker(job_s=5.0)
        stage.dag("etl", a_task("extract"), a_task("load", "extract"), cron="* * * * *")
        for moment_s, replica in ((61.0, ben), (63.0, ann), (66.0, ben), (66.1, ann), (66.15, ben), (122.0, ann)):
            await stage.at(moment_s)
            stage.lead(replica)
        await stage.at(140.0)
        assert await stage.slots_fired("etl") == {1: 1, 2: 1}
        assert stage.quiet()
        assert stage.run(slot(1)).phase is RunPhase.SUCCEEDED
        assert len(stage.started) == 4

    play(story)


def test_a_wish_from_before_a_leader_came_back_is_still_hers() -> None:
    """The write of a mailbox hangs; behind it waits a delivery. Meanwhile she loses the shard and gets it back."""

    async def story(stage: Stage) -> None:
        ann = stage.leader("Ann")
        worker = stage.worker(job_s=None)
        stage.dag("etl")
        await stage.pass_time(1.0)
        stage.once("Ann", "update", WORKERS, Fault(delay_s=20.0, error=ConnectionLostError("no answer")))
        stage.manual_run("r1", "etl")
        await stage.pass_time(1.0)
        stage.manual_run("r2", "etl")
        await stage.pass_time(1.0)
        stage.lead(ann)
        await stage.until(lambda: len(worker.runner.jobs) == 2, limit_s=30.0)

    play(story)


def test_two_that_both_believe_they_lead_cannot_double_anything() -> None:
    """The trust window of one of them has failed. Only the API server is left to keep order."""

    async def story(stage: Stage) -> None:
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        stage.worker(slots=2, job_s=3.0)
        stage.dag("etl", a_task("extract", forEach={"count": 3}), a_task("load", "extract"), cron="* * * * *")
        await stage.at(62.0)
        stage.lead(ben, noticed=False)
        await stage.at(190.0)
        assert await stage.slots_fired("etl") == {1: 1, 2: 1, 3: 1}
        await stage.until(stage.quiet)
        assert all(stage.run(slot(minute)).phase is RunPhase.SUCCEEDED for minute in (1, 2, 3))
        assert len(stage.started) == 12
        assert ann.count("writes_refused_total", intent="CreateRun", status="403")
        assert sum(ann.count("writes_refused_total", intent="WriteRun", status=status) for status in ("409", "422"))

    play(story)


def ghost(stage: Stage, minute: int, worker: str = "") -> None:
    """A run of a slot long decided appears: the create of a leader long deposed, which slipped through the fence."""
    dag = stage.get(DAGS, "etl")
    leases = {JobKey("only", 0): Lease(1, worker, 1, 0, NOON_S)} if worker else {}
    epoch = stage.get(LEASES, shard_lease_name(0), SYSTEM)["spec"]["leaseTransitions"]
    state = RunState(RunPhase.RUNNING if worker else RunPhase.PENDING, epoch, len(leases), leases=leases, total=1)
    run = an_object(
        DAG_RUNS,
        slot(minute),
        NAMESPACE,
        spec={
            "dag": "etl",
            "dagUID": dag["metadata"]["uid"],
            "revision": dag["status"]["revision"],
            "trigger": "Schedule",
            "scheduledTime": format_time(NOON_S + 60 * minute),
        },
        status=encode_run_status(state),
    )
    run["metadata"] |= {"labels": {SHARD_LABEL: "0", DAG_LABEL: "etl"}}
    stage.put(DAG_RUNS, run)


@pytest.mark.parametrize("held_up_s", [0.0, 3.0])
def test_a_ghost_below_the_mark_is_deleted_and_never_delivered(held_up_s: float) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker()
        stage.dag("etl", cron="* * * * *", history={"succeeded": 0})
        await stage.until(lambda: stage.find(DAG_RUNS, slot(1)) is not None, limit_s=70.0)
        await stage.until(lambda: stage.find(DAG_RUNS, slot(1)) is None, limit_s=200.0)
        started = len(stage.started)
        await stage.at(215.0)
        stage.once("Ann", "delete", DAG_RUNS, Fault(delay_s=held_up_s))
        stage.deleted_by_people.add(slot(1))
        ghost(stage, 1, worker.full_name)
        await stage.until(lambda: stage.find(DAG_RUNS, slot(1)) is None, limit_s=5.0)
        await stage.pass_time(5.0)
        assert not stage.mailbox(worker)
        assert not [job for _, job in stage.started[started:] if job.launch.source.run.name == slot(1)]

    play(story)


def test_a_run_at_the_mark_is_no_ghost_to_a_leader_that_has_not_fired_it() -> None:
    """The write that moved the mark may have told of it: it is planned as any run."""

    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        stage.worker()
        stage.dag("etl", cron="* * * * *")
        await stage.at(75.0)
        stage.leader("Ben")
        await stage.delete(DAG_RUNS, slot(1))
        await stage.pass_time(5.0)
        ghost(stage, 1)
        await stage.until(lambda: stage.finished(slot(1)))

    play(story)
