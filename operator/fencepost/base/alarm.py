"""Sleep until something has happened or a time has come, whichever is first.

The sleeper waits on one future that both the ring and a timer of the event loop resolve: loops that lie down several
times a second for as long as the process lives should not make tasks for it.
"""

import asyncio


class Alarm:
    """One sleeper, many who may wake it. Rings that come while it is awake are kept, as one."""

    def __init__(self) -> None:
        self._rung = False
        self._sleeper: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake the sleeper, now or the moment it lies down."""
        self._rung = True
        if self._sleeper is not None:
            _wake(self._sleeper)

    async def wait(self, limit_s: float | None = None) -> None:
        """Until it rings, or for `limit_s` seconds; None: no limit."""
        if self._rung:
            self._rung = False
            await asyncio.sleep(0)  # whoever is rung again and again leaves room for others all the same
            return
        loop = asyncio.get_running_loop()
        self._sleeper = loop.create_future()
        timer = None if limit_s is None else loop.call_later(limit_s, _wake, self._sleeper)
        try:
            await self._sleeper
        finally:
            self._sleeper = None
            if timer is not None:
                timer.cancel()
        self._rung = False


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
