"""A herd on the API server in memory: a replica's start on many DAGs, and a fifth of them due in the same second.

It tells of the operator alone: the server in memory answers within the same process, whose memory before the replica
starts is taken off, and there is neither network nor worker. So its seconds are those of one core, the server's share
of them included.
"""

import asyncio
import gc
import os
import time
from collections.abc import Callable
from typing import Any

from fencepost.api.names import API_VERSION, DAGS, LEASES, SYSTEM_NAMESPACE_DEFAULT, WORKER_POOLS
from fencepost.api.times import format_time
from fencepost.base.clock import SystemClock
from fencepost.base.metrics import Metrics
from fencepost.core.names import SHARDS_DEFAULT, shard_lease_name
from fencepost.kube.protocol import Obj
from fencepost.loops.clock_check import ClockCheck
from fencepost.loops.scheduler import Scheduler
from fencepost.memory.identity import OPERATOR
from fencepost.memory.server import MemoryServer
from tests.e2e.bench.load import NAMESPACE
from tests.e2e.bench.meter import memory_mb

DUE_SHARE = 5
"""One DAG of so many is due."""
LIMIT_S = 300.0
POLL_S = 0.1
START_S = 10.0
START_S_PER_DAG = 0.0005
"""From the beginning of the replica's start to the second that the herd is due in: more than the start takes."""
EPOCH = 1


async def herd(dags: int) -> dict[str, Any]:
    """One line: seconds and memory until the replica plans; seconds from when the herd is due until its runs exist."""
    clock = SystemClock()
    server = MemoryServer(clock)
    server.plant(WORKER_POOLS, _object("WorkerPool", "default", {}))
    due = dags // DUE_SHARE
    due_s = int(clock.now_s() + START_S + dags * START_S_PER_DAG)
    for shard in range(SHARDS_DEFAULT):
        lease = {"metadata": {"namespace": SYSTEM_NAMESPACE_DEFAULT, "name": shard_lease_name(shard)}}
        server.plant(LEASES, {**lease, "spec": {"leaseTransitions": EPOCH}})
    for number in range(dags):
        server.plant(DAGS, _dag(number, format_time(due_s) if number < due else "", format_time(clock.now_s() - 60)))
    gc.collect()
    own_mb = memory_mb(os.getpid())

    start = _Stopwatch(clock)
    scheduler = _replica(server, clock)
    task = asyncio.create_task(scheduler.run())
    await _until(clock, scheduler.filled.is_set)
    for shard in range(SHARDS_DEFAULT):
        scheduler.acquired(shard, EPOCH)
    await _until(clock, lambda: len(scheduler.world.shards.ready()) == SHARDS_DEFAULT)
    started = {"start_s": start.seconds(), "start_cpu_s": start.cpu_s(), "start_mb": _grown_mb(own_mb)}

    await clock.sleep(due_s - clock.now_s())
    firing = _Stopwatch(clock)
    await _until(clock, lambda: sum(1 for _ in scheduler.world.runs.all()) == due)
    line = {"shape": "herd", "dags": dags, **started, "runs": due, "seconds": firing.seconds()}
    await scheduler.close()
    task.cancel()
    return {**line, "cpu_ms_per_run": round(firing.cpu_s() * 1000 / due, 2), "mb": _grown_mb(own_mb)}


class _Stopwatch:
    """Seconds of time and of CPU since it was made."""

    def __init__(self, clock: SystemClock) -> None:
        self._clock = clock
        self._start_s, self._start_cpu_s = clock.steady_s(), time.process_time()

    def seconds(self) -> float:
        return round(self._clock.steady_s() - self._start_s, 1)

    def cpu_s(self) -> float:
        return round(time.process_time() - self._start_cpu_s, 1)


def _replica(server: MemoryServer, clock: SystemClock) -> Scheduler:
    metrics = Metrics()
    return Scheduler(
        server.client(OPERATOR),
        clock,
        ClockCheck(clock, metrics),
        metrics,
        system_namespace=SYSTEM_NAMESPACE_DEFAULT,
        shards=SHARDS_DEFAULT,
        window_s=0.05,
        holds=lambda shard: EPOCH,
    )


def _dag(number: int, at: str, seen: str) -> Obj:
    """A DAG of three tasks as an earlier leader has left it."""
    command = ["python3", "-m", "job", "--day=$(run.scheduledTime)"]
    tasks = [{"name": "extract", "command": command}, {"name": "load", "command": command, "dependsOn": ["extract"]}]
    tasks.append({"name": "report", "command": command, "dependsOn": ["load"]})
    schedule: Obj = {"at": at} if at else {"cron": [f"{number % 60} 0 1 1 *"]}
    dag = _object("DAG", f"many-{number}", {"schedule": schedule, "tasks": tasks})
    status = {"observedGeneration": 1, "state": "Ready", "scheduleSeenTime": seen, "nextScheduledTime": at}
    return {**dag, "status": {name: value for name, value in status.items() if value}}


def _object(kind: str, name: str, spec: Obj) -> Obj:
    meta = {"name": name, "generation": 1} | ({"namespace": NAMESPACE} if kind == "DAG" else {})
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": meta, "spec": spec}


def _grown_mb(own_mb: float) -> int:
    return round(memory_mb(os.getpid()) - own_mb)


async def _until(clock: SystemClock, condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await clock.sleep(POLL_S)
