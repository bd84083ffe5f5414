"""Objects that never change, read once and shared: however many jobs ask at a time, there is one request.

What is kept is bounded in number and in bytes; the least recently used goes first. A failure is kept for nobody but
those who are waiting for it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")

Read = Callable[[], Awaitable[tuple[Value, int]]]
"""Gives a value and its size in bytes."""


class SharedReads(Generic[Value]):
    """Values by key. Not for several threads or loops."""

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[str, tuple[Value, int]] = OrderedDict()
        self._reading: dict[str, asyncio.Task[Value]] = {}

    async def get(self, key: str, read: Read[Value]) -> Value:
        """The value of the key: kept, being read for another, or read now. Raises what `read` raises."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key][0]
        if key not in self._reading:
            task = self._reading[key] = asyncio.create_task(self._read(key, read))
            task.add_done_callback(lambda task: self._settle(key, task))
        # One who no longer waits must not take the answer from the others.
        return await asyncio.shield(self._reading[key])

    async def close(self) -> None:
        """End what is being read."""
        for task in self._reading.values():
            task.cancel()

    async def _read(self, key: str, read: Read[Value]) -> Value:
        value, size = await read()
        self._kept[key] = (value, size)
        self._bytes += size
        while len(self._kept) > self._count_max or (self._bytes > self._bytes_max and len(self._kept) > 1):
            _, (_, freed) = self._kept.popitem(last=False)
            self._bytes -= freed
        return value

    def _settle(self, key: str, task: asyncio.Task[Value]) -> None:
        del self._reading[key]
        if not task.cancelled():
            task.exception()  # seen here, in case that nobody waits for it any more
