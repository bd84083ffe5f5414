"""At most one write in flight for each object; whatever changes meanwhile goes into the next one.

A writer is touched, never handed a write: what to write is planned when the write starts, from all that is known then.
So the busier the API server, the more a write carries, and load sheds itself. A touch waits for a short window before
its write starts, unless it is urgent; the window follows the server: short when it answers quickly, up to a second when
it is slow or says that it has too much to do.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from enum import Enum

log = logging.getLogger(__name__)

WINDOW_MAX_S = 1.0
IN_FLIGHT_MAX = 128
"""Writes under way at the same time; more wait their turn, so that a burst does not become a storm."""
BUSY_TURNS_PER_S = 50.0
"""From here on the API server is worth sparing what can wait."""
RATE_PERIOD_S = 5.0
RETRY_FIRST_S = 0.2
RETRY_MAX_S = 10.0


class Next(Enum):
    """What a turn of a writer asks for."""

    REST = "Rest"
    """Nothing more until it is touched again."""
    AGAIN = "Again"
    """Another turn soon, as the object has changed under it."""
    RETRY = "Retry"
    """Another turn after a back-off that grows: no answer, or a server that has too much to do."""


Turn = Callable[[], Awaitable[Next | float]]
"""A number asks for another turn after so many seconds, or when touched, whichever comes first."""


@dataclass(slots=True)
class _Writer:
    turn: Turn
    timer: asyncio.TimerHandle | None = None
    due_s: float = 0.0
    running: bool = False
    again_s: float = math.inf
    """How long after the turn under way the next one is wanted, by who has touched it meanwhile."""
    failures: int = 0
    """Turns in a row that asked for a back-off."""


class Writers:
    """One writer for each object that has something to write, made when touched and gone when it rests."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._latency_s = 0.0
        self._recent = 0.0
        self._recent_at_s = 0.0
        self._writers: dict[Hashable, _Writer] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_flight = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._closed = False

    def touch(self, key: Hashable, turn: Turn, *, urgent: bool = False, after_s: float | None = None) -> None:
        """Something has changed for this object. Urgent: no window. `after_s`: no sooner than that, for what can
        wait for company; an earlier touch is not put off by it. A back-off is cut short by what is urgent alone."""
        if self._closed:
            return
        writer = self._writers.get(key)
        if writer is None:
            writer = self._writers[key] = _Writer(turn)
        delay_s = 0.0 if urgent else self.window_s() if after_s is None else after_s
        if writer.running:
            writer.again_s = min(writer.again_s, delay_s)
        elif urgent or not writer.failures:
            self._schedule(key, writer, delay_s)

    def window_s(self) -> float:
        """How long a touch waits for company now."""
        return min(WINDOW_MAX_S, max(self._window_s, self._latency_s))

    def note_latency(self, seconds: float) -> None:
        """How long the server took for one write; the window follows a slow average."""
        self._latency_s += (seconds - self._latency_s) / 16

    def patience_s(self, idle_s: float, busy_s: float) -> float:
        """How long what only people look at may wait for company: longer, the more is written."""
        share = min(1.0, self._rate() / BUSY_TURNS_PER_S)
        return idle_s + share * (busy_s - idle_s)

    async def close(self) -> None:
        """Start nothing more, and wait for what is in flight."""
        self._closed = True
        for writer in self._writers.values():
            if writer.timer:
                writer.timer.cancel()
        await self.settle()

    async def settle(self) -> None:
        """Wait for the turns that are under way now."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    def _rate(self) -> float:
        """Turns a second, over the last few seconds."""
        now_s = asyncio.get_running_loop().time()
        self._recent *= math.exp((self._recent_at_s - now_s) / RATE_PERIOD_S)
        self._recent_at_s = now_s
        return self._recent / RATE_PERIOD_S

    def _schedule(self, key: Hashable, writer: _Writer, delay_s: float) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time() + delay_s
        if writer.timer is not None:
            if writer.due_s <= due_s:
                return
            writer.timer.cancel()
        writer.due_s = due_s
        writer.timer = loop.call_at(due_s, self._start, key, writer)

    def _start(self, key: Hashable, writer: _Writer) -> None:
        writer.timer = None
        writer.running = True
        task = asyncio.get_running_loop().create_task(self._take_turn(key, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take_turn(self, key: Hashable, writer: _Writer) -> None:
        async with self._in_flight:
            if self._closed:
                return
            writer.again_s = math.inf
            wanted: Next | float
            try:
                wanted = await writer.turn()
            except Exception:
                log.exception("a turn of the writer of %s failed; it is taken again after a pause", key)
                wanted = Next.RETRY
        self._recent = self._rate() * RATE_PERIOD_S + 1
        writer.running = False
        writer.failures = writer.failures + 1 if wanted is Next.RETRY else 0
        if self._closed:
            return
        match wanted:
            case Next.RETRY:
                delay_s = min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(writer.failures - 1, 10))
            case Next.AGAIN:
                delay_s = 0.0
            case Next.REST:
                delay_s = writer.again_s
            case _:
                delay_s = min(wanted, writer.again_s)
        if delay_s == math.inf:
            del self._writers[key]
        else:
            self._schedule(key, writer, delay_s)
