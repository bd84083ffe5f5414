"""Which finished runs of a DAG are kept, and until when.

A run is kept while it is among the latest of its sort (succeeded or not, backfilled or not) and has not been finished
for longer than the DAG's history lasts. Whichever limit is passed first, the run goes; but the latest run of a backfill
stays for a day whatever the limits are, as a backfill that is begun again goes on after it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

PROGRESS_KEPT_S = 24 * 3600.0
"""How long after its end the run that tells how far a backfill has come is kept."""


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """What is kept of a DAG's runs."""

    succeeded: int = 3
    failed: int = 10
    """Failed and Cancelled ones."""
    ttl_s: float | None = None
    """How long after its end a run is kept at most; None: as long as it is among the latest."""


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """A run that has finished."""

    run: T
    succeeded: bool
    finish_s: float
    backfilled: bool = False
    """Scheduled runs must not push those of a backfill out, nor the other way round."""

    @property
    def sort(self) -> tuple[bool, bool]:
        """Each sort is counted by itself."""
        return self.succeeded, self.backfilled


@dataclass(frozen=True, slots=True)
class HistoryPlan(Generic[T]):
    """What is to go."""

    surplus: Sequence[T]
    """Oldest first."""
    next_s: float | None
    """When the next one of those that are kept has been kept for long enough; None: no time sets an end to any."""


def plan_history(runs: Iterable[Ended[T]], limits: HistoryLimits, now_s: float) -> HistoryPlan[T]:
    """What the limits do not keep."""
    ordered = sorted(runs, key=lambda ended: ended.finish_s)
    over = Counter(ended.sort for ended in ordered)
    for succeeded, backfilled in over:
        over[succeeded, backfilled] -= limits.succeeded if succeeded else limits.failed
    surplus: list[T] = []
    next_s = None
    for ended in ordered:
        expired = limits.ttl_s is not None and ended.finish_s + limits.ttl_s <= now_s
        if over[ended.sort] > 0 or expired:
            surplus.append(ended.run)
        elif next_s is None and limits.ttl_s is not None:
            next_s = ended.finish_s + limits.ttl_s
        over[ended.sort] -= 1
    return HistoryPlan(surplus, next_s)


def progress_kept_for_s(slot_s: float, finish_s: float, others_s: Iterable[float], now_s: float) -> float:
    """How much longer a backfill's run is kept because no other run of it has a later slot; 0 where one has.

    `others_s`: the slots of the backfill's runs that are there to stay, in Unix seconds.
    """
    left_s = finish_s + PROGRESS_KEPT_S - now_s
    return left_s if left_s > 0 and not any(other_s > slot_s for other_s in others_s) else 0.0
