"""The shapes of load, each ending in one line of figures."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from fencepost.api.names import API_VERSION, DAGS
from fencepost.base.clock import Clock
from fencepost.kube.protocol import Api
from tests.e2e.bench.load import NAMESPACE, Load
from tests.e2e.bench.meter import Meter, Reading, memory_mb
from tests.e2e.support.fleet import Fleet, Member

Line = dict[str, Any]
DAGS_OF_SINGLE = 50
CHAIN_LENGTH = 10
FAN_WIDTH = 1000
WIDE_WIDTH = 10_000
"""The widest fan-out that there may be."""
WARM_UP_RUNS = 10
IDLE_DAGS = 100
FAR_OFF = "2099-01-01T01:00:00Z"
CREATE_AT_ONCE = 32


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
    the middle of it, after a first minute in which each DAG has stored its revision."""
    options, load = stage.options, stage.load
    follower = asyncio.create_task(load.follow())
    tasks = [{"name": "job", "command": ["sleep", str(options.job_s)]}]
    schedule = {"cron": ["* * * * *"], "spread": "60s"}
    gate = asyncio.Semaphore(CREATE_AT_ONCE)

    async def make(number: int) -> None:
        async with gate:
            await load.make_dag(f"minutely-{number}", tasks, schedule=schedule)

    await asyncio.gather(*(make(number) for number in range(round(options.rate * 60))))
    await stage.clock.sleep(70)
    before, start_s, start_steady_s = stage.meter.read(), stage.clock.now_s(), stage.clock.steady_s()
    await stage.clock.sleep(options.duration_s)
    spent, seconds = stage.meter.read().since(before), stage.clock.steady_s() - start_steady_s
    due = {name: at_s for name, at_s in load.runs.asked_s.items() if start_s <= at_s < start_s + seconds}
    await load.until_ended(set(due))
    follower.cancel()
    load.runs.ended = {name: state for name, state in load.runs.ended.items() if name in due}
    return _line("scheduled", load, len(due), seconds, spent)


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
    await _make_many(stage.api, IDLE_DAGS)
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
    """A fresh replica on many DAGs of three tasks: seconds and memory until it plans for every shard."""
    await _make_many(stage.api, stage.options.dags)
    start_s = stage.clock.steady_s()
    member = await asyncio.to_thread(stage.fleet.operator, "operator-cold", wait=False)
    peak_mb = 0.0
    while not await asyncio.to_thread(_plans_everything, member):
        peak_mb = max(peak_mb, memory_mb(member.process.pid))
        await stage.clock.sleep(0.2)
    seconds = stage.clock.steady_s() - start_s
    settled_mb = memory_mb(member.process.pid)
    return {
        "shape": "cold",
        "dags": stage.options.dags,
        "seconds": round(seconds, 1),
        "memory_mb": {"peak": round(max(peak_mb, settled_mb)), "ready": round(settled_mb)},
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


async def _make_many(api: Api, count: int) -> None:
    """DAGs of three tasks, each with a schedule that is far off, as an earlier leader has left them."""
    command = ["python3", "-m", "job", "--day=$(run.scheduledTime)"]
    tasks = [{"name": "extract", "command": command}, {"name": "load", "command": command, "dependsOn": ["extract"]}]
    tasks.append({"name": "report", "command": command, "dependsOn": ["load"]})
    gate = asyncio.Semaphore(CREATE_AT_ONCE)

    async def make(number: int) -> None:
        spec = {"schedule": {"cron": [f"{number % 60} 0 1 1 *"]}, "tasks": tasks}
        meta = {"namespace": NAMESPACE, "name": f"many-{number}"}
        async with gate:
            dag = await api.create(DAGS, {"apiVersion": API_VERSION, "kind": "DAG", "metadata": meta, "spec": spec})
            seen = {"scheduleSeenTime": dag["metadata"]["creationTimestamp"]}
            dag["status"] = {"observedGeneration": 1, "state": "Ready", "nextScheduledTime": FAR_OFF, **seen}
            await api.replace(DAGS, dag, subresource="status")

    await asyncio.gather(*(make(number) for number in range(count)))


def _plans_everything(member: Member) -> bool:
    try:
        return member.ready() and member.metric("fencepost_shards_held") >= 16
    except OSError:
        return False


def _at(ordered: list[float], share: float) -> float | None:
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3) if ordered else None
