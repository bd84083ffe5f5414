"""Several leaders share the slots of one pool, with nobody between them: the mailbox's compare-and-swap decides."""

import pytest

from fencepost.api.names import DAG_RUNS, WORKER_POOLS, WORKERS
from fencepost.core.names import DagKey, JobKey, shard_of
from fencepost.core.phases import RunPhase
from fencepost.kube.errors import ConnectionLostError
from fencepost.memory.faults import Fault
from tests.unit.loops.processes import Replica
from tests.unit.loops.stage import NAMESPACE, Stage, a_task, an_object, play, slot

ONLY = JobKey("only", 0)


def dag_of_shard(shard: int) -> str:
    """The name of a DAG that belongs to this shard of two."""
    return next(name for name in ("a", "b", "c", "d", "e") if shard_of(DagKey(NAMESPACE, name), 2) == shard)


def two_leaders(stage: Stage) -> tuple[Replica, Replica]:
    ann, ben = stage.replica("Ann"), stage.replica("Ben")
    stage.lead(ann, 0)
    stage.lead(ben, 1)
    return ann, ben


def test_two_leaders_with_more_jobs_than_slots_leave_nothing_stuck() -> None:
    """Both see the same free slots and lease them in the same moment. The referee counts the slots."""

    async def story(stage: Stage) -> None:
        ann, ben = two_leaders(stage)
        for number in range(3):
            stage.worker(f"w{number}", slots=2, job_s=2.0)
        names = [dag_of_shard(shard) for shard in (0, 1)]
        for name in names:
            stage.dag(name, a_task("only", forEach={"count": 20}))
        await stage.pass_time(1.0)
        for name in names:
            stage.manual_run(f"r{name}", name)
        # 40 jobs of 2 s on 6 slots take 14 s at the best
        await stage.until(lambda: stage.finished(*[f"r{name}" for name in names]), limit_s=25.0)
        assert all(stage.run(f"r{name}").phase is RunPhase.SUCCEEDED for name in names)
        assert len(stage.started) == 40
        conflicts = [
            replica.count("writes_refused_total", intent="WriteMailbox", status="409") for replica in (ann, ben)
        ]
        assert sum(conflicts) > 0, "they have met"

    play(story, shards=2)


def test_a_lease_that_finds_no_slot_is_taken_back_under_the_next_token() -> None:
    async def story(stage: Stage) -> None:
        _, ben = two_leaders(stage)
        stage.worker(slots=1, job_s=None)
        first, second = dag_of_shard(0), dag_of_shard(1)
        stage.dag(first)
        stage.dag(second)
        await stage.pass_time(1.0)
        # Ben does not see that Ann has filled the slot.
        lag = stage.trouble(
            lambda name, request: (
                Fault(delay_s=3.0) if (name, request.verb, request.kind) == ("Ben", "event", WORKERS) else None
            )
        )
        stage.manual_run("r1", first)
        await stage.until(lambda: bool(stage.started))
        stage.manual_run("r2", second)
        await stage.until(lambda: ONLY in stage.run("r2").leases)
        await stage.until(lambda: ONLY in stage.run("r2").waiting, limit_s=1.0)
        lag()
        await stage.pass_time(5.0)
        assert len(stage.started) == 1
        assert stage.run("r2").reason == "PoolFull"
        stage.started[0][1].end()
        await stage.until(lambda: len(stage.started) == 2)
        lease = stage.run("r2").leases[ONLY]
        assert (lease.token, lease.attempt, lease.losses) == (2, 1, 0)
        assert ben.count("writes_refused_total", intent="WriteMailbox", status="409") == 1
        stage.started[1][1].end()
        await stage.until(stage.quiet)

    play(story, shards=2)


def test_what_found_no_slot_is_forgotten_when_another_leader_has_delivered_it() -> None:
    """Ben's lease finds no slot, and before he has taken it back the shard is Ann's, who finds one and delivers it.
    When he leads again he does not take it back any more: it runs."""

    async def story(stage: Stage) -> None:
        ann, ben = two_leaders(stage)
        stage.worker(slots=1, job_s=None)
        first, second = dag_of_shard(0), dag_of_shard(1)
        stage.dag(first)
        stage.dag(second)
        await stage.pass_time(1.0)
        stage.trouble(
            lambda name, request: (
                Fault(delay_s=1.0) if (name, request.verb, request.kind) == ("Ben", "event", WORKERS) else None
            )
        )
        stage.manual_run("r1", first)
        await stage.until(lambda: bool(stage.started))
        stage.manual_run("r2", second)
        await stage.until(lambda: stage.writes("get", WORKERS, by="Ben") == 1)
        # He has read the worker again, and knows that there is no slot.
        stage.once("Ann", "list", DAG_RUNS, Fault(delay_s=1.0))
        stage.lead(ann, 1)
        stage.started[0][1].end()
        await stage.until(lambda: len(stage.started) == 2)
        stage.lead(ben, 1)
        await stage.pass_time(10.0)
        assert len(stage.started) == 2
        assert stage.run("r2").leases[ONLY].token == 1
        stage.started[1][1].end()
        await stage.until(stage.quiet)

    play(story, shards=2)


