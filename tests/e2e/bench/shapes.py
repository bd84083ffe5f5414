"""The shapes of load, each ending in one line of figures."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from fencepost.api.names import DAGS
from fencepost.base.clock import Clock
from fencepost.kube.protocol import Api
from tests.e2e.bench.load import Load
from tests.e2e.bench.meter import Meter, Reading, calm, cpu_ms, memory_mb
from tests.e2e.bench.population import CREATE_AT_ONCE, a_dag, populate
from tests.e2e.support.fleet import Fleet, Member

Line = dict[str, Any]
DAGS_OF_SINGLE = 50
CHAIN_LENGTH = 10
FAN_WIDTH = 1000
WIDE_WIDTH = 10_000
"""The widest fan-out that there may be."""
FIRST_MINUTE_S = 70.0
STEADY_PERIOD_S, STEADY_LAG_S, STEADY_SHARE, STEADY_LIMIT_S = 10.0, 4.0, 0.95, 180.0
"""Steady: of what was due in a period, up to a lag ago, this share has ended. If not within the limit, then never."""
IDLE_DAGS = 100


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    rate: float
    duration_s: float
    job_s: float
    dags: int


@dataclass
class Stage:
    """What a shape plays on."""

    api: Api
    clock: Clock
    fleet: Fleet
    meter: Meter
    operators: list[Member]
    options: Options
    load: Load = field(init=False)

    def __post_init__(self) -> None:
        self.load = Load(self.api, self.clock)


async def single(stage: Stage) -> Line:
    """Runs of one job, at a rate, over fifty DAGs."""
    dags = [f"single-{number}" for number in range(DAGS_OF_SINGLE)]
    tasks = [{"name": "job", "command": ["sleep", str(stage.options.job_s)]}]
    count = int(stage.options.rate * stage.options.duration_s)
    return await _at_rate(stage, "single", dags, tasks, stage.options.rate, count, jobs_a_run=1)


async def scheduled(stage: Stage) -> Line:
    """Runs of one job by schedules of every minute, spread over it: what the operator makes all by itself. Measured in
    the middle of it, once the backlog is gone that comes of each DAG's storing its revision in the first minute."""
    options, load = stage.options, stage.load
    follower = asyncio.create_task(load.follow())
    tasks = [{"name": "job", "command": ["sleep", str(options.job_s)]}]
    schedule = {"cron": ["* * * * *"], "spread": "60s"}
    gate = asyncio.Semaphore(CREATE_AT_ONCE)

    async def make(number: int) -> None:
        async with gate:
            await load.make_dag(f"minutely-{number}", tasks, schedule=schedule)

    await asyncio.gather(*(make(number) for number in range(round(options.rate * 60))))
    await stage.clock.sleep(FIRST_MINUTE_S)
    steady = await _steady(stage)
    before, start_s, start_steady_s = stage.meter.read(), stage.clock.now_s(), stage.clock.steady_s()
    await stage.clock.sleep(options.duration_s)
    spent, seconds = stage.meter.read().since(before), stage.clock.steady_s() - start_steady_s
    due = {name: at_s for name, at_s in load.runs.asked_s.items() if start_s <= at_s < start_s + seconds}
    await load.until_ended(set(due))
    follower.cancel()
    load.runs.ended = {name: state for name, state in load.runs.ended.items() if name in due}
    return {**_line("scheduled", load, len(due), seconds, spent), "steady_before": steady}


async def _steady(stage: Stage) -> bool:
    """Wait until nearly all that was due a moment ago has ended; False if it does not come to that."""
    runs, due = stage.load.runs, stage.options.rate * STEADY_PERIOD_S
    try:
        async with asyncio.timeout(STEADY_LIMIT_S):
            while True:
                latest_s = stage.clock.now_s() - STEADY_LAG_S
                asked = (runs.asked_s.get(name, 0.0) for name in runs.ended)
                if sum(latest_s - STEADY_PERIOD_S < at_s <= latest_s for at_s in asked) >= STEADY_SHARE * due:
                    return True
                await stage.clock.sleep(1)
    except TimeoutError:
        return False


async def chain(stage: Stage) -> Line:
    """Runs of ten jobs in a row; the rate counts jobs."""
    dags = [f"chain-{number}" for number in range(DAGS_OF_SINGLE)]
    command = ["sleep", str(stage.options.job_s)]
    tasks = [{"name": f"t{place}", "command": command} for place in range(CHAIN_LENGTH)]
    for place in range(1, CHAIN_LENGTH):
        tasks[place]["dependsOn"] = [f"t{place - 1}"]
    rate = stage.options.rate / CHAIN_LENGTH
    count = max(1, int(rate * stage.options.duration_s))
    return await _at_rate(stage, "chain", dags, tasks, rate, count, jobs_a_run=CHAIN_LENGTH)


async def fan(stage: Stage) -> Line:
    """One run of a thousand jobs."""
    command = ["sleep", str(stage.options.job_s)]
    tasks = [{"name": "wide", "command": command, "forEach": {"count": FAN_WIDTH}}]
    return await _at_rate(stage, "fan", ["fan"], tasks, 1.0, 1, jobs_a_run=FAN_WIDTH)


