"""Run as a process: `fencepost worker` with an API server of its own in memory, and a job to run.

    python lone_worker.py SCRATCH SCRIPT            (SCRIPT: what the only task of the DAG runs by `sh -c`)

Standard output is the worker's log of jobs; on standard error it says what it does, and at its end, as JSON, its exit
code and results.
"""

import asyncio
import logging
import sys
from pathlib import Path

import orjson

from fencepost.api.names import CONTROLLER_REVISIONS, WORKERS
from fencepost.base.clock import SystemClock
from fencepost.kube.errors import NotFoundError
from fencepost.memory.identity import ADMIN, OPERATOR, worker_identity
from fencepost.memory.server import MemoryServer
from fencepost.worker.entry import WorkerProcess
from fencepost.worker.settings import WorkerSettings
from tests.unit.worker.stage import CountedMetrics, entry, key_of, revision_of

POD = "lone"


async def main(scratch: str, script: str) -> int:
    """Deliver the job, and run the worker until it is told to end."""
    clock = SystemClock()
    server = MemoryServer(clock)
    settings = WorkerSettings(pod=POD, nonce="n0001", farewell_s=0.5, coalesce_s=0.0)
    data = {"tasks": [{"name": "load", "command": ["sh", "-c", script]}]}
    metadata = {"namespace": "analytics", "name": revision_of(data)}
    admin = server.client(ADMIN)
    await admin.create(
        CONTROLLER_REVISIONS,
        {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, "data": data, "revision": 1},
    )
    delivering = asyncio.create_task(deliver(server, settings, revision_of(data)))
    worker_api = server.client(worker_identity(POD))
    code = await WorkerProcess(settings, worker_api, clock, CountedMetrics(), Path(scratch)).run()
    await delivering
    stored = await admin.get(WORKERS, settings.namespace, settings.name)
    results = (stored.get("status") or {}).get("results") or {}
    sys.stderr.buffer.write(orjson.dumps({"code": code, "results": results}) + b"\n")
    return code


async def deliver(server: MemoryServer, settings: WorkerSettings, revision: str) -> None:
    """Put the job into the mailbox as soon as there is one."""
    operator = server.client(OPERATOR)
    while True:
        try:
            worker = await operator.get(WORKERS, settings.namespace, settings.name)
            break
        except NotFoundError:
            await asyncio.sleep(0.01)
    worker["spec"]["leases"] = {key_of(0): entry(7, revision=revision, grace_s=5)}
    await operator.replace(WORKERS, worker)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    sys.exit(asyncio.run(main(*sys.argv[1:])))
