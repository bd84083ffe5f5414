"""Whole replicas: the real leadership over the real scheduler, several of them, that come, go and die under load."""

import asyncio
from collections import Counter

from fencepost.api.names import DAG_RUNS
from fencepost.core.lease import LeaseTimes
from fencepost.core.names import DagKey, shard_of
from fencepost.core.phases import RunPhase
from fencepost.core.turns import Rivals
from fencepost.loops.leadership import Leadership
from fencepost.memory.identity import Identity, Role
from tests.unit.loops.processes import ProcessApi, Replica
from tests.unit.loops.stage import NAMESPACE, SYSTEM, Stage, a_task, play, slot

SHARDS = 8
DAGS_COUNT = 12


class Whole(Replica):
    """A replica that leads what its leadership has acquired, wired as in `main`."""

    def __init__(self, stage: Stage, name: str) -> None:
        nonces = iter(f"{number:05d}" for number in range(100))
        super().__init__(stage.server, name, shards=stage.shards, history_age_min_s=stage.history_age_min_s)
        self.leadership = Leadership(
            ProcessApi(stage.server.client(Identity(Role.OPERATOR, name), self.clock_check.note), self.awake),
            self.clock,
            namespace=SYSTEM,
            replica=name,
            shards=stage.shards,
            times=LeaseTimes(),
            nonce=lambda: next(nonces),
            progress=lambda: not self.scheduler.stuck(),
            clock_right=lambda: not self.clock_check.wrong,
            on_acquired=self.scheduler.acquired,
            on_released=self.scheduler.released,
            waiting=self.scheduler.backlogs,
        )
        self.tasks.append(asyncio.create_task(self._lead(), name=f"leadership of {name}"))
        stage.replicas[name] = self

    def holds(self, shard: int) -> int | None:
        return self.leadership.holds(shard)

    def rivals(self, pool: str) -> Rivals:
        return self.leadership.rivals(pool)

    def hurry(self) -> None:
        self.leadership.hurry()

    async def stop(self) -> None:
        """SIGTERM."""
        await self.leadership.step_down()
        await self.scheduler.close()
        self.kill()

    async def _lead(self) -> None:
        await self.scheduler.filled.wait()
        await self.leadership.run()


def all_led(stage: Stage) -> bool:
    """Whether every shard is led by exactly one of those that live."""
    live = [replica for replica in stage.replicas.values() if isinstance(replica, Whole) and not replica.dead]
    return sum(len(replica.leadership.held) for replica in live) == stage.shards


def every_minute(stage: Stage) -> list[str]:
    """DAGs in all shards, each due every minute."""
    names = [f"d{number:02}" for number in range(DAGS_COUNT)]
    assert len({shard_of(DagKey(NAMESPACE, name), SHARDS) for name in names}) > SHARDS // 2
    for name in names:
        stage.dag(name, a_task("extract"), a_task("load", "extract"), cron="* * * * *")
    return names


async def assert_all_fired(stage: Stage, names: list[str], minutes: range) -> None:
    """Each slot of each DAG has had one run, which ended well."""
    await stage.until(stage.quiet)
    for name in names:
        assert await stage.slots_fired(name) == Counter(minutes), name
    assert {run["status"]["phase"] for run in stage.all(DAG_RUNS)} == {RunPhase.SUCCEEDED}


def test_a_killed_replica_is_replaced_and_no_slot_is_lost() -> None:
    async def story(stage: Stage) -> None:
        replicas = [Whole(stage, f"op{number}") for number in range(3)]
        stage.worker(slots=32)
        names = every_minute(stage)
        await stage.until(lambda: all_led(stage), limit_s=10.0)
        assert all(replica.leadership.held for replica in replicas), "all of them take part"
        await stage.at(60.05)
        replicas[0].kill()
        took_s = await stage.until(lambda: all_led(stage), limit_s=20.0)
        assert took_s < 15.0
        await stage.at(130.0)
        await assert_all_fired(stage, names, range(1, 3))

    play(story, shards=SHARDS)


def test_a_frozen_replica_comes_back_to_nothing() -> None:
    async def story(stage: Stage) -> None:
        replicas = [Whole(stage, f"op{number}") for number in range(2)]
        stage.worker(slots=32)
        names = every_minute(stage)
        await stage.until(lambda: all_led(stage), limit_s=10.0)
        await stage.at(61.08)
        replicas[0].freeze()
        await stage.at(121.0)
        assert all(stage.finished(slot(1, name)) for name in names)
        replicas[0].thaw()
        await stage.at(190.0)
        await assert_all_fired(stage, names, range(1, 4))
        assert all(replica.leadership.held for replica in replicas), "it takes part again"

    play(story, shards=SHARDS)


def test_from_one_replica_to_three_and_back_while_runs_go_on() -> None:
    async def story(stage: Stage) -> None:
        first = Whole(stage, "op0")
        stage.worker(slots=32, job_s=20.0)
        names = every_minute(stage)
        await stage.at(65.0)
        others = [Whole(stage, f"op{number}") for number in (1, 2)]
        await stage.at(85.0)
        assert all(replica.leadership.held for replica in (first, *others))
        await stage.at(119.9)
        await first.stop()
        took_s = await stage.until(lambda: all_led(stage), limit_s=5.0)
        assert took_s < 2.0
        await stage.at(150.0)
        await others[0].stop()
        await stage.at(170.0)
        await assert_all_fired(stage, names, range(1, 3))
        assert len(stage.started) == 2 * 2 * DAGS_COUNT, "nothing was run again"

    play(story, shards=SHARDS)
