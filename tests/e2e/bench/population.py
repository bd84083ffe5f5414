"""Very many DAGs, each made in one write, as an earlier leader has left them.

A hundred thousand take as many writes, and twice as many if each had its status written after it: so while they are
made, their kind has no status subresource and no rules. Then it is as it always is.
"""

import asyncio
import json
from typing import Any

from fencepost.api.crd import RESOURCES, crd
from fencepost.api.names import API_VERSION, DAGS
from fencepost.base.clock import Clock
from fencepost.kube.errors import ApiError
from fencepost.kube.protocol import Api, Obj
from tests.e2e.bench.load import NAMESPACE
from tests.e2e.support.install import Fencepost

FAR_OFF = "2099-01-01T01:00:00Z"
SEEN = "2026-01-01T00:00:00Z"
CREATE_AT_ONCE = 32
CHANGE_LIMIT_S = 300.0
LOOK_S = 0.5


async def populate(api: Api, fencepost: Fencepost, clock: Clock, count: int) -> None:
    """DAGs of three tasks, each with a schedule that is far off."""
    whole = next(crd(resource) for resource in RESOURCES if resource.kind is DAGS)
    gate = asyncio.Semaphore(CREATE_AT_ONCE)

    async def make(number: int) -> None:
        async with gate:
            await api.create(DAGS, a_dag(f"many-{number}", number))

    await _change_kind(api, fencepost, clock, _without_rules(whole), with_status=False)
    await asyncio.gather(*(make(number) for number in range(count)))
    await _change_kind(api, fencepost, clock, whole, with_status=True)


async def _change_kind(api: Api, fencepost: Fencepost, clock: Clock, kind: Obj, *, with_status: bool) -> None:
    """Apply the kind, and wait until the API server goes by it."""
    await asyncio.to_thread(fencepost.kubectl, "apply", "--filename=-", stdin=json.dumps(kind))
    async with asyncio.timeout(CHANGE_LIMIT_S):
        while await _has_status(api) != with_status:
            await clock.sleep(LOOK_S)


async def _has_status(api: Api) -> bool | None:
    """Whether the kind has a status subresource now, as seen by a DAG made with a status; None: no answer yet."""
    probe = a_dag("probe", 0)
    try:
        made = await api.create(DAGS, probe)
        await api.delete(DAGS, NAMESPACE, "probe")
    except ApiError:
        return None
    return "status" not in made


def _without_rules(kind: Obj) -> Obj:
    bare: Obj = json.loads(json.dumps(kind))
    (version,) = bare["spec"]["versions"]
    del version["subresources"]
    unknown = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version["schema"]["openAPIV3Schema"] = {"type": "object", "properties": {"spec": unknown, "status": unknown}}
    return bare


def a_dag(name: str, number: int) -> Obj:
    """One of them; its status is dropped where the kind has that as a subresource."""
    command = ["python3", "-m", "job", "--day=$(run.scheduledTime)"]
    tasks: list[dict[str, Any]] = [{"name": "extract", "command": command}]
    tasks.append({"name": "load", "command": command, "dependsOn": ["extract"]})
    tasks.append({"name": "report", "command": command, "dependsOn": ["load"]})
    spec = {"schedule": {"cron": [f"{number % 60} 0 1 1 *"]}, "tasks": tasks}
    seen = {"state": "Ready", "scheduleSeenTime": SEEN, "nextScheduledTime": FAR_OFF}
    return {
        "apiVersion": API_VERSION,
        "kind": "DAG",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": spec,
        "status": {"observedGeneration": 1, **seen},
    }
