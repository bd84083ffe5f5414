"""Which slots of a schedule are due, and what becomes of each.

The question is never "which minute is it" but "which slots lie above the mark and not above now". The mark is the last
scheduled time whose fate is stored: fired, late, skipped or missed. It never falls, so a slot has one fate, whoever
decides it and however often the leader changes.

Which of several due slots are run, oldest first, is the policy of catch-up; the rest is missed. The work is bounded by
what may be run, not by how long nobody was there: slots are looked at one by one up to a limit, and beyond it from now
backwards. So of very many the count says "at least".

Slots from before the schedule was first seen in its present form, or from a time of suspension, lie below the mark that
comes in here, unless the policy asks for them (`floor_s`).
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from fencepost.core.concurrency import Concurrency, Limits, refuse_slot
from fencepost.core.schedule_spec import CATCH_UP_MAX, CatchUp, ScheduleSpec

LATENESS_MAX_S = 300.0
"""How late a slot may still fire if nothing else is asked for: long enough for any failover, too short for a day's
worth of missed runs."""
LATE_AFTER_S = 60.0
"""A run made so long after its time is late: the scheduler's promise is to start jobs within the minute."""
MISSED_COUNTED_MAX = 100
"""Missed slots that are counted one by one; beyond them the rest is passed over in one step."""


class Fate(StrEnum):
    """What has become of a slot; each has exactly one."""

    FIRED = "fired"
    """Its run was made within `LATE_AFTER_S` of its time."""
    LATE = "late"
    """Its run was made later than that."""
    SKIPPED = "skipped"
    """It was due and found no room."""
    MISSED = "missed"
    """Nobody could make its run in time, or only later ones are made up for."""

    @staticmethod
    def of_run(slot_s: float, made_s: float) -> "Fate":
        """Of a slot whose run was made then."""
        return Fate.LATE if made_s - slot_s > LATE_AFTER_S else Fate.FIRED


class Slots(Protocol):
    """A schedule, as far as this page cares."""

    def next_slot(self, after_s: float) -> float | None: ...

    def latest_slot(self, at_or_before_s: float, after_s: float) -> float | None: ...


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
class Missed:
    """Slots that nobody will run, in the write that moves the mark to the last of them."""

    count: int
    """At least."""
    last_s: float
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """What is due of one DAG. What is missed comes before the decision."""

    decision: Fire | Skip | None
    missed: Missed | None = None
    next_s: float | None = None
    """When to look again, if nothing is decided now; None: never."""
    waiting: int = 0
    """Due slots that are made up for as soon as there is room."""


def floor_s(asked: ScheduleSpec, created_s: float, seen_s: float | None, now_s: float) -> float:
    """The moment up to which no slot of a schedule fires that stands before us for the first time in this form.

    `seen_s`: the same of its form before; None for a DAG that is new. An edit, a suspension and a resumption are other
    forms. With catch-up the time before counts as well: from the last form on, and for a new DAG from its notBefore on.
    """
    if asked.catch_up is CatchUp.NONE:
        return created_s if seen_s is None else now_s
    if seen_s is not None:
        return seen_s
    return created_s if asked.not_before_s is None else min(created_s, asked.not_before_s - 1.0)


def plan_slot(slots: Slots, asked: ScheduleSpec, limits: Limits, mark_s: float, active: int, now_s: float) -> SlotPlan:
    """The fate of what is due above the mark, up to the first slot that is run or skipped.

    `active` counts the DAG's runs that have not finished.
    """
    # 1. Nothing is due: look again at the next slot.
    first_s = slots.next_slot(mark_s)
    if first_s is None or first_s > now_s:
        return SlotPlan(None, next_s=first_s)
    # 2. Of what is due, the latest few may run; what is older is missed.
    due, missed = _due(slots, asked, limits, first_s, mark_s, now_s)
    if not due:
        return SlotPlan(None, missed, slots.next_slot(now_s))
    # 3. The oldest of them runs if there is room. What is made up for waits for room, all else is skipped without.
    refusal = refuse_slot(limits, active)
    if refusal is None:
        return SlotPlan(Fire(due[0]), missed)
    if asked.catch_up is CatchUp.ALL:
        return SlotPlan(None, missed, slots.next_slot(now_s), len(due))
    return SlotPlan(Skip(due[0], refusal.reason, refusal.message), missed)


