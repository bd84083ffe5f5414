"""Workers that fall silent, end, or are never heard of; and time in which nobody could have been heard."""

from typing import Any

import pytest

from fencepost.api.names import DAG_RUNS, LEASES, WORKERS
from fencepost.core.names import JobKey
from fencepost.core.phases import RunPhase
from fencepost.kube.errors import ConnectionLostError, UnreachableError
from fencepost.memory.faults import Fault
from tests.unit.loops.stage import SYSTEM, Stage, a_task, play

LEASE_S = 30.0
JOB = JobKey("only", 0)


async def running(stage: Stage, on: str = "w1", **spec: Any) -> None:
    """A run of one job, which runs and ends only when the story says so."""
    stage.dag("etl", **spec)
    stage.manual_run("r1", "etl")
    await stage.until(lambda: bool(stage.workers[on].runner.jobs))


def test_a_silent_worker_is_fenced_after_its_lease_and_its_jobs_go_on_elsewhere() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        w1 = stage.worker("w1", job_s=None)
        await running(stage)
        w2 = stage.worker("w2", job_s=None)
        await stage.at(9.0)
        w1.kill()
        await stage.at(29.0)
        assert not stage.is_fenced(w1), "its last renewal was at 0 s"
        await stage.until(lambda: bool(w2.runner.jobs), limit_s=4.0)
        lease = stage.run("r1").leases[JOB]
        assert (lease.token, lease.attempt, lease.losses) == (2, 1, 1)
        w2.runner.jobs[0].end()
        await stage.until(lambda: stage.find(WORKERS, w1.full_name, SYSTEM) is None), "swept"
        await stage.until(stage.quiet)
        assert stage.run("r1").phase is RunPhase.SUCCEEDED

    play(story)


def test_a_lease_duration_of_its_own_is_respected() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        w1, w2 = stage.worker("w1", lease_duration_s=90), stage.worker("w2")
        await stage.pass_time(1.0)
        w1.kill()
        await stage.at(80.0)
        assert not stage.is_fenced(w1)
        await stage.at(100.0)
        assert stage.is_fenced(w1)
        assert not stage.is_fenced(w2)

    play(story)


def test_a_worker_that_loses_its_workers_too_often_is_given_up() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.dag("etl")
        stage.manual_run("r1", "etl")
        for number in range(6):
            worker = stage.worker(f"w{number}", job_s=None)
            await stage.until(lambda jobs=worker.runner.jobs: bool(jobs), limit_s=80.0)  # type: ignore[misc]
            worker.kill()
        await stage.until(lambda: stage.finished("r1"), limit_s=80.0)
        assert stage.run("r1").phase is RunPhase.FAILED
        assert "WorkerLost" in stage.run("r1").failures[JOB]

    play(story)


def test_a_drained_worker_goes_at_its_farewell_and_is_no_loss() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader()
        w1, w2 = stage.worker("w1", job_s=3.0), stage.worker("w2", job_s=3.0, slots=1)
        stage.dag("etl", a_task("only", forEach={"count": 5}))
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(w1.runner.jobs))
        w1.worker.drain()
        await stage.until(lambda: w1.over, limit_s=5.0)
        await stage.until(lambda: stage.find(WORKERS, w1.full_name, SYSTEM) is None, limit_s=8.0)
        assert stage.find(LEASES, w1.full_name, SYSTEM) is None
        await stage.until(lambda: stage.finished("r1"))
        assert stage.run("r1").phase is RunPhase.SUCCEEDED
        assert len(stage.started) == 5, "nothing was run twice"
        assert ann.count("workers_fenced_total") == 0
        assert not stage.is_fenced(w2)

    play(story)


def test_what_a_worker_has_answered_before_it_left_is_folded_by_whoever_leads_later() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader("Ann")
        w1 = stage.worker("w1", job_s=5.0)
        await running(stage)
        ann.kill()
        w1.worker.drain()
        await stage.until(lambda: w1.over, limit_s=10.0)
        await stage.pass_time(100.0)
        assert stage.find(WORKERS, w1.full_name, SYSTEM) is not None, "it holds a result"
        ben = stage.leader("Ben")
        await stage.until(lambda: stage.finished("r1"), limit_s=10.0)
        assert stage.run("r1").phase is RunPhase.SUCCEEDED
        assert len(stage.started) == 1
        await stage.until(lambda: stage.find(WORKERS, w1.full_name, SYSTEM) is None, limit_s=10.0)
        assert ben.count("workers_fenced_total") == 0

    play(story)


