"""Slots kept for critical jobs: how many, and on which workers.

Every worker keeps its own share of a pool's reserve, rounded up or down; so the reserve is spread as evenly as whole
slots allow, and a lost worker takes no more than its part of it along. Who is rounded down is decided for all workers
together and marked on each of them (`Worker.spec.reservedSlots`). The mark stands in the object that each delivery to
the worker is a compare-and-swap on, so it holds against leaders whose caches lag.

A worker without a mark counts as rounded up. All leaders agree on that whatever they know of other workers, it keeps
too much rather than too little while workers come, and many pools need no mark at all.

What this does not promise: that a slot is free. A reserve keeps jobs from starting; it stops none. Where a mark is
raised on a full worker, or a worker is lost, the reserve is whole again when so many other jobs have ended.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Marked:
    """A worker that takes jobs: its slots, and how many of them it is marked to keep (None: it has no mark)."""

    slots: int
    mark: int | None


def reserve_size(percent: int, live: int) -> int:
    """Slots that a pool of so many live ones keeps: the floor of the share, and never all of them."""
    return max(0, min(percent * live // 100, live - 1))


def kept_slots(percent: int, worker: Marked) -> int:
    """Slots that a worker keeps for critical jobs now. Without a reserve a mark left from an earlier one is void."""
    if not percent:
        return 0
    return _most(percent, worker.slots) if worker.mark is None else min(worker.mark, worker.slots)


def plan_marks(percent: int, workers: Mapping[str, Marked]) -> dict[str, int]:
    """The marks that have to change so that the workers together keep the pool's reserve exactly; as few as can be.

    Rounded down first are those without a mark, which are those that have just come.
    """
    if not percent:
        return {}
    kept = {name: kept_slots(percent, worker) for name, worker in workers.items()}
    wanted = {
        name: min(max(kept[name], _least(percent, worker.slots)), _most(percent, worker.slots))
        for name, worker in workers.items()
    }
    missing = reserve_size(percent, sum(worker.slots for worker in workers.values())) - sum(wanted.values())
    if missing > 0:
        room = sorted(name for name in wanted if wanted[name] < _most(percent, workers[name].slots))
    else:
        over = [name for name in wanted if wanted[name] > _least(percent, workers[name].slots)]
        room = sorted(over, key=lambda name: (workers[name].mark is not None, name))
    for name in room[: abs(missing)]:
        wanted[name] += 1 if missing > 0 else -1
    return {name: mark for name, mark in wanted.items() if mark != kept[name]}


def _least(percent: int, slots: int) -> int:
    """A worker's own share rounded down; of a share of 100% one slot less."""
    return min(percent * slots // 100, slots - 1)


def _most(percent: int, slots: int) -> int:
    """A worker's own share rounded up."""
    return -(-percent * slots // 100)
