"""WorkerPools, by kopf: it lists and watches them, and hands each event on.

kopf stands here because pools are few. Its low-level `on.event` handlers alone are used: they leave no annotation and
no finalizer behind, which GitOps tools would report as drift. It is a guest in this process, which takes some care:

- `kopf.operator` ends every task of the event loop that is younger than itself; so its tasks are started one level
  below that, and only these are ended.
- It takes SIGTERM and SIGINT for itself; so they are taken back, and set `stop`.
- When it ends by itself it sends the process a SIGKILL ten minutes later; that is switched off.
- An error that outlasts its patience ends it; so it is given no end of patience, and started again all the same.

Not promised: that the deletion of a pool is told if it happened while there was no connection.
"""

import asyncio
import itertools
import logging
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from typing import Any

import kopf

from fencepost.api import names as wire
from fencepost.base.clock import Clock
from fencepost.kube.access import Access
from fencepost.kube.credentials import Bearer
from fencepost.kube.protocol import Obj

log = logging.getLogger(__name__)

RESTART_S = 5.0
BACKOFFS_S = (1.0, 2.0, 5.0)
"""Between tries of one request; the last one for ever."""


async def follow_pools(
    access: Access,
    clock: Clock,
    on_pool: Callable[[Obj], None],
    on_pool_gone: Callable[[str], None],
    ready: asyncio.Event,
    stop: asyncio.Event,
) -> None:
    """Tell of every WorkerPool that is there, changes or goes, until `stop` is set; SIGTERM and SIGINT set it too."""
    registry = _registry(access, clock, on_pool, on_pool_gone)
    while not stop.is_set():
        tasks = await kopf.spawn_tasks(
            registry=registry,
            settings=_settings(),
            standalone=True,
            clusterwide=True,
            ready_flag=ready,
            stop_flag=stop,
        )
        _take_signals_back(stop)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _end(tasks)
        if not stop.is_set():
            log.error("kopf has ended, it is started again in %.0f s", RESTART_S)
            await clock.sleep(RESTART_S)


def _take_signals_back(stop: asyncio.Event) -> None:
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)


async def _end(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            log.error("kopf: %r", outcome)


class _Patience:
    """How long to wait between tries, as often as it is asked."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain(BACKOFFS_S, itertools.repeat(BACKOFFS_S[-1]))


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.process.ultimate_exiting_timeout = None
    settings.networking.error_backoffs = _Patience()
    return settings


def _registry(
    access: Access, clock: Clock, on_pool: Callable[[Obj], None], on_pool_gone: Callable[[str], None]
) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()
    bearer = Bearer(access, clock)

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        """Asked for at the start, and whenever the server has refused what was given before."""
        bearer.doubt()
        return kopf.ConnectionInfo(
            server=access.server,
            ca_data=access.authority or None,
            insecure=not access.verify,
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
