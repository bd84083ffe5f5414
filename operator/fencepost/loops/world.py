"""What all loops of one replica share: what it sees, what it leads, and the one way to write."""

from collections.abc import Callable
from dataclasses import dataclass

from fencepost.api import names as wire
from fencepost.api.names import Kind
from fencepost.apply.executor import Executor
from fencepost.apply.writers import Writers
from fencepost.base.clock import Clock
from fencepost.base.metrics import Metrics
from fencepost.core.names import DagKey, RunKey
from fencepost.kube.protocol import Api
from fencepost.loops.clock_check import ClockCheck
from fencepost.loops.shards import Shards
from fencepost.observe.dags import DagCache
from fencepost.observe.letters import LetterCache
from fencepost.observe.reflector import Cache, Reflector
from fencepost.observe.refresh import refresh
from fencepost.observe.runs import RunCache
from fencepost.observe.workers import WorkerCache


@dataclass(frozen=True, slots=True)
class World:
    """One replica's caches and tools."""

    api: Api
    clock: Clock
    clock_check: ClockCheck
    metrics: Metrics
    system_namespace: str
    shards: Shards
    executor: Executor
    writers: Writers
    dags: DagCache
    runs: RunCache
    letters: LetterCache
    workers: WorkerCache

    def reflectors(self, worker_leases: Cache, on_contact: Callable[[], None]) -> list[Reflector]:
        """Who keeps the caches in step, and with them whoever follows the Leases of workers. `on_contact`: the API
        server has said something."""

        def follow(kind: Kind, cache: Cache, namespace: str | None = None, label_selector: str = "") -> Reflector:
            return Reflector(
                self.api,
                kind,
                cache,
                self.clock,
                namespace=namespace,
                label_selector=label_selector,
                on_contact=on_contact,
            )

        return [
            follow(wire.DAGS, self.dags),
            follow(wire.DAG_RUNS, self.runs),
            follow(wire.DEAD_LETTERS, self.letters),
            follow(wire.WORKERS, self.workers, self.system_namespace),
            follow(wire.LEASES, worker_leases, self.system_namespace, f"{wire.ROLE_LABEL}=worker"),
        ]

    async def refresh_run(self, key: RunKey) -> bool:
        """Read a run live; False when the API server does not answer."""
        return await refresh(self.api, wire.DAG_RUNS, self.runs, key.namespace, key.name)

    async def refresh_dag(self, key: DagKey) -> bool:
        """Read a DAG live; False when the API server does not answer."""
        return await refresh(self.api, wire.DAGS, self.dags, key.namespace, key.name)

    async def refresh_worker(self, name: str) -> bool:
        """Read a worker live; False when the API server does not answer."""
        return await refresh(self.api, wire.WORKERS, self.workers, self.system_namespace, name)
