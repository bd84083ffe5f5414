"""Sleep until something has happened or a time has come, whichever is first."""

import asyncio
from typing import Any

from fencepost.base.clock import Clock


class Alarm:
    """One sleeper, many who may wake it. Rings that come while it is awake are kept, as one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake the sleeper, now or the moment it lies down."""
        self._rung.set()

    async def wait(self, limit_s: float | None = None) -> None:
        """Until it rings, or for `limit_s` seconds; None: no limit."""
        waiters: set[asyncio.Future[Any]] = {asyncio.ensure_future(self._rung.wait())}
        if limit_s is not None:
            waiters.add(asyncio.ensure_future(self._clock.sleep(limit_s)))
        try:
            await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiters:
                waiter.cancel()
        self._rung.clear()