async def wide(stage: Stage) -> Line:
    """One run of ten thousand jobs."""
    command = ["sleep", str(stage.options.job_s)]
    tasks = [{"name": "wide", "command": command, "forEach": {"count": WIDE_WIDTH}}]
    return await _at_rate(stage, "wide", ["wide"], tasks, 1.0, 1, jobs_a_run=WIDE_WIDTH)


async def idle(stage: Stage) -> Line:
    """A hundred DAGs with schedules, nothing due."""
    for number in range(IDLE_DAGS):
        await stage.api.create(DAGS, a_dag(f"many-{number}", number))
    await stage.clock.sleep(20)
    before, start_s = stage.meter.read(), stage.clock.steady_s()
    await stage.clock.sleep(stage.options.duration_s)
    spent = stage.meter.read().since(before)
    seconds = stage.clock.steady_s() - start_s
    return {
        "shape": "idle",
        "seconds": round(seconds, 1),
        "api_writes": spent.of_ours(),
        "lease_writes_per_s": round(spent.of_leases() / seconds, 2),
        "api_writes_per_s": round(sum(spent.writes.values()) / seconds, 2),
        "cpu_percent_of_a_core": {name: round(ms / seconds / 10, 2) for name, ms in spent.cpu_ms.items()},
    }


async def cold(stage: Stage) -> Line:
    """A fresh replica on many DAGs of three tasks: seconds and memory until it plans for every shard. They are as an
    earlier leader has left them."""
    await populate(stage.api, stage.fleet.fencepost, stage.clock, stage.options.dags)
    await calm(stage.meter, stage.clock)
    before, start_s = stage.meter.read(), stage.clock.steady_s()
    member = await asyncio.to_thread(stage.fleet.operator, "operator-cold", wait=False)
    peak_mb = 0.0
    while not await asyncio.to_thread(_plans_everything, member):
        peak_mb = max(peak_mb, memory_mb(member.process.pid))
        await stage.clock.sleep(0.2)
    seconds = stage.clock.steady_s() - start_s
    spent, settled_mb = stage.meter.read().since(before), memory_mb(member.process.pid)
    return {
        "shape": "cold",
        "dags": stage.options.dags,
        "seconds": round(seconds, 1),
        "memory_mb": {"peak": round(max(peak_mb, settled_mb)), "ready": round(settled_mb)},
        "cpu_s": {"operator": round(cpu_ms(member.process.pid) / 1000, 1)}
        | {name: round(ms / 1000, 1) for name, ms in spent.cpu_ms.items() if name in ("apiserver", "etcd")},
    }


SHAPES: dict[str, Callable[[Stage], Awaitable[Line]]] = {
    "single": single,
    "scheduled": scheduled,
    "chain": chain,
    "fan": fan,
    "wide": wide,
    "idle": idle,
    "cold": cold,
}


async def _at_rate(
    stage: Stage, shape: str, dags: list[str], tasks: list[dict[str, Any]], rate: float, count: int, jobs_a_run: int
) -> Line:
    load = stage.load
    follower = asyncio.create_task(load.follow())
    for dag in dags:
        await load.make_dag(dag, tasks)
    if jobs_a_run < FAN_WIDTH:
        # revisions are stored and definitions compiled at a DAG's first run: not what a job costs
        await asyncio.gather(*(load.ask(dag, -1) for dag in dags))
        await load.until({f"{dag}--1".replace("--1", "-r-1") for dag in dags})
    warm = set(load.runs.asked_s)
    before, start_s = stage.meter.read(), stage.clock.steady_s()
    await load.ask_at_rate(dags, rate, count)
    names = set(load.runs.asked_s) - warm
    await load.until_ended(names)
    seconds = stage.clock.steady_s() - start_s
    await load.until(names)
    spent = stage.meter.read().since(before)
    follower.cancel()
    for name in warm:
        load.runs.ended.pop(name, None)
    return _line(shape, load, count * jobs_a_run, seconds, spent)


def _line(shape: str, load: Load, jobs: int, seconds: float, spent: Reading) -> Line:
    failed = sum(state.phase.value != "Succeeded" for state in load.runs.ended.values())
    lags = load.runs.lags_s()
    return {
        "shape": shape,
        "jobs": jobs,
        "failed_runs": failed,
        "seconds": round(seconds, 2),
        "jobs_per_s": round(jobs / seconds, 1),
        "api_writes_per_job": round(sum(spent.of_ours().values()) / jobs, 2),
        "api_writes": spent.of_ours(),
        "lease_writes": spent.of_leases(),
        "cpu_ms_per_job": {name: round(ms / jobs, 2) for name, ms in spent.cpu_ms.items()},
        "start_lag_s": {"p50": _at(lags, 0.5), "p99": _at(lags, 0.99), "max": _at(lags, 1.0)},
    }


def _plans_everything(member: Member) -> bool:
    try:
        return member.ready() and member.metric("fencepost_shards_held") >= 16
    except OSError:
        return False


def _at(ordered: list[float], share: float) -> float | None:
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3) if ordered else None
