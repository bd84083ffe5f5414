"""The only place that reads a clock.

Two clocks: the wall, for what people schedule and read; and a steady one, for how long something has lasted. The steady
clock goes on while the machine is suspended (CLOCK_BOOTTIME), as a lease runs out during a suspend too.

asyncio is imported when somebody sleeps: a command that only asks for the time would wait for it longest of all.
"""

import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """Something that is to happen later."""

    def cancel(self) -> object:
        """It does not happen any more."""
        ...


class Clock(Protocol):
    """Time as an argument."""

    def now_s(self) -> float:
        """Unix seconds on the wall clock; may jump."""
        ...

    def steady_s(self) -> float:
        """Seconds since some start; never jumps, counts suspends."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; returns at once for zero or less."""
        ...

    def call_later(self, seconds: float, act: Callable[[], None]) -> Timer:
        """Have the event loop do something, soon for zero or less: cheaper than a task that sleeps before it."""
        ...


STEADY_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The machine's own clocks."""

    def now_s(self) -> float:
        return time.time()

    def steady_s(self) -> float:
        return time.clock_gettime(STEADY_CLOCK)

    async def sleep(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(max(0.0, seconds))

    def call_later(self, seconds: float, act: Callable[[], None]) -> Timer:
        import asyncio

        return asyncio.get_running_loop().call_later(max(0.0, seconds), act)


class LoopClock:
    """The event loop's time, with a wall clock that starts at a given moment: for a loop whose time is virtual."""

    def __init__(self, start_s: float) -> None:
        import asyncio

        self._start_s = start_s
        self._loop_start_s = asyncio.get_running_loop().time()

    def now_s(self) -> float:
        return self._start_s + self.steady_s()

    def steady_s(self) -> float:
        import asyncio

        return asyncio.get_running_loop().time() - self._loop_start_s

    async def sleep(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(max(0.0, seconds))

    def call_later(self, seconds: float, act: Callable[[], None]) -> Timer:
        import asyncio

        return asyncio.get_running_loop().call_later(max(0.0, seconds), act)