def test_what_is_leased_to_a_worker_that_has_just_left_goes_elsewhere_at_no_cost() -> None:
    """The leader hears of the farewell only after it has leased a job to that worker."""

    async def story(stage: Stage) -> None:
        stage.leader()
        w1 = stage.worker("w1")
        stage.dag("etl")
        await stage.pass_time(1.0)
        late = Fault(delay_s=2.0)
        heard = stage.trouble(
            lambda name, request: late if (name, request.verb, request.kind) == ("Ann", "event", WORKERS) else None
        )
        w1.worker.drain()
        await stage.until(lambda: w1.over, limit_s=1.0)
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(stage.run("r1").leases), limit_s=1.0)
        assert stage.run("r1").leases[JOB].worker == w1.full_name
        heard()
        stage.worker("w2")
        await stage.until(lambda: stage.finished("r1"), limit_s=15.0)
        assert stage.run("r1").phase is RunPhase.SUCCEEDED
        assert not any("+1" in lease for lease in await leases_of(stage, "r1")), "no loss was counted"

    play(story)


async def leases_of(stage: Stage, run: str) -> list[str]:
    """Every lease that a run's record has ever held, as it was stored."""
    runs = [event.object for event in await stage.history(DAG_RUNS) if event.object["metadata"]["name"] == run]
    return [text for obj in runs for text in (obj.get("status", {}).get("leases") or {}).values()]


def test_a_worker_that_died_before_its_first_renewal_leaves_nothing() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        w1 = stage.worker("w1")
        stage.worker("w2")
        await stage.pass_time(1.0)
        w1.kill()
        assert "ownerReferences" not in stage.get(LEASES, w1.full_name, SYSTEM)["metadata"]
        await stage.until(lambda: stage.find(WORKERS, w1.full_name, SYSTEM) is None, limit_s=LEASE_S + 10.0)
        assert stage.find(LEASES, w1.full_name, SYSTEM) is None

    play(story)


def test_a_lease_whose_worker_never_came_goes_in_the_end() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.once("w1", "create", WORKERS, Fault(error=UnreachableError("away")))
        w1 = stage.worker("w1")
        await stage.until(lambda: stage.find(LEASES, w1.full_name, SYSTEM) is not None, limit_s=1.0)
        w1.kill()
        await stage.at(500.0)
        assert stage.find(LEASES, w1.full_name, SYSTEM) is not None
        await stage.until(lambda: stage.find(LEASES, w1.full_name, SYSTEM) is None, limit_s=150.0)

    play(story)


def test_a_lease_is_kept_for_a_process_that_still_tries_to_register() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        away = stage.trouble(
            lambda name, request: (
                Fault(error=UnreachableError("away"))
                if (name, request.verb, request.kind) == ("w1", "create", WORKERS)
                else None
            )
        )
        w1 = stage.worker("w1")
        await stage.at(900.0)
        away()
        await stage.until(lambda: stage.find(WORKERS, w1.full_name, SYSTEM) is not None, limit_s=20.0)
        await stage.pass_time(60.0)
        assert not w1.over
        assert not stage.is_fenced(w1)

    play(story)


def test_a_job_handed_back_by_a_draining_worker_loses_nothing() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        w1 = stage.worker("w1", job_s=None)
        stage.dag("etl", a_task("only", forEach={"count": 3}))
        await stage.pass_time(1.0)
        held_up = stage.trouble(lambda name, request: Fault(delay_s=5.0) if request.name.startswith("etl-") else None)
        stage.manual_run("r1", "etl")
        await stage.until(lambda: len(stage.mailbox(w1)) == 3)
        w1.worker.drain()
        held_up()
        w2 = stage.worker("w2")
        await stage.until(lambda: stage.finished("r1"))
        assert stage.run("r1").phase is RunPhase.SUCCEEDED
        assert len(w2.runner.jobs) == 3
        assert not w1.runner.jobs

    play(story)


def test_the_only_worker_dies_in_a_quiet_cluster_and_is_fenced_all_the_same() -> None:
    """Nothing else happens that could show that the API server is there."""

    async def story(stage: Stage) -> None:
        stage.leader()
        w1 = stage.worker("w1", job_s=None)
        await running(stage)
        w1.kill()
        await stage.until(lambda: stage.is_fenced(w1), limit_s=LEASE_S + 20.0)
        await stage.until(lambda: not stage.run("r1").leases)

    play(story)


def test_a_worker_whose_lease_was_long_there_before_it_is_watched_like_any_other() -> None:
    """It made its Lease, and its Worker was held up on the way: by the time it is there the process has given up."""

    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker("w2")
        stage.once("w1", "create", WORKERS, Fault(delay_s=70.0))
        w1 = stage.worker("w1")
        await stage.until(lambda: stage.find(WORKERS, w1.full_name, SYSTEM) is not None, limit_s=80.0)
        await stage.until(lambda: w1.over)
        await stage.until(lambda: stage.is_fenced(w1), limit_s=LEASE_S + 10.0)

    play(story)


@pytest.mark.parametrize("outage_s", [5.0, 14.0, 40.0, 300.0])
def test_nobody_is_fenced_for_the_time_in_which_nobody_could_be_heard(outage_s: float) -> None:
    """Workers whose trust outlasts the outage come back as if nothing had been."""

    async def story(stage: Stage) -> None:
        stage.leader()
        workers = [stage.worker(f"w{number}", lease_duration_s=400, heartbeat_s=10.0) for number in range(3)]
        await stage.at(34.0)
        back = stage.cut_off("Ann", *stage.workers)
        await stage.pass_time(outage_s)
        back()
        await stage.pass_time(60.0)
        assert not any(stage.is_fenced(worker) for worker in workers)
        assert stage.writes("update", WORKERS) == 0

    play(story)