def untold_between(slots: Slots, mark_s: float, slot_s: float) -> Missed | None:
    """The slots above the mark and before one whose run exists: each has had its fate, and nobody has stored which.

    Some hundred are counted one by one, as for any others that are missed.
    """
    count, last_s = 0, mark_s
    found_s = slots.next_slot(mark_s)
    while found_s is not None and found_s < slot_s and count < MISSED_COUNTED_MAX:
        count, last_s = count + 1, found_s
        found_s = slots.next_slot(found_s)
    if not count:
        return None
    return Missed(count, last_s, "Untold", "their leader was lost before it had stored why; see its log")


def _due(
    slots: Slots, asked: ScheduleSpec, limits: Limits, first_s: float, mark_s: float, now_s: float
) -> tuple[list[float], Missed | None]:
    """The due slots that may run, oldest first, and what is missed before them."""
    kept_max = _kept_max(asked, limits)
    oldest_s = now_s - _deadline_s(asked)
    seen: list[float] = []
    slot_s: float | None = first_s
    while slot_s is not None and slot_s <= now_s and len(seen) < kept_max + MISSED_COUNTED_MAX:
        seen.append(slot_s)
        slot_s = slots.next_slot(slot_s)
    if slot_s is None or slot_s > now_s:
        in_time = [each for each in seen if each >= oldest_s]
        due = in_time[-kept_max:]
        missed, last_s = len(seen) - len(due), seen[-len(due) - 1] if len(seen) > len(due) else mark_s
        cut = len(in_time) > kept_max
    else:
        due = _latest(slots, kept_max, now_s, mark_s if oldest_s <= mark_s else math.ceil(oldest_s) - 1.0)
        before_s = slots.latest_slot(due[0] - 1 if due else now_s, mark_s)
        assert before_s is not None, "more slots are due than may run"
        missed, last_s, cut = len(seen) - len(due), before_s, len(due) == kept_max
    if not missed:
        return due, None
    return due, _missed(asked, limits, missed, last_s, cut)


def _latest(slots: Slots, count: int, now_s: float, after_s: float) -> list[float]:
    """The latest slots up to now, oldest first, at most so many."""
    found: list[float] = []
    while len(found) < count:
        slot_s = slots.latest_slot(found[-1] - 1 if found else now_s, after_s)
        if slot_s is None:
            break
        found.append(slot_s)
    return found[::-1]


def _kept_max(asked: ScheduleSpec, limits: Limits) -> int:
    """How many of the due slots may run: under Replace each would only be cancelled by the next."""
    if asked.catch_up is CatchUp.LATEST or limits.policy is Concurrency.REPLACE:
        return 1
    return asked.catch_up_limit if asked.catch_up is CatchUp.ALL else CATCH_UP_MAX


def _deadline_s(asked: ScheduleSpec) -> float:
    if asked.starting_deadline_s is not None:
        return asked.starting_deadline_s
    return LATENESS_MAX_S if asked.catch_up is CatchUp.NONE else math.inf


def _missed(asked: ScheduleSpec, limits: Limits, count: int, last_s: float, cut: bool) -> Missed:
    """`cut`: there were more slots in time than may run."""
    if not cut:
        fact = f"no run could be made within {_deadline_s(asked):g} s"
        return Missed(count, last_s, "TooLate", f"{fact}; raise schedule.startingDeadline or set schedule.catchUp")
    kept_max = _kept_max(asked, limits)
    if kept_max == 1:
        return Missed(count, last_s, "NotLatest", "of several due times only the latest is run; see schedule.catchUp")
    return Missed(count, last_s, "OverLimit", f"at most {kept_max} due times are run; see schedule.catchUp.limit")
