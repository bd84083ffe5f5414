"""Requests, answers and watches on their way between machines and the API server in memory.

The server's engine has no waiting in it: a request is carried out at the moment it arrives, and what is on its way
arrives whatever has become of its sender. Everything that can go wrong with one request is decided when it is sent, and
is one `Fate`. A watch is a connection whose events stay in order, come late by what its link says, and are lost only
with the connection.

What a client of ours does by itself is done here too: it gives up on a request after 30 seconds and on a watch that has
been silent for 75.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from fencepost.api.names import Kind
from fencepost.kube.errors import ApiError, ConnectionLostError, UnreachableError
from fencepost.kube.protocol import WatchEvent
from fencepost.memory.client import EngineApi
from fencepost.memory.engine import Engine
from fencepost.memory.faults import Request
from fencepost.memory.identity import Identity
from fencepost.memory.watches import Pending, Watch
from tests.unit.sim.virtual import Machine, VirtualLoop

T = TypeVar("T")
OnDate = Callable[[float, float, float], None]
"""Told the Date of an answer in Unix seconds, and when it was asked for and heard, by the steady clock."""

REQUEST_TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 5.0
RESEND_S: Final = 0.5
STALE_S: Final = 10.0
WATCH_SILENCE_MAX_S: Final = 75.0
BOOKMARK_PERIOD_S: Final = 60.0
WRITES: Final = frozenset({"create", "update", "delete"})


class Fate(NamedTuple):
    """What becomes of one request."""

    there_s: float
    """How long it is on its way."""
    back_s: float
    """How long its answer is."""
    error: ApiError | None = None
    """Instead of the answer."""
    carried_out: bool = True
    """If not, it never arrives, or is refused on arrival."""


@dataclass
class Link:
    """How things stand between one machine and the API server."""

    cut: bool = False
    """Nothing gets through in either direction, and nothing says so: packets are lost."""
    cut_at_s: float = 0.0
    """Connections that were open then are tried for a while before new ones are."""
    refused: bool = False
    """Connections are refused at once."""
    deaf: bool = False
    """What is sent arrives; no answer and no event comes back."""
    event_lag_s: float = 0.0
    """Events come so much later."""
    lags_s: dict[Kind, float] = field(default_factory=dict)
    """Those of some kinds do so besides."""
    bookmarks: bool = True
    connections: "dict[Connection, None]" = field(default_factory=dict)


class Judge(Protocol):
    """Decides what becomes of requests, and hears of everything that arrives."""

    def fate(self, machine: Machine, request: Request) -> Fate:
        """Of a request that is about to be sent, over a link that carries it."""
        ...

    def sent(self, machine: Machine, request: Request) -> None:
        """A machine sends something; it may be dead after this call."""
        ...

    def arrived(self, machine: Machine, request: Request, error: ApiError | None) -> None:
        """The server has answered; the machine may be dead after this call."""
        ...


class Network:
    """All links to one API server."""

    def __init__(self, loop: VirtualLoop, engine: Engine, judge: Judge) -> None:
        self.loop = loop
        self.engine = engine
        self.judge = judge
        self.links: dict[Machine, Link] = {}
        self.sender: tuple[str, Request, float] | None = None
        """On whose behalf the engine is at work, and how wrong the sender's wall clock was when it sent this."""

    def client(self, machine: Machine, identity: Identity, on_date: OnDate | None = None) -> "SimApi":
        """The API server as a program on this machine sees it."""
        self.links.setdefault(machine, Link())
        return SimApi(self, machine, identity, on_date)

    def cut_watches(self, machine: Machine, error: ApiError | None) -> None:
        """Every watch of the machine breaks, or ends silently."""
        for connection in list(self.links[machine].connections):
            connection.hang_up(error)

    def hang_up(self, machine: Machine) -> None:
        """The machine is gone: its connections are closed."""
        for connection in list(self.links[machine].connections):
            connection.close()

    async def call(self, machine: Machine, request: Request, act: Callable[[], T]) -> T:
        """One request of a client, from its sending to its answer."""
        loop, link = self.loop, self.links[machine]
        answer: asyncio.Future[T] = asyncio.Future(loop=loop)
        self.judge.sent(machine, request)
        if link.refused:
            refused = UnreachableError(f"{_what(request)}: connection refused")
            loop.after(0.001, _settle, answer, None, refused)
        elif link.cut:
            stale = loop.now_s - link.cut_at_s < STALE_S
            what = _what(request)
            error = ConnectionLostError(f"{what}: lost") if stale else UnreachableError(f"{what}: no route to host")
            loop.after(REQUEST_TIMEOUT_S if stale else CONNECT_TIMEOUT_S, _settle, answer, None, error)
        else:
            fate = self.judge.fate(machine, request)
            loop.after(fate.there_s, self._arrive, machine, request, act, answer, fate, machine.wall_error_s)
            if fate.there_s + fate.back_s >= REQUEST_TIMEOUT_S:
                late = ConnectionLostError(f"{_what(request)}: no answer within {REQUEST_TIMEOUT_S:g} s")
                loop.after(REQUEST_TIMEOUT_S, _settle, answer, None, late)
        return await answer

    def _arrive(
        self,
        machine: Machine,
        request: Request,
        act: Callable[[], Any],
        answer: "asyncio.Future[Any]",
        fate: Fate,
        clock_error_s: float,
    ) -> None:
        result, error = None, None if fate.carried_out else fate.error
        link = self.links[machine]
        if link.cut:
            fate, error = Fate(0.0, REQUEST_TIMEOUT_S - fate.there_s), ConnectionLostError("lost on the way")
        if error is None:
            self.sender = (machine.name, request, clock_error_s)
            try:
                result = act()
            except ApiError as refusal:
                error = refusal
            finally:
                self.sender = None
        self.judge.arrived(machine, request, error)
        if isinstance(result, Connection) and (link.deaf or fate.error or machine.dead):
            result.close()
        if link.deaf:
            late = ConnectionLostError(f"no answer within {REQUEST_TIMEOUT_S:g} s")
            self.loop.after(REQUEST_TIMEOUT_S - fate.there_s, _settle, answer, None, late)
        else:
            self.loop.after(fate.back_s, _settle, answer, result, error or fate.error)


