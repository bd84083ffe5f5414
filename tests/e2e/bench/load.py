"""Runs asked for at a rate, and watched until they have gone again."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from fencepost.api.codec import decode_run_status
from fencepost.api.names import API_VERSION, DAG_RUNS, DAGS
from fencepost.api.times import parse_time
from fencepost.base.clock import Clock
from fencepost.core.run_state import RunState
from fencepost.kube.protocol import Api, EventType, Obj

NAMESPACE = "default"
UNTIL_LIMIT_S = 900.0


@dataclass
class Runs:
    """What has been asked for, and what has become of it."""

    asked_s: dict[str, float] = field(default_factory=dict)
    """When each was asked for by hand, or its scheduled time."""
    ended: dict[str, RunState] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def lags_s(self) -> list[float]:
        """For each run that has begun: from being asked for to the start of its first job."""
        lags = []
        for name, state in self.ended.items():
            starts = [task.first_start_s for task in state.tasks.values() if task.first_start_s is not None]
            if starts and name in self.asked_s:
                lags.append(min(starts) - self.asked_s[name])
        return sorted(lags)


class Load:
    """Makes DAGs and runs as a user, and follows the runs by one watch."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self.runs = Runs()
        self._news = asyncio.Event()

    async def make_dag(self, name: str, tasks: list[Obj], **spec: Any) -> None:
        """Create a DAG that keeps no history; run by hand only, unless `spec` has a schedule."""
        spec = {
            "tasks": tasks,
            "history": {"succeeded": 0, "failed": 0},
            "concurrency": {"policy": "Allow"},
            **spec,
        }
        dag = {
            "apiVersion": API_VERSION,
            "kind": "DAG",
            "metadata": {"namespace": NAMESPACE, "name": name},
            "spec": spec,
        }
        await self._api.create(DAGS, dag)

    async def ask(self, dag: str, number: int) -> None:
        """Create one run."""
        name = f"{dag}-r{number}"
        meta = {"namespace": NAMESPACE, "name": name}
        self.runs.asked_s[name] = self._clock.now_s()
        await self._api.create(
            DAG_RUNS, {"apiVersion": API_VERSION, "kind": "DAGRun", "metadata": meta, "spec": {"dag": dag}}
        )

    async def ask_at_rate(self, dags: list[str], rate: float, count: int) -> None:
        """Create `count` runs, `rate` a second, each at its moment whether or not the one before has been answered."""
        start_s = self._clock.steady_s()
        asks = []
        for number in range(count):
            await self._clock.sleep(start_s + number / rate - self._clock.steady_s())
            asks.append(asyncio.create_task(self.ask(dags[number % len(dags)], number)))
        await asyncio.gather(*asks)

    async def follow(self) -> None:
        """Watch all runs, until cancelled."""
        version = (await self._api.list(DAG_RUNS)).resource_version
        while True:
            async for event in self._api.watch(DAG_RUNS, resource_version=version):
                version = event.object["metadata"]["resourceVersion"]
                if event.type is not EventType.BOOKMARK:
                    self._note(event.type, event.object)

    async def until(self, names: set[str]) -> None:
        """Wait until these runs have ended and have been deleted."""
        async with asyncio.timeout(UNTIL_LIMIT_S):
            while not names <= self.runs.gone:
                self._news.clear()
                await self._news.wait()

    async def until_ended(self, names: set[str]) -> None:
        """Wait until these runs have ended."""
        async with asyncio.timeout(UNTIL_LIMIT_S):
            while not names <= self.runs.ended.keys():
                self._news.clear()
                await self._news.wait()

    def _note(self, type_: EventType, run: Obj) -> None:
        name = run["metadata"]["name"]
        if run["spec"]["trigger"] == "Schedule":
            self.runs.asked_s.setdefault(name, parse_time(run["spec"]["scheduledTime"]))
        if type_ is EventType.DELETED:
            self.runs.gone.add(name)
            self._news.set()
        elif "finishTime" in run.get("status", {}) and name not in self.runs.ended:
            self.runs.ended[name] = decode_run_status(run["status"])
            self._news.set()