def test_when_only_the_leader_was_cut_off_nobody_is_fenced() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker("w1", job_s=None)
        await running(stage)
        back = stage.cut_off("Ann")
        await stage.pass_time(120.0)
        back()
        await stage.pass_time(60.0)
        assert not stage.is_fenced(worker)
        worker.runner.jobs[0].end()
        await stage.until(stage.quiet)
        assert len(stage.started) == 1

    play(story)


def test_a_leader_whose_watch_lags_reads_live_before_it_fences() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker("w1")
        other = stage.worker("w2")
        await stage.pass_time(1.0)
        stage.trouble(
            lambda name, request: (
                Fault(delay_s=1e6)
                if (name, request.verb, request.kind, request.name) == ("Ann", "event", LEASES, worker.full_name)
                else None
            )
        )
        await stage.at(100.0)
        assert not stage.is_fenced(worker)
        assert not stage.is_fenced(other)

    play(story)


def test_a_fence_that_goes_wrong_is_tried_again_soon() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        w1 = stage.worker("w1")
        stage.worker("w2")
        await stage.pass_time(1.0)
        w1.kill()
        stage.once("Ann", "get", LEASES, Fault(error=UnreachableError("away")))
        stage.once("Ann", "update", WORKERS, Fault(error=ConnectionLostError("reset")))
        await stage.until(lambda: stage.is_fenced(w1), limit_s=LEASE_S + 10.0)

    play(story)


def test_a_fence_whose_answer_is_lost_is_seen_all_the_same() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        w1 = stage.worker("w1", job_s=None)
        await running(stage)
        w2 = stage.worker("w2")
        w1.kill()
        stage.once("Ann", "update", WORKERS, Fault(error=ConnectionLostError("reset"), carried_out=True))
        await stage.until(lambda: bool(w2.runner.jobs), limit_s=LEASE_S + 10.0)
        assert stage.run("r1").leases[JOB].losses == 1
        await stage.until(stage.quiet)

    play(story)


def test_a_worker_that_any_leader_has_a_lease_on_is_fenced_by_that_one() -> None:
    """Two replicas lead a shard each; the worker's own shard is one of theirs, the job's may be the other's."""

    async def story(stage: Stage) -> None:
        ann, ben = stage.replica("Ann"), stage.replica("Ben")
        stage.lead(ann, 0)
        stage.lead(ben, 1)
        workers = [stage.worker(f"w{number}", slots=1, job_s=None) for number in range(4)]
        stage.dag("etl", a_task("only", forEach={"count": 4}))
        stage.manual_run("r1", "etl")
        await stage.until(lambda: all(worker.runner.jobs for worker in workers))
        for worker in workers:
            worker.kill()
        stage.worker("w9", slots=4)
        await stage.until(lambda: stage.finished("r1"), limit_s=LEASE_S + 15.0)
        assert stage.run("r1").phase is RunPhase.SUCCEEDED
        await stage.until(lambda: len(stage.all(WORKERS)) == 1, limit_s=30.0)

    play(story, shards=2)


def test_a_worker_takes_up_what_was_delivered_before_it_knew_that_it_had_registered() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.dag("etl")
        await stage.pass_time(1.0)
        stage.manual_run("r1", "etl")
        stage.once(
            "w1", "create", WORKERS, Fault(answer_delay_s=5.0, error=ConnectionLostError("reset"), carried_out=True)
        )
        worker = stage.worker()
        await stage.until(lambda: bool(stage.mailbox(worker)), limit_s=3.0)
        await stage.until(lambda: stage.finished("r1"), limit_s=15.0)
        assert stage.run("r1").phase is RunPhase.SUCCEEDED

    play(story)


def test_a_worker_deleted_by_hand_is_lost() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        w1 = stage.worker("w1", job_s=None)
        await running(stage)
        w2 = stage.worker("w2")
        await stage.pass_time(1.0)
        await stage.admin.delete(WORKERS, SYSTEM, w1.full_name)
        await stage.until(lambda: stage.finished("r1"), limit_s=10.0)
        assert stage.run("r1").phase is RunPhase.SUCCEEDED
        assert w1.over
        assert len(w2.runner.jobs) == 1

    play(story)


def test_leases_of_the_dead_do_not_pile_up() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        for number in range(3):
            worker = stage.worker(f"w{number}")
            await stage.pass_time(12.0)
            worker.kill()
        stage.worker("last")
        await stage.pass_time(80.0)
        roles = [lease["metadata"]["labels"] for lease in stage.all(LEASES)]
        assert sum(role.get("fencepost.dev/role") == "worker" for role in roles) == 1

    play(story)
