"""Which DAGs are looked at: when their next slot comes, those of a herd one after another, the most urgent first.

Twenty thousand DAGs may be due in the same second. Each look can cost a create, and creates that all start at once
would stand before every lease and every fold of the runs that are under way. So only so many looks are taken at the
same time; the rest stands in a row by priority, then by how long it has been due. How fast the row moves is up to the
API server: a look ends when its create has been answered.
"""

import asyncio
import heapq
from collections.abc import Callable

from fencepost.core.names import DagKey
from fencepost.loops.agenda import Agenda

LOOKS_MAX = 32
"""Looks under way at the same time: a quarter of all writes that may be in flight."""


class DueQueue:
    """The DAGs that wait for their next slot, and those that are to be looked at now."""

    def __init__(self, look: Callable[[DagKey, bool], None], counts: Callable[[float, DagKey], bool]) -> None:
        """`look` starts a look at a DAG, at whose end `done` is called; urgent looks do not wait for a back-off.
        `counts`: whether a DAG's next slot still comes then."""
        self._look = look
        self._coming = Agenda[DagKey](counts)
        self._row: list[tuple[int, float, DagKey]] = []
        """A heap."""
        self._in_row: dict[DagKey, bool] = {}
        """Those in the row, and whether they are urgent."""
        self._under_way: set[DagKey] = set()
        self._moving = False

    def expect(self, key: DagKey, at_s: float) -> bool:
        """The DAG's next slot comes then; whether that is sooner than what has been expected."""
        return self._coming.add(at_s, key)

    def next_s(self) -> float | None:
        """When the next slot comes that has not been taken."""
        return self._coming.next_s()

    def take(self, now_s: float) -> list[tuple[float, DagKey]]:
        """The slots that have come."""
        return self._coming.take(now_s)

    def ask(self, key: DagKey, priority: int, since_s: float, *, urgent: bool) -> None:
        """Look at this DAG when its turn comes. Higher priorities first."""
        if key not in self._in_row:
            heapq.heappush(self._row, (-priority, since_s, key))
        self._in_row[key] = urgent or self._in_row.get(key, False)
        self._move_soon()

    def done(self, key: DagKey) -> None:
        """A look has ended, however it was started."""
        self._under_way.discard(key)
        self._move_soon()

    def _move_soon(self) -> None:
        """Once everybody who is due now stands in the row."""
        if not self._moving:
            self._moving = True
            asyncio.get_running_loop().call_soon(self._move)

    def _move(self) -> None:
        self._moving = False
        while self._row and len(self._under_way) < LOOKS_MAX:
            _, _, key = heapq.heappop(self._row)
            self._under_way.add(key)
            self._look(key, self._in_row.pop(key))