def test_an_answer_to_a_create_that_comes_late_delivers_nothing_that_has_been_taken_back_since() -> None:
    """Ben hears of his run by the watch. Its lease finds no slot and is taken back; the job runs under the next one,
    and ends. Only then comes the answer to the create."""

    async def story(stage: Stage) -> None:
        _, ben = two_leaders(stage)
        worker = stage.worker(slots=2, job_s=None)
        first, second = dag_of_shard(0), dag_of_shard(1)
        stage.dag(first, a_task("only", forEach={"count": 2}))
        stage.dag(second, cron="* * * * *", history={"succeeded": 9})
        await stage.at(58.0)
        stage.once("Ben", "create", DAG_RUNS, Fault(answer_delay_s=15.0))
        lag = stage.trouble(
            lambda name, request: (
                Fault(delay_s=5.0) if (name, request.verb, request.kind) == ("Ben", "event", WORKERS) else None
            )
        )
        stage.manual_run("r1", first)
        await stage.until(lambda: ONLY in stage.run(slot(1, second)).waiting)
        lag()
        for _, job in stage.started:
            job.end()
        await stage.until(lambda: len(stage.started) == 3, limit_s=8.0)
        stage.started[2][1].end()
        await stage.until(lambda: stage.finished(slot(1, second)))
        await stage.at(70.0)
        assert not stage.mailbox(worker)
        await stage.at(80.0)
        assert not stage.mailbox(worker)
        await stage.until(lambda: len(stage.started) == 4, limit_s=41.0)
        assert ben.count("slots_passed_total", fate="fired") == 2

    play(story, shards=2)


def test_a_job_that_has_waited_for_its_slot_asks_for_it_once() -> None:
    """Two slots come free for the two jobs that wait: then none waits any more, and nothing says so."""

    async def story(stage: Stage) -> None:
        ann = stage.leader()
        stage.worker(slots=4, job_s=None)
        stage.dag("first", a_task("only", forEach={"count": 4}))
        stage.dag("second", a_task("only", forEach={"count": 2}))
        stage.manual_run("r1", "first")
        await stage.until(lambda: len(stage.started) == 4)
        stage.manual_run("r2", "second")
        await stage.until(lambda: stage.run("r2").reason == "PoolFull")
        for _, job in stage.started[:2]:
            job.end()
        await stage.until(lambda: len(stage.started) == 6)
        assert stage.run("r2").reason == ""
        assert ann.count("jobs_waiting", pool="default") == 0

    play(story)


@pytest.mark.parametrize("share", ["50%", "100%"])
def test_a_dag_holds_its_share_and_no_more(share: str) -> None:
    async def story(stage: Stage) -> None:
        pool = stage.get(WORKER_POOLS, "default")
        pool["spec"]["maxSharePerDAG"] = share
        stage.put(WORKER_POOLS, pool)
        stage.leader()
        for number in range(2):
            stage.worker(f"w{number}", slots=4, job_s=None)
        stage.dag("etl", a_task("only", forEach={"count": 20}))
        await stage.pass_time(1.0)
        stage.manual_run("r1", "etl")
        await stage.pass_time(10.0)
        assert len(stage.run("r1").leases) == (4 if share == "50%" else 8)
        assert stage.run("r1").reason == ("DAGAtCap" if share == "50%" else "PoolFull")
        for _ in range(20):
            for _, job in stage.started:
                if not job.ended:
                    job.end()
            await stage.pass_time(1.0)
        await stage.until(lambda: stage.finished("r1"))
        assert len(stage.started) == 20

    play(story)


def test_a_pool_that_is_deleted_and_made_again_counts_what_still_runs() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader()
        stage.worker(slots=4, job_s=None)
        stage.dag("etl", a_task("only", forEach={"count": 8}))
        await stage.pass_time(1.0)
        stage.manual_run("r1", "etl")
        await stage.until(lambda: len(stage.started) == 4)
        pool = stage.get(WORKER_POOLS, "default")
        await stage.admin.delete(WORKER_POOLS, None, "default")
        ann.scheduler.pool_gone("default")
        await stage.pass_time(2.0)
        ann.scheduler.pool_changed(stage.put(WORKER_POOLS, an_object(WORKER_POOLS, "default", spec=pool["spec"])))
        await stage.pass_time(5.0)
        assert len(stage.started) == 4
        for _ in range(2):
            for _, job in stage.started:
                if not job.ended:
                    job.end()
            await stage.pass_time(2.0)
        await stage.until(stage.quiet)
        assert len(stage.started) == 8

    play(story)


def test_a_leader_that_dies_between_lease_and_delivery_leaves_no_slot_taken() -> None:
    async def story(stage: Stage) -> None:
        ann, _ = two_leaders(stage)
        stage.worker(slots=1, job_s=1.0)
        first, second = dag_of_shard(0), dag_of_shard(1)
        stage.dag(first)
        stage.dag(second)
        await stage.pass_time(1.0)
        stage.trouble(
            lambda name, request: (
                Fault(error=ConnectionLostError("away"))
                if (name, request.verb, request.kind) == ("Ann", "update", WORKERS)
                else None
            )
        )
        stage.manual_run("r1", first)
        await stage.until(lambda: bool(stage.run("r1").leases))
        ann.kill()
        stage.manual_run("r2", second)
        await stage.until(lambda: stage.finished("r2"), limit_s=10.0)

    play(story, shards=2)
