"""A whole Fencepost in one process: the API server in memory, a scheduler that leads every shard, and one worker.

All of it is what runs in a cluster; only leadership is settled beforehand, as there is nobody to take it over. For the
same reason the worker's Lease is so long that a machine that was asleep loses no job.

One cluster carries out one run. On leaving it nothing is left: jobs are killed, and what they have left behind too.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn

from fencepost.api.names import (
    API_VERSION,
    DAG_RUNS,
    DAGS,
    LEASES,
    SYSTEM_NAMESPACE_DEFAULT,
    WORKER_POOLS,
    WORKERS,
    Kind,
)
from fencepost.base.clock import Clock
from fencepost.base.identity import nonce
from fencepost.base.metrics import Metrics
from fencepost.cli.errors import LocalClusterError
from fencepost.kube.errors import ConflictError
from fencepost.kube.protocol import EventType, Obj
from fencepost.loops.clock_check import ClockCheck
from fencepost.loops.lease_objects import shard_object
from fencepost.loops.scheduler import Scheduler
from fencepost.memory.identity import ADMIN, OPERATOR, worker_identity
from fencepost.memory.server import MemoryServer
from fencepost.worker.metrics import WorkerCounters
from fencepost.worker.output import JobLog
from fencepost.worker.process import ProcessRunner
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.worker import Worker

SHARDS: Final = 1
EPOCH: Final = 1
WINDOW_S: Final = 0.005
"""How long a write waits for company: hardly, as a write costs nothing here."""
LEASE_DURATION_S: Final = 7 * 24 * 3600
CHANGES_MAX: Final = 500
"""Versions kept to watch from: whoever watches is in this process and hardly behind, and a run may be of 384 KiB."""
WORKER_POD: Final = "local"


class LocalCluster:
    """To be entered once, and used from the loop that entered it."""

    def __init__(self, clock: Clock, *, pool: str, slots: int, job_log: JobLog, salt: str) -> None:
        """`pool`: the one pool that there is, all of it open to one DAG. Jobs run in the present folder. `salt`: not
        the same twice, or execution ids would be the same as well."""
        self._server = MemoryServer(clock, changes_max=CHANGES_MAX, salt=salt)
        self._person = self._server.client(ADMIN)
        self._operator = self._server.client(OPERATOR)
        self._pool = pool
        metrics = Metrics()
        self._scheduler = Scheduler(
            self._operator,
            clock,
            ClockCheck(clock, metrics),
            metrics,
            system_namespace=SYSTEM_NAMESPACE_DEFAULT,
            shards=SHARDS,
            window_s=WINDOW_S,
            holds=lambda _shard: EPOCH,
        )
        settings = WorkerSettings(
            WORKER_POD, nonce(), pool, slots, lease_duration_s=LEASE_DURATION_S, coalesce_s=WINDOW_S
        )
        self._worker_name = settings.name
        self._runner = ProcessRunner(settings.name, job_log, os.environ, working_directory=Path.cwd())
        worker_api = self._server.client(worker_identity(WORKER_POD))
        self._worker = Worker(worker_api, clock, settings, self._runner, WorkerCounters(slots))
        self._parts: list[asyncio.Task[NoReturn]] = []
        self._began_at = ""
        """The version of the server before it held anything."""

    async def __aenter__(self) -> "LocalCluster":
        self._began_at = (await self._operator.list(LEASES, SYSTEM_NAMESPACE_DEFAULT)).resource_version
        lease = shard_object(SYSTEM_NAMESPACE_DEFAULT, 0, SHARDS, EPOCH)
        await self._operator.create(LEASES, lease)
        self._parts = [asyncio.create_task(self._schedule()), asyncio.create_task(self._work())]
        self._scheduler.acquired(0, EPOCH)
        self._scheduler.pool_changed(
            {
                "apiVersion": API_VERSION,
                "kind": WORKER_POOLS.kind,
                "metadata": {"name": self._pool, "resourceVersion": "1"},
                "spec": {"maxSharePerDAG": "100%"},
            }
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for part in self._parts:
            part.cancel()
        await asyncio.gather(*self._parts, return_exceptions=True)
        await self._scheduler.close()
        self._runner.close()

    async def broken(self) -> NoReturn:
        """LocalClusterError once a part has ended by itself."""
        done, _ = await asyncio.wait(self._parts, return_when=asyncio.FIRST_COMPLETED)
        for part in done:
            part.result()
        raise AssertionError("a part that never ends has ended")

    async def start_run(self, name: str, dag: Mapping[str, Any], namespace: str, params: Mapping[str, str]) -> Obj:
        """Store the DAG, without its schedule, and a manual run of it under this name; the run."""
        dag_name = dag["metadata"]["name"]
        spec = {field: value for field, value in dag["spec"].items() if field != "schedule"}
        await self._person.create(DAGS, _object(DAGS, namespace, dag_name, spec))
        run_spec = {"dag": dag_name, **({"params": dict(params)} if params else {})}
        return await self._person.create(DAG_RUNS, _object(DAG_RUNS, namespace, name, run_spec))

    async def cancel(self, run: Obj) -> None:
        """Ask for the run's cancellation, as a person does."""
        meta = run["metadata"]
        while True:
            stored = await self._person.get(DAG_RUNS, meta["namespace"], meta["name"])
            stored["spec"]["cancel"] = True
            try:
                await self._person.replace(DAG_RUNS, stored)
            except ConflictError:
                continue
            return

    async def run_versions(self, run: Obj) -> AsyncGenerator[Obj, None]:
        """Every version of the run after the given one."""
        meta = run["metadata"]
        async with aclosing(self._versions(DAG_RUNS, meta["namespace"], meta["name"], meta["resourceVersion"])) as each:
            async for version in each:
                yield version

    async def worker_versions(self) -> AsyncGenerator[Obj, None]:
        """Every version of the worker, from the first."""
        versions = self._versions(WORKERS, SYSTEM_NAMESPACE_DEFAULT, self._worker_name, self._began_at)
        async with aclosing(versions) as each:
            async for version in each:
                yield version

    async def _versions(self, kind: Kind, namespace: str, name: str, version: str) -> AsyncGenerator[Obj, None]:
        while True:
            watch = self._person.watch(kind, namespace, name=name, resource_version=version)
            async with aclosing(watch) as events:
                async for event in events:
                    version = event.object["metadata"]["resourceVersion"]
                    if event.type is not EventType.BOOKMARK:
                        yield event.object

    async def _schedule(self) -> NoReturn:
        try:
            await self._scheduler.run()
        except Exception as error:
            raise LocalClusterError(f"the scheduler has ended: {error!r}; please report this") from error
        raise LocalClusterError("the scheduler has ended; please report this")

    async def _work(self) -> NoReturn:
        try:
            end = await self._worker.run()
        except Exception as error:
            raise LocalClusterError(f"worker {self._worker_name} has ended: {error!r}; please report this") from error
        raise LocalClusterError(f"worker {self._worker_name} has ended: {end.name}; run it again")


def _object(kind: Kind, namespace: str, name: str, spec: Mapping[str, Any]) -> Obj:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"namespace": namespace, "name": name},
        "spec": dict(spec),
    }
