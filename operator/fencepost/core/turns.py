"""Whose turn a free slot is: replicas share the workers of a pool with nobody between them.

It is a queue at a counter, with no numbers to draw: each replica sees the free slots, and knows roughly who else waits.
In its member Lease it tells of each pool which is the best of its jobs that wait for a slot: how high, and since when.
From that everybody works out alone who goes before whom:

- Whoever's best job is higher. At the same level, whoever's has waited longer by more than `AGE_GAP_S`.
- Among equals each slot has a home: the replica with the lowest hash of its name, the worker and the slot.

A slot is left alone for a while for each replica that goes before us, then it is ours to take; a replica that has
nothing waiting goes before nobody. So a higher job need not wait until its own replica's slots come free, leaders
rarely reach for the same slot, none starves for longer than it takes its jobs to become the oldest, and what a replica
tells that has died, or has been served since, costs a slot a few moments.

What it does not promise: that nobody else takes a slot at the same moment. What replicas tell is some seconds old.
Safety does not rest on it: the compare-and-swap on the worker's mailbox decides.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

AGE_GAP_S = 10.0
"""Below that two jobs of the same level count as of the same age: clocks differ, and what is told of others is old."""
PLACES_MAX = 3
"""A slot is left alone for so many others at most."""


class Backlog(NamedTuple):
    """The best of a replica's jobs that wait for a slot of a pool and could run."""

    level: int
    """Its priority, raised by waiting."""
    since_s: float
    """Unix seconds since which it waits, by that replica's clock."""


class Rivals(NamedTuple):
    """What the other replicas tell of one pool."""

    me: str = ""
    """Our own name among them."""
    others: Mapping[str, Backlog] = MappingProxyType({})
    """By name, of those that have jobs waiting."""


@dataclass(frozen=True, slots=True)
class Contest:
    """Who wants the slots of a pool as much as we or more."""

    me: str = ""
    ahead: int = 0
    """Replicas that go before us wherever a slot comes free."""
    equals: tuple[str, ...] = ()
    """Replicas with which we share them."""

    @property
    def alone(self) -> bool:
        """Every slot is ours as far as others are concerned."""
        return not self.ahead and not self.equals

    def place(self, worker: str, slot: int) -> int:
        """How many go before us for this slot of a worker."""
        ours = rank(self.me, f"{worker}/{slot}") if self.equals else b""
        return min(PLACES_MAX, self.ahead + sum(rank(each, f"{worker}/{slot}") < ours for each in self.equals))


@dataclass(frozen=True, slots=True)
class Turn:
    """A moment in a contest."""

    contest: Contest
    steady_s: float
    yield_s: float
    """How long a slot is left alone for everyone before us."""


NOBODY = Rivals()
ALONE = Turn(Contest(), 0.0, 0.0)


def enter(mine: Backlog, rivals: Rivals) -> Contest:
    """Where we stand with our best job among those of the others."""
    if not rivals.others:
        return ALONE.contest
    ahead = {name for name, theirs in rivals.others.items() if _goes_before(theirs, mine)}
    equals = {name for name, theirs in rivals.others.items() if name not in ahead and not _goes_before(mine, theirs)}
    return Contest(rivals.me, len(ahead), tuple(sorted(equals)))


class Standing:
    """Since when slots have stood free on each worker."""

    def __init__(self) -> None:
        self._since_s: dict[str, list[float]] = {}
        """By worker: since when there has been one free slot at least, two at least, and so on."""
        self._size: dict[str, int] = {}

    def seen(self, worker: str, size: int, free: int, steady_s: float) -> None:
        """So many slots of a worker stand free, whoever is on the way to them."""
        since_s = self._since_s.setdefault(worker, [])
        del since_s[max(0, free) :]
        since_s += [steady_s] * (free - len(since_s))
        self._size[worker] = size

    def gone(self, worker: str) -> None:
        """The worker takes nothing any more."""
        self._since_s.pop(worker, None)
        self._size.pop(worker, None)

    def free(self, worker: str) -> int:
        """How many there are."""
        return len(self._since_s[worker])

    def ours(self, worker: str, turn: Turn) -> int:
        """How many of them may be ours by now."""
        size = self._size[worker]
        return sum(
            turn.contest.place(worker, size - count) * turn.yield_s <= turn.steady_s - since_s
            for count, since_s in enumerate(self._since_s[worker], start=1)
        )


def _goes_before(one: Backlog, other: Backlog) -> bool:
    return one.level > other.level or (one.level == other.level and one.since_s < other.since_s - AGE_GAP_S)


def rank(replica: str, thing: str) -> bytes:
    """Where a thing stands in a replica's own order of such things; another replica has another. First is best."""
    return hashlib.blake2b(f"{replica}/{thing}".encode(), digest_size=8).digest()
