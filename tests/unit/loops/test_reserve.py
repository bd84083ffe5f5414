"""The critical reserve of a pool: marked on its workers, and kept by the compare-and-swap on their mailboxes.

The referee looks at every mailbox that was ever stored: a job that is not critical takes no slot that is kept.
"""

import pytest

from fencepost.api.names import DAG_RUNS, WORKER_POOLS, WORKERS
from fencepost.core.names import DagKey, JobKey, shard_of
from fencepost.core.phases import RunPhase
from fencepost.memory.faults import Fault
from tests.unit.loops.processes import StageWorker
from tests.unit.loops.stage import NAMESPACE, NOON_S, SYSTEM, Stage, a_task, an_object, play
from tests.unit.loops.test_shared_pool import dag_of_shard, two_leaders

ONLY = JobKey("only", 0)


def keep(stage: Stage, percent: str) -> None:
    """So much of the pool is kept for critical jobs."""
    stage.edit(WORKER_POOLS, "default", reserved={"critical": percent})


def kept(stage: Stage, *workers: StageWorker) -> list[int | None]:
    """The marks of these workers."""
    return [stage.get(WORKERS, worker.full_name, SYSTEM)["spec"].get("reservedSlots") for worker in workers]


def wide(stage: Stage, name: str, count: int, **spec: str) -> str:
    """A DAG of so many jobs, and a run of it by hand."""
    stage.dag(name, a_task("only", forEach={"count": count}), **spec)
    stage.manual_run(f"r{name}", name)
    return f"r{name}"


def test_what_is_kept_is_left_idle_until_a_critical_job_comes_and_starts_at_once() -> None:
    async def story(stage: Stage) -> None:
        keep(stage, "25%")
        stage.leader()
        worker = stage.worker(slots=4, job_s=None)
        await stage.pass_time(1.0)
        low = wide(stage, "etl", 9, priority="high")
        await stage.pass_time(10.0)
        assert (len(stage.started), stage.run(low).reason) == (3, "Reserved")
        assert stage.run(low).message.startswith(
            "1 of 4 slots of pool 'default' are kept for critical jobs, and the others are taken; add workers or wait"
        )
        status = stage.get(WORKER_POOLS, "default")["status"]
        assert {name: status[name] for name in ("slots", "reserved", "busy", "free", "queued")} == {
            "slots": 4,
            "reserved": 1,
            "busy": 3,
            "free": 0,
            "queued": 6,
        }
        urgent = wide(stage, "urgent", 1, priority="critical")
        await stage.until(lambda: len(stage.started) == 4, limit_s=1.0)
        key = f"{NAMESPACE}/{urgent}.{stage.get(DAG_RUNS, urgent)['metadata']['uid'][:8]}/only/0"
        assert stage.get(WORKERS, worker.full_name, SYSTEM)["spec"]["critical"] == [key]
        stage.started[-1][1].end()
        await stage.until(lambda: stage.finished(urgent))
        await stage.pass_time(10.0)
        assert len(stage.started) == 4, "what was kept is kept again"
        assert "critical" not in stage.get(WORKERS, worker.full_name, SYSTEM)["spec"]

    play(story)


def test_a_slot_of_the_reserve_is_not_taken_by_who_has_not_seen_that_the_others_are() -> None:
    """Ben's cache shows an open slot where Ann has filled it. The worker's object is what decides."""

    async def story(stage: Stage) -> None:
        keep(stage, "50%")
        _, ben = two_leaders(stage)
        stage.worker(slots=2, job_s=None)
        first, second = dag_of_shard(0), dag_of_shard(1)
        stage.dag(first)
        stage.dag(second)
        await stage.pass_time(1.0)
        stage.trouble(
            lambda name, request: (
                Fault(delay_s=5.0) if (name, request.verb, request.kind) == ("Ben", "event", WORKERS) else None
            )
        )
        stage.manual_run("r1", first)
        await stage.until(lambda: bool(stage.started))
        stage.manual_run("r2", second)
        await stage.until(lambda: ONLY in stage.run("r2").leases)
        await stage.until(lambda: ONLY in stage.run("r2").waiting, limit_s=1.0)
        await stage.pass_time(10.0)
        assert ben.count("writes_refused_total", intent="WriteMailbox", status="409") == 1
        assert (len(stage.started), stage.run("r2").reason) == (1, "Reserved")
        stage.started[0][1].end()
        await stage.until(lambda: len(stage.started) == 2, limit_s=10.0)

    play(story, shards=2)


