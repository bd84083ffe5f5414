"""Which slots of a schedule are due, and what becomes of each.

The question is never "which minute is it" but "which slots lie above the mark and not above now". The mark is the last
scheduled time whose fate is stored: fired, skipped or missed. It never falls, so a slot has one fate, whoever decides
it and however often the leader changes.

What a leader that was away finds due it runs, if it is no later than `LATENESS_MAX_S`; what is older is missed. Slots
from before the schedule was first seen in its present form never fire.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from fencepost.core.dag_spec import Concurrency

LATENESS_MAX_S = 300.0
"""How late a slot may still fire: long enough for any failover, too short for a day's worth of missed runs."""
MISSED_COUNTED_MAX = 100
"""Missed slots that are counted one by one; beyond them the rest is passed over in one step."""

NextSlot = Callable[[float], float | None]
"""The first slot strictly after a moment (Unix seconds), or None if there is none."""


@dataclass(frozen=True, slots=True)
class Fire:
    """Create the run of this slot; only when that is known to have succeeded may the mark pass it."""

    slot_s: float


@dataclass(frozen=True, slots=True)
class Skip:
    """Let this slot go, in the write that moves the mark to it."""

    slot_s: float
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """What is due of one DAG."""

    decision: Fire | Skip | None
    mark_s: float
    """The mark before the decision: slots up to it that were too late are missed in the write that stores it."""
    missed: int = 0
    next_s: float | None = None
    """When to look again, if nothing is due now; None: never."""


def plan_slot(
    next_slot: NextSlot,
    mark_s: float,
    policy: Concurrency,
    limit: int | None,
    active: int,
    now_s: float,
    deadline_s: float = LATENESS_MAX_S,
) -> SlotPlan:
    """The oldest due slot above the mark and its fate. `active` counts the DAG's runs that have not finished;
    `deadline_s` is how late a slot may fire."""
    missed = 0
    slot_s = next_slot(mark_s)
    oldest_s = now_s - deadline_s
    while slot_s is not None and slot_s < oldest_s:
        missed += 1
        # slots are whole seconds: one at `oldest_s` itself may still fire, so the leap ends just below it
        mark_s = slot_s if missed < MISSED_COUNTED_MAX else math.ceil(oldest_s) - 1.0
        slot_s = next_slot(mark_s)
    if slot_s is None or slot_s > now_s:
        return SlotPlan(None, mark_s, missed, slot_s)
    if limit is not None and active >= limit:
        verb = "is" if active == 1 else "are"
        message = f"{active} of {limit} runs {verb} under way; raise concurrency.limit or shorten the runs"
        return SlotPlan(Skip(slot_s, f"Concurrency{policy}", message), mark_s, missed)
    return SlotPlan(Fire(slot_s), mark_s, missed)
