"""WorkerPools, by kopf: it lists and watches them, and hands each event on.

kopf stands here because pools are few. Its low-level `on.event` handlers alone are used: they leave no annotation and
no finalizer behind, which GitOps tools would report as drift. It keeps trying for as long as the API server is away;
should it end by itself it is started again.

kopf takes SIGTERM and SIGINT for itself when it starts, so whoever wants them must ask for them once `ready` is set.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import kopf

from fencepost.api import names as wire
from fencepost.base.clock import Clock
from fencepost.kube.access import Access
from fencepost.kube.credentials import Bearer
from fencepost.kube.protocol import Obj

log = logging.getLogger(__name__)

RESTART_S = 5.0


async def follow_pools(
    access: Access,
    clock: Clock,
    on_pool: Callable[[Obj], None],
    on_pool_gone: Callable[[str], None],
    ready: asyncio.Event,
    stop: asyncio.Event,
) -> None:
    """Tell of every WorkerPool that is there, changes or goes, until `stop` is set."""
    registry = _registry(access, clock, on_pool, on_pool_gone)
    while not stop.is_set():
        try:
            await kopf.operator(
                registry=registry,
                settings=_settings(),
                standalone=True,
                clusterwide=True,
                ready_flag=ready,
                stop_flag=stop,
            )
        except Exception:
            log.exception("kopf has ended; it is started again in %.0f s", RESTART_S)
        if not stop.is_set():
            await clock.sleep(RESTART_S)


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    return settings


def _registry(
    access: Access, clock: Clock, on_pool: Callable[[Obj], None], on_pool_gone: Callable[[str], None]
) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()
    bearer = Bearer(access, clock)

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(
            server=access.server,
            ca_data=access.authority or None,
            insecure=not access.verify,
            scheme="Bearer",
            token=await bearer.token() or None,
            certificate_data=access.certificate or None,
            private_key_data=access.key or None,
        )

    @kopf.on.event(wire.GROUP, wire.VERSION, wire.WORKER_POOLS.plural, registry=registry)
    async def event(event: kopf.RawEvent, **_: Any) -> None:
        pool: Obj = dict(event["object"])
        if event["type"] == "DELETED":
            on_pool_gone(pool["metadata"]["name"])
        else:
            on_pool(pool)

    return registry