def test_a_mark_holds_against_who_has_not_seen_it() -> None:
    """A worker is lost and another is to keep its part. Ben has not heard of the mark, nor of the job that ended."""

    async def story(stage: Stage) -> None:
        keep(stage, "25%")
        ann, ben = stage.replica("Ann"), stage.replica("Ben")
        owner = shard_of(DagKey("", "default"), 2)
        stage.lead(ann, owner)
        stage.lead(ben, 1 - owner)
        workers = [stage.worker(f"w{number}", slots=2, job_s=None) for number in range(3)]
        await stage.pass_time(1.0)
        assert sorted(map(str, kept(stage, *workers))) == ["0", "0", "None"]
        keeper = next(worker for worker in workers if kept(stage, worker) == [None])
        others = [worker for worker in workers if worker is not keeper]
        stage.dag(name := dag_of_shard(1 - owner), a_task("only", forEach={"count": 6}))
        await stage.pass_time(1.0)
        stage.trouble(
            lambda name, request: (
                Fault(delay_s=8.0) if (name, request.verb, request.kind) == ("Ben", "event", WORKERS) else None
            )
        )
        keeper.worker.drain()
        await stage.until(lambda: sorted(map(str, kept(stage, *others))) == ["0", "1"], limit_s=5.0)
        stage.manual_run("r1", name)
        await stage.until(lambda: len(stage.run("r1").leases) == 5)
        await stage.until(lambda: len(stage.started) == 3)
        await stage.pass_time(10.0)
        assert ben.count("writes_refused_total", intent="WriteMailbox", status="409") >= 1
        assert (len(stage.started), stage.run("r1").reason) == (3, "Reserved")

    play(story, shards=2)


def test_workers_are_marked_once_and_only_where_their_share_is_no_whole_number() -> None:
    async def story(stage: Stage) -> None:
        keep(stage, "10%")
        stage.leader()
        whole = [stage.worker(f"a{number}", slots=10, job_s=None) for number in range(5)]
        await stage.pass_time(20.0)
        assert (kept(stage, *whole), stage.writes("update", WORKERS, by="Ann")) == ([None] * 5, 0)
        parts = [stage.worker(f"b{number}", slots=4, job_s=None) for number in range(5)]
        await stage.pass_time(20.0)
        # 70 slots, so 7 are kept: 5 by those with ten
        assert sorted(map(str, kept(stage, *parts))) == ["0", "0", "0", "None", "None"]
        assert stage.writes("update", WORKERS, by="Ann") == 3

    play(story)


def test_marks_that_a_leader_did_not_come_to_write_are_written_by_the_next() -> None:
    async def story(stage: Stage) -> None:
        keep(stage, "25%")
        ann = stage.leader("Ann")
        await stage.pass_time(1.0)
        gone = stage.cut_off("Ann")
        workers = [stage.worker(f"w{number}", slots=1, job_s=None) for number in range(4)]
        await stage.pass_time(1.0)
        assert kept(stage, *workers) == [None] * 4
        ann.kill()
        gone()
        stage.leader("Ben")
        await stage.until(lambda: sorted(map(str, kept(stage, *workers))) == ["0", "0", "0", "None"], limit_s=5.0)

    play(story)


@pytest.mark.parametrize(("percent", "want"), [("50%", 2), ("100%", 1)])
def test_another_reserve_holds_from_the_moment_it_is_asked_for(percent: str, want: int) -> None:
    async def story(stage: Stage) -> None:
        stage.leader().scheduler.pool_changed(stage.get(WORKER_POOLS, "default"))
        stage.worker(slots=4, job_s=1.0)
        await stage.pass_time(1.0)
        run = wide(stage, "etl", 40)
        await stage.until(lambda: len(stage.started) == 12)
        keep(stage, percent)
        stage.replicas["Ann"].scheduler.pool_changed(stage.get(WORKER_POOLS, "default"))
        await stage.pass_time(3.0)
        assert len(stage.run(run).leases) == want
        pool = stage.get(WORKER_POOLS, "default")
        del pool["spec"]["reserved"]
        stage.replicas["Ann"].scheduler.pool_changed(stage.put(WORKER_POOLS, pool))
        await stage.pass_time(2.0)
        assert len(stage.run(run).leases) == 4
        await stage.until(lambda: stage.finished(run), limit_s=60.0)

    play(story)


def test_a_backfill_of_a_critical_dag_is_not_critical() -> None:
    async def story(stage: Stage) -> None:
        keep(stage, "50%")
        stage.leader()
        stage.worker(slots=2, job_s=None)
        stage.dag("etl", a_task("only", forEach={"count": 2}), cron="0 0 1 1 *", priority="critical")
        await stage.pass_time(1.0)
        name = f"etl-{NOON_S - 3600}"
        spec = {"dag": "etl", "trigger": "Backfill", "scheduledTime": "2026-11-30T11:00:00Z"}
        stage.put(DAG_RUNS, an_object(DAG_RUNS, name, NAMESPACE, spec=spec))
        await stage.pass_time(10.0)
        assert (len(stage.started), stage.run(name).reason) == (1, "Reserved")
        stage.manual_run("r1", "etl")
        await stage.pass_time(2.0)
        assert len(stage.run("r1").leases) == 1
        for _ in range(4):
            for _, job in stage.started:
                if not job.ended:
                    job.end()
            await stage.pass_time(2.0)
        assert stage.run(name).phase is RunPhase.SUCCEEDED

    play(story)