def _what(request: Request) -> str:
    return f"{request.verb} {request.kind} {request.name}"


def _settle(answer: "asyncio.Future[Any]", result: Any, error: ApiError | None) -> None:
    if answer.done():
        if isinstance(result, Connection):
            result.close()
    elif error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)


class Connection(Watch):
    """One watch: the server's side of it, the way, and what has arrived."""

    def __init__(
        self, network: Network, machine: Machine, kind: Kind, where: str, name: str, selector: str, timeout_s: float
    ) -> None:
        super().__init__(where, name, selector)
        self._network = network
        self._loop = network.loop
        self._kind = kind
        self._way: deque[tuple[float, Pending]] = deque()
        """Sent, with when it arrives."""
        self._arrived: deque[Pending | ApiError | None] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._last_at_s = 0.0
        """When the last event sent arrives."""
        self._heard_at_s = self._loop.now_s
        self._closed = False
        self._link = network.links[machine]
        self._link.connections[self] = None
        self._ends_at_s = self._loop.now_s + timeout_s
        self._loop.after(BOOKMARK_PERIOD_S, self._bookmark)

    async def receive(self) -> WatchEvent | None:
        """The next event; None at the end. Raises what breaks the connection."""
        while not self._arrived:
            self._waiter = asyncio.Future(loop=self._loop)
            try:
                await self._waiter
            finally:
                self._waiter = None
        item = self._arrived.popleft()
        if isinstance(item, ApiError):
            raise item
        return None if item is None else item.event(self._kind)

    def hang_up(self, error: ApiError | None) -> None:
        """It breaks, or ends; what has arrived can still be read."""
        if not self._closed:
            self.close()
            self._take(error)

    def close(self) -> None:
        """Nothing more is sent."""
        if not self._closed:
            self._closed = True
            self._link.connections.pop(self, None)
            self._network.engine.unsubscribe(self._kind, self)

    def _put(self, pending: Pending) -> None:
        """The server's side: events leave as they happen, and arrive in order."""
        lag_s = self._link.event_lag_s + self._link.lags_s.get(self._kind, 0.0)
        self._last_at_s = max(self._last_at_s, self._loop.now_s + 0.001 + lag_s)
        self._way.append((self._last_at_s, pending))
        if len(self._way) == 1:
            self._loop.at(self._last_at_s, self._deliver)

    def _deliver(self) -> None:
        """What cannot get through now is sent again until it does."""
        if self._closed or not self._way:
            return
        if self._link.cut or self._link.deaf or self._link.refused:
            self._loop.after(RESEND_S, self._deliver)
            return
        now_s = self._heard_at_s = self._loop.now_s
        while self._way and self._way[0][0] <= now_s:
            self._take(self._way.popleft()[1])
        if self._way:
            self._loop.at(self._way[0][0], self._deliver)

    def _take(self, item: Pending | ApiError | None) -> None:
        self._arrived.append(item)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _bookmark(self) -> None:
        if self._closed:
            return
        if self._loop.now_s >= self._ends_at_s or self._loop.now_s - self._heard_at_s > WATCH_SILENCE_MAX_S:
            self.hang_up(None)
            return
        if self._link.bookmarks:
            self.offer_bookmark(self._network.engine.version)
        self._loop.after(BOOKMARK_PERIOD_S, self._bookmark)


class SimApi(EngineApi):
    """`kube.protocol.Api` over the network, as one identity on one machine."""

    def __init__(self, network: Network, machine: Machine, identity: Identity, on_date: OnDate | None) -> None:
        super().__init__(network.engine, identity)
        self._network = network
        self._machine = machine
        self._on_date = on_date
        self._date_seen_s = 0

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
        where = namespace or ""

        def act() -> Connection:
            connection = Connection(self._network, self._machine, kind, where, name, label_selector, timeout_s)
            try:
                self._engine.subscribe(self._identity, kind, connection, resource_version)
            except ApiError:
                connection.close()
                raise
            return connection

        connection = await self._perform(Request(self._identity, "watch", kind, where, name), act)
        try:
            while (event := await connection.receive()) is not None:
                yield event
        finally:
            connection.close()

    async def _perform(self, request: Request, act: Callable[[], T]) -> T:
        if self._on_date is None:
            return await self._network.call(self._machine, request, act)
        sent_s, date_s = self._machine.steady_s(), 0

        def dated() -> T:
            nonlocal date_s
            date_s = self._network.loop.begins_s + int(self._network.loop.now_s)
            return act()

        try:
            answer = await self._network.call(self._machine, request, dated)
        except ApiError as error:
            if error.status:
                self._note_date(date_s, sent_s)
            raise
        self._note_date(date_s, sent_s)
        return answer

    def _note_date(self, date_s: int, sent_s: float) -> None:
        """The Date of an answer: whole seconds, of which the first answer counts, as in the client of production."""
        if date_s > 0 and date_s != self._date_seen_s and self._on_date is not None:
            self._date_seen_s = date_s
            self._on_date(date_s, sent_s, self._machine.steady_s())
