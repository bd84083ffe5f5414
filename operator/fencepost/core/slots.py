"""The free slots of a pool's workers: which to give to the next job, and which to leave alone for now.

Slots lie on two shelves: those that any job may take, and those of the reserve. The worker with the most free ones
comes first, so load spreads; among those with as many each replica has an order of its own, so that two of them rarely
write to one mailbox at the same moment. A worker gets a few jobs in a row, so that one write of its mailbox carries
them, and those that end together are answered for in one as well.

A worker whose slots are another replica's turn is set aside, and costs nothing until its slots change, the contest is
another, or somebody says that it is time to look again.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence

from fencepost.core.turns import ALONE, Contest, Standing, Turn, rank

IN_A_ROW_PART = 4
"""A worker gets jobs in a row until it is behind the others by one slot in so many of its own."""


class _Shelf:
    """Free slots of one sort, by worker."""

    def __init__(self, rank: Callable[[str], bytes], sizes: Mapping[str, int]) -> None:
        self._rank = rank
        self._sizes = sizes
        self._last = ""
        self._free: dict[str, int] = {}
        self._by_free: dict[int, list[tuple[bytes, str]]] = {}
        """Workers with so many, by rank."""
        self.free = 0

    def of(self, worker: str) -> int:
        """How many are on the worker."""
        return self._free.get(worker, 0)

    def workers(self) -> Sequence[str]:
        """All that have one."""
        return tuple(self._free)

    def first(self) -> str:
        """The worker with the most, and the first of those by rank; or still the last one, if it is not behind by a
        row. There must be one."""
        most, free = max(self._by_free), self.of(self._last)
        if not free or most - free >= self._sizes[self._last] // IN_A_ROW_PART:
            self._last = self._by_free[most][0][1]
        return self._last

    def put(self, worker: str, free: int) -> None:
        """So many on this worker, which had none."""
        if free > 0:
            self._free[worker] = free
            self.free += free
            insort(self._by_free.setdefault(free, []), (self._rank(worker), worker))

    def pull(self, worker: str) -> int:
        """All that are on the worker, which has none any more."""
        free = self._free.pop(worker, 0)
        self.free -= free
        if free:
            alike = self._by_free[free]
            del alike[bisect_left(alike, (self._rank(worker), worker))]
            if not alike:
                del self._by_free[free]
        return free


class Slots:
    """Free slots of each live worker."""

    def __init__(self, replica: str = "") -> None:
        """`replica`: whose order of workers it is."""
        self._replica = replica
        self._size: dict[str, int] = {}
        self._reserved: dict[str, int] = {}
        self._ranks: dict[str, bytes] = {}
        self._open, self._kept, self._open_aside, self._kept_aside = (
            _Shelf(self._ranks.__getitem__, self._size) for _ in range(4)
        )
        self._standing = Standing()
        self._contest: Contest = ALONE.contest
        """In which they were set aside."""
        self.live = 0
        """Slots of all live workers, taken or not."""
        self.reserved = 0
        """Of those, the ones kept for critical jobs, taken or not."""

    @property
    def free(self) -> int:
        """All that are free, whoever may take them."""
        return self.open + self._kept.free + self._kept_aside.free

    @property
    def open(self) -> int:
        """Those that any job may take."""
        return self._open.free + self._open_aside.free

    @property
    def aside(self) -> int:
        """Those that are left alone for now."""
        return self._open_aside.free + self._kept_aside.free

    def set(
        self,
        worker: str,
        size: int,
        free: int,
        reserved: int = 0,
        kept: int = 0,
        ours: int = 0,
        steady_s: float = 0.0,
    ) -> None:
        """The worker lives and has this many slots, `reserved` of them for critical jobs. `free` of them are free
        (below zero counts as none), `kept` of those for critical jobs alone. Besides those it shows `ours` as free, to
        which jobs of ours are on their way."""
        self._clear(worker)
        if worker not in self._ranks:
            self._ranks[worker] = rank(self._replica, worker)
        self._size[worker], self._reserved[worker] = size, reserved
        self.live += size
        self.reserved += reserved
        self._open.put(worker, free - kept)
        self._kept.put(worker, min(free, kept))
        self._standing.seen(worker, size, free + ours, steady_s)

    def drop(self, worker: str) -> None:
        """The worker takes nothing any more."""
        self._clear(worker)
        self._ranks.pop(worker, None)
        self._standing.gone(worker)

    def take(self, turn: Turn = ALONE, *, critical: bool = False) -> str | None:
        """The worker to give the next job to, with one free slot fewer from now on; None when there is none for it."""
        if turn.contest != self._contest:
            self.look_again()
            self._contest = turn.contest
        for shelf in (self._kept, self._open) if critical else (self._open,):
            while shelf.free:
                worker = shelf.first()
                if self._is_ours(worker, turn):
                    shelf.put(worker, shelf.pull(worker) - 1)
                    return worker
                self._open_aside.put(worker, self._open.pull(worker))
                self._kept_aside.put(worker, self._kept.pull(worker))
        return None

    def look_again(self) -> None:
        """What was left alone may be ours by now."""
        for shelf, aside in ((self._open, self._open_aside), (self._kept, self._kept_aside)):
            for worker in aside.workers():
                shelf.put(worker, aside.pull(worker))

    def __len__(self) -> int:
        return len(self._size)

    def _is_ours(self, worker: str, turn: Turn) -> bool:
        """Whether we may take one more slot of the worker."""
        if turn.contest.alone:
            return True
        on_the_way = self._standing.free(worker) - self._open.of(worker) - self._kept.of(worker)
        return on_the_way < self._standing.ours(worker, turn)

    def _clear(self, worker: str) -> None:
        self.live -= self._size.pop(worker, 0)
        self.reserved -= self._reserved.pop(worker, 0)
        for shelf in (self._open, self._kept, self._open_aside, self._kept_aside):
            shelf.pull(worker)
