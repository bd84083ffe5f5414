"""A slow look at every DAG that a new leader has taken on trust.

A leader that takes a shard over believes what the status of each valid DAG says of its next slot, so that a hundred
thousand of them cost it seconds. What an earlier leader has stored may be out of date all the same, without an edit
that would show: zone data has changed, or this operator is of another version. So each of them is read once, at a pace
that nobody feels.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable

from fencepost.base.clock import Clock
from fencepost.core.names import DagKey

PERIOD_S = 1.0
LOOKS_PER_PERIOD = 200
"""At a few tenths of a millisecond each: some percent of a core, a hundred thousand DAGs in eight minutes."""


class Audit:
    """DAGs that are still to be looked at, in the order in which they were taken up."""

    def __init__(self, clock: Clock, look: Callable[[DagKey], None]) -> None:
        self._clock = clock
        self._look = look
        self._pending: OrderedDict[DagKey, None] = OrderedDict()
        """Each once, however often it is taken up."""
        self._news = asyncio.Event()
        """Set while there is anything to look at."""

    def take_up(self, keys: Iterable[DagKey]) -> None:
        """These have been taken on trust."""
        self._pending.update(dict.fromkeys(keys))
        self._news.set()

    async def run(self) -> None:
        """Look at them, a few at a time, for ever."""
        while True:
            await self._news.wait()
            for _ in range(min(LOOKS_PER_PERIOD, len(self._pending))):
                self._look(self._pending.popitem(last=False)[0])
            if not self._pending:
                self._news.clear()
            await self._clock.sleep(PERIOD_S)
