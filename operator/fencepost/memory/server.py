"""The Kubernetes API in memory, as far as this project uses it: versions, conflicts, watches, laws, and faults.

Its trick: between two awaits everything is done, so a request is carried out or not begun. Each one gives way to other
tasks once before it is carried out, as no answer over a network is there at once; beyond that it waits only where a
fault says so, and always by the clock it was given: under a clock whose time is virtual a day passes in no time.

Not promised: patches, schemas beyond `memory.laws`, defaults, managedFields beyond the time of a DAG's last edit, what
is special about built-in kinds, and that namespaces exist.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeVar

from fencepost.api.names import SYSTEM_NAMESPACE_DEFAULT, Kind
from fencepost.base.clock import Clock
from fencepost.kube.protocol import Obj, OnDate, WatchEvent
from fencepost.memory.client import EngineApi
from fencepost.memory.engine import Engine
from fencepost.memory.faults import Fault, Faults, Request
from fencepost.memory.identity import Identity
from fencepost.memory.store import CHANGES_MAX_DEFAULT
from fencepost.memory.watches import Watch

BOOKMARK_PERIOD_S = 60.0

T = TypeVar("T")


class MemoryServer:
    """One API server, to be used from one event loop. `faults` may be set and changed at any time."""

    def __init__(
        self,
        clock: Clock,
        *,
        system_namespace: str = SYSTEM_NAMESPACE_DEFAULT,
        faults: Faults | None = None,
        changes_max: int = CHANGES_MAX_DEFAULT,
        salt: str = "",
    ) -> None:
        """`changes_max`: how many changes of each kind are kept to watch from; from before them it is 410. `salt`:
        servers with different ones give different UIDs and names, those without the same each time."""
        self.clock = clock
        self.engine = Engine(clock, system_namespace, changes_max, salt)
        self.faults = faults
        self._under_way: set[asyncio.Task[Any]] = set()

    def client(self, identity: Identity, on_date: OnDate | None = None) -> "MemoryApi":
        """The server as this identity sees it. Its clients share its steady clock; their wall clocks may differ."""
        return MemoryApi(self, identity, on_date)

    def plant(self, kind: Kind, obj: Obj) -> None:
        """Store an object past all rights and laws: as if it had been there before them, or had been garbled."""
        self.engine.plant(kind, obj)

    async def perform(self, request: Request, act: Callable[[], T]) -> T:
        """Carry out a request, with whatever goes wrong on the way."""
        await self.clock.sleep(0)
        fault = self.faults(request) if self.faults else None
        if fault is None:
            return act()
        # What is on its way arrives, even when its sender is no longer there to hear the answer.
        task = asyncio.ensure_future(self._perform_under(fault, act))
        self._under_way.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    async def _perform_under(self, fault: Fault, act: Callable[[], T]) -> T:
        await self.clock.sleep(fault.delay_s)
        if fault.error is not None and not fault.carried_out:
            raise fault.error
        answer = act()
        await self.clock.sleep(fault.answer_delay_s)
        if fault.error is not None:
            raise fault.error
        return answer

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # seen, even where nobody waits for it any more


class MemoryApi(EngineApi):
    """`kube.protocol.Api` on a server in memory, as one identity."""

    def __init__(self, server: MemoryServer, identity: Identity, on_date: OnDate | None) -> None:
        super().__init__(server.engine, identity)
        self._server = server
        self._on_date = on_date

    async def watch(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        name: str = "",
        label_selector: str = "",
        resource_version: str,
        timeout_s: float = 300.0,
    ) -> AsyncGenerator[WatchEvent, None]:
        request = Request(self._identity, "watch", kind, namespace or "", name)
        watch = Watch(namespace or "", name, label_selector)
        await self._perform(request, lambda: self._engine.subscribe(self._identity, kind, watch, resource_version))
        keeper = asyncio.ensure_future(self._keep(watch, timeout_s))
        try:
            while (pending := await watch.next()) is not None:
                event = pending.event(kind)
                yield await self._deliver(event, kind)
        finally:
            keeper.cancel()
            self._engine.unsubscribe(kind, watch)

    async def _perform(self, request: Request, act: Callable[[], T]) -> T:
        sent_s = self._server.clock.steady_s()
        date_s: float | None = None

        def dated() -> T:
            nonlocal date_s
            date_s = float(int(self._server.clock.now_s()))
            return act()

        try:
            return await self._server.perform(request, dated)
        finally:
            if self._on_date is not None and date_s is not None:
                self._on_date(date_s, sent_s, self._server.clock.steady_s())

    async def _keep(self, watch: Watch, timeout_s: float) -> None:
        """Send bookmarks, and end the watch at its time."""
        left_s = timeout_s
        while left_s > 0:
            await self._server.clock.sleep(min(BOOKMARK_PERIOD_S, left_s))
            left_s -= BOOKMARK_PERIOD_S
            watch.offer_bookmark(self._engine.version)
        watch.end()

    async def _deliver(self, event: WatchEvent, kind: Kind) -> WatchEvent:
        if self._server.faults is None:
            return event
        metadata = event.object["metadata"]
        fault = self._server.faults(
            Request(self._identity, "event", kind, metadata.get("namespace", ""), metadata.get("name", ""))
        )
        if fault is not None:
            await self._server.clock.sleep(fault.delay_s)
            if fault.error is not None:
                raise fault.error
        return event
