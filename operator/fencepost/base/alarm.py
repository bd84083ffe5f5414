"""Sleep until something has happened or a time has come, whichever is first.

The sleeper waits on one event that both the ring and a timer set: loops that lie down several times a second for as
long as the process lives should not make tasks for it.
"""

import asyncio

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
        if self._rung.is_set():
            await asyncio.sleep(0)  # whoever is rung again and again leaves room for others all the same
        else:
            timer = None if limit_s is None else self._clock.call_later(limit_s, self._rung.set)
            try:
                await self._rung.wait()
            finally:
                if timer is not None:
                    timer.cancel()
        self._rung.clear()
