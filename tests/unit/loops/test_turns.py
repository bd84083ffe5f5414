"""Replicas share the slots of one pool, and tell each other in their Leases what waits: the real leadership, and all.

What is counted here was measured with as many replicas that told each other nothing: of three leases two found no slot.
"""

from random import Random

import pytest

from fencepost.api.names import LEASES, WAITING_ANNOTATION
from fencepost.core.names import DagKey, member_lease_name, shard_of
from fencepost.core.turns import Backlog
from fencepost.memory.faults import Fault
from tests.unit.loops.stage import NAMESPACE, SYSTEM, Stage, a_task, play
from tests.unit.loops.test_whole_replicas import Whole, all_led

SHARDS = 6
LATENCY_S = 0.01


async def leaders(stage: Stage, count: int) -> list[Whole]:
    """Replicas that share all shards, on an API server that takes its time."""
    latencies = Random(1)
    stage.trouble(lambda name, request: Fault(delay_s=latencies.uniform(0.5, 1.5) * LATENCY_S))
    replicas = [Whole(stage, f"op{number}") for number in range(count)]
    await stage.until(lambda: all_led(stage) and all(each.leadership.held for each in replicas))
    await stage.pass_time(2.0)
    return replicas


def dag_of(replica: Whole, number: int = 0) -> str:
    """The name of a DAG that this replica leads."""
    names = (name for name in (f"d{n}" for n in range(1000)) if shard_of(DagKey(NAMESPACE, name), SHARDS))
    ours = (name for name in names if shard_of(DagKey(NAMESPACE, name), SHARDS) in replica.leadership.held)
    return next(name for place, name in enumerate(ours) if place == number)


def wide(stage: Stage, name: str, jobs: int, priority: str = "low") -> str:
    """A DAG of so many jobs, and a run of it."""
    stage.dag(name, a_task("only", forEach={"count": jobs}), priority=priority)
    stage.manual_run(f"r{name}", name)
    return f"r{name}"


def starts_of(stage: Stage, run: str) -> int:
    return sum(job.launch.source.run.name == run for _, job in stage.started)


def leased(replicas: list[Whole]) -> float:
    return sum(replica.count("jobs_leased_total") for replica in replicas)


def told(stage: Stage, replica: Whole) -> str:
    """What a replica says of what waits."""
    lease = stage.get(LEASES, member_lease_name(replica.leadership.identity), SYSTEM)
    return str(lease["metadata"]["annotations"][WAITING_ANNOTATION])


def test_replicas_that_fill_one_pool_rarely_reach_for_the_same_slot() -> None:
    async def story(stage: Stage) -> None:
        replicas = await leaders(stage, 3)
        for number in range(4):
            stage.worker(f"w{number}", slots=5, job_s=2.0)
        await stage.pass_time(1.0)
        runs = [wide(stage, dag_of(replica), 120) for replica in replicas]
        await stage.pass_time(10.0)
        started, leases = len(stage.started), leased(replicas)
        await stage.until(lambda: stage.finished(*runs), limit_s=60.0)
        # 20 slots for jobs of 2 s; until the replicas had heard of each other, they all reached for all of it
        assert leased(replicas) - leases <= 1.35 * (len(stage.started) - started)
        assert stage.now_s < 60.0

    play(story, shards=SHARDS)


def test_a_critical_job_gets_the_next_slot_whichever_replica_leads_it() -> None:
    """Slots come free one a second, all of them where others have jobs enough to fill them."""

    async def story(stage: Stage) -> None:
        replicas = await leaders(stage, 3)
        for number in range(5):
            stage.worker(f"w{number}", slots=4, job_s=None)
        await stage.pass_time(1.0)
        for replica in replicas[1:]:
            wide(stage, dag_of(replica), 200)
        await stage.until(lambda: len(stage.started) == 20)
        await stage.pass_time(4.0)
        waits_s = []
        for number in range(6):
            urgent = wide(stage, dag_of(replicas[0], number), 1, "critical")
            began_s = stage.now_s
            while not starts_of(stage, urgent):
                next(job for _, job in stage.started if not job.ended).end()
                await stage.pass_time(1.0)
            waits_s.append(stage.now_s - began_s)
        assert max(waits_s) <= 3.5, waits_s
        assert sum(waits_s) / 6 <= 2.5, waits_s

    play(story, shards=SHARDS)


