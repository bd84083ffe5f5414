"""What is to happen at some time, soonest first; what has become void is swept out before it outnumbers what counts.

Entries are cheap to add and are not looked for when they become void: a job of a second may bring a deadline of a day.
So whenever there are twice as many as the last sweep has left, all are asked whether they still count. That costs each
entry a few questions at most, and the agenda stays within twice of what counts and a few more.
"""

import heapq
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")

UNSWEPT_MIN = 1000
"""So many are never worth a sweep."""


class Agenda(Generic[Item]):
    """Items by time, on whichever clock its owner goes by. Items are hashable, and those of one time comparable."""

    def __init__(self, counts: Callable[[float, Item], bool]) -> None:
        """`counts`: whether an entry still does."""
        self._counts = counts
        self._entries: list[tuple[float, Item]] = []
        """A heap."""
        self._sweep_at = UNSWEPT_MIN

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, at_s: float, item: Item) -> bool:
        """This is to happen then; whether before all else."""
        if len(self._entries) >= self._sweep_at:
            self._sweep()
        heapq.heappush(self._entries, (at_s, item))
        return self._entries[0] == (at_s, item)

    def next_s(self) -> float | None:
        """When the next one is to happen, void or not."""
        return self._entries[0][0] if self._entries else None

    def take(self, now_s: float) -> list[tuple[float, Item]]:
        """Those whose time has come and that count."""
        taken = []
        while self._entries and self._entries[0][0] <= now_s:
            taken.append(heapq.heappop(self._entries))
        return [entry for entry in taken if self._counts(*entry)]

    def _sweep(self) -> None:
        self._entries = [entry for entry in set(self._entries) if self._counts(*entry)]
        heapq.heapify(self._entries)
        self._sweep_at = max(UNSWEPT_MIN, 2 * len(self._entries))