@pytest.mark.parametrize("replicas_count", [2, 3])
def test_with_one_slot_for_all_replicas_the_oldest_job_is_next(replicas_count: int) -> None:
    async def story(stage: Stage) -> None:
        replicas = await leaders(stage, replicas_count)
        stage.worker(slots=1, job_s=3.0)
        await stage.pass_time(1.0)
        runs: list[str] = []
        for replica in (*replicas, *replicas):
            runs.append(wide(stage, dag_of(replica, len(runs)), 6))
            await stage.pass_time(12.0)
        # six jobs of 3 s for every 12 s
        await stage.until(lambda: stage.finished(*runs), limit_s=90.0)
        order = [runs.index(job.launch.source.run.name) for _, job in stage.started]
        assert order == sorted(order)

    play(story, shards=SHARDS)


def test_a_replica_that_has_died_with_jobs_waiting_costs_a_slot_a_moment_and_no_more() -> None:
    async def story(stage: Stage) -> None:
        first, second = await leaders(stage, 2)
        stage.worker(slots=1, job_s=None)
        await stage.pass_time(1.0)
        wide(stage, dag_of(first), 2)
        await stage.until(lambda: len(stage.started) == 1)
        wide(stage, dag_of(first, 1), 1, "critical")
        low = wide(stage, dag_of(second), 5)
        await stage.until(lambda: "critical" in told(stage, first), limit_s=5.0)
        await stage.pass_time(1.0)
        first.kill()
        stage.started[0][1].end()
        took_s = await stage.until(lambda: starts_of(stage, low) == 1, limit_s=5.0)
        assert 0.4 < took_s < 2.0

    play(story, shards=SHARDS)


def test_what_waits_is_told_with_the_renewal_and_only_a_critical_job_brings_that_forward() -> None:
    async def story(stage: Stage) -> None:
        (only,) = await leaders(stage, 1)
        stage.worker(slots=2, job_s=None)
        await stage.pass_time(1.0)
        wide(stage, dag_of(only), 1)
        await stage.pass_time(5.0)
        assert told(stage, only) == ""
        before = stage.writes("update", LEASES, by="op0")
        wide(stage, dag_of(only, 1), 3)
        await stage.pass_time(30.0)
        assert stage.writes("update", LEASES, by="op0") - before in (9, 10, 11)
        assert told(stage, only) == "default low 2026-11-30T12:00:08Z"
        wide(stage, dag_of(only, 2), 3, "critical")
        await stage.until(lambda: "critical" in told(stage, only), limit_s=1.5)
        before = stage.writes("update", LEASES, by="op0")
        await stage.pass_time(30.0)
        assert stage.writes("update", LEASES, by="op0") - before in (9, 10, 11)

    play(story, shards=SHARDS)


def test_what_a_hand_has_written_into_a_lease_is_passed_over() -> None:
    async def story(stage: Stage) -> None:
        first, second = await leaders(stage, 2)
        lease = stage.get(LEASES, member_lease_name(first.leadership.identity), SYSTEM)
        lease["metadata"]["annotations"][WAITING_ANNOTATION] = (
            "default, gpu low never, x huge 2026-11-30T12:00:00Z, a low 2026-11-30T12:00:00Z"
        )
        stage.put(LEASES, lease)
        await stage.pass_time(0.2)
        rivals = second.leadership.rivals
        assert not rivals("default").others
        assert not rivals("gpu").others
        assert not rivals("x").others
        assert rivals("a").others == {first.leadership.identity: Backlog(0, 1_796_040_000.0)}

    play(story, shards=SHARDS)
