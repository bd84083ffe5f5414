"""How many runs of a DAG may be active together: the one place that counts them and decides who may begin.

A run is active from its creation to its end. Scheduled runs count and runs made by hand count; backfills do not, as
they keep a limit of their own. What is decided about a slot whose run is not made yet, and about a run that exists:

| policy | a slot that finds no room | a run, made by hand or for a slot, that finds no room |
|---|---|---|
| Allow | there always is room | begins |
| Forbid | is skipped | begins: only slots are held back |
| Queue | its run is made and waits; skipped when so many wait already | waits until its turn, the oldest first |
| Replace | its run is made and waits | the oldest runs are cancelled; once one has ended, it begins |

Another round of a run that has finished is no newcomer: it replaces nothing, and waits for room under every limit.

A run that waits is stored, so that no leader can forget it: what Replace has cancelled is followed by its successor
however often the leader dies between the two. Not promised: the order of runs that were created in the same second.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from fencepost.core.names import RunKey

QUEUE_DEFAULT = 10
"""Runs that may wait, if nothing else is asked for."""


class Concurrency(StrEnum):
    """What happens when a run is due while as many runs as the limit are active."""

    ALLOW = "Allow"
    """It begins all the same; there is no limit."""
    FORBID = "Forbid"
    """Its slot is skipped."""
    REPLACE = "Replace"
    """The oldest run is cancelled, and the new one begins once that has ended."""
    QUEUE = "Queue"
    """It waits until one of them has ended."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a DAG asks for."""

    policy: Concurrency = Concurrency.FORBID
    runs_max: int | None = 1
    """Active runs that may have begun; None with Allow."""
    queue_max: int = QUEUE_DEFAULT
    """With Queue: runs that may wait."""


@dataclass(frozen=True, slots=True, order=True)
class Standing:
    """One active run, as far as this page cares. They are in the order in which they came."""

    created_s: float
    scheduled_s: int
    run: RunKey
    began: bool = field(compare=False)
    """It has been let in: jobs of it may have been leased."""
    cancelled: bool = field(default=False, compare=False)
    """Somebody has asked for its end."""
    again: bool = field(default=False, compare=False)
    """It has finished, and another round of it is asked for that has not begun."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Who may begin, and who must go."""

    let_in: frozenset[RunKey] = frozenset()
    """Runs that have not begun and may."""
    replaced: Mapping[RunKey, RunKey] = field(default_factory=dict)
    """Runs to be cancelled, each with the run that takes its place."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a slot makes no run."""

    reason: str
    message: str


def refuse_slot(limits: Limits, active: int) -> Refusal | None:
    """Why a slot that is due now finds no room; None when its run may be made."""
    are = "is" if active == 1 else "are"
    match limits.policy:
        case Concurrency.ALLOW | Concurrency.REPLACE:
            return None
        case Concurrency.FORBID:
            if limits.runs_max is None or active < limits.runs_max:
                return None
            fact = f"{active} of {limits.runs_max} runs {are} under way"
            return Refusal("ConcurrencyForbid", f"{fact}; raise concurrency.limit or shorten the runs")
        case Concurrency.QUEUE:
            waiting = active - (limits.runs_max or 1)
            if waiting < limits.queue_max:
                return None
            fact = f"{waiting} of {limits.queue_max} runs wait already"
            return Refusal("QueueFull", f"{fact}; raise concurrency.queueLimit or shorten the runs")
        case _:
            assert_never(limits.policy)


def admit(limits: Limits, active: Iterable[Standing]) -> Admission:
    """Who of a DAG's active runs may begin now, and who must make room."""
    runs = sorted(active)
    waiting = [each for each in runs if not each.began]
    if limits.runs_max is None:
        return Admission(frozenset(each.run for each in waiting))
    if limits.policy is Concurrency.FORBID:
        fresh, rounds = [each for each in waiting if not each.again], [each for each in waiting if each.again]
        free = max(0, limits.runs_max - (len(runs) - len(rounds)))
        return Admission(frozenset(each.run for each in fresh + rounds[:free]))
    free = max(0, limits.runs_max - (len(runs) - len(waiting)))
    if limits.policy is Concurrency.QUEUE:
        return Admission(frozenset(each.run for each in waiting[:free]))
    wanted = [each for each in runs if not each.cancelled and not each.again]
    surplus = wanted[: -limits.runs_max]
    stay = [each for each in waiting if each not in surplus and not each.cancelled]
    replaced = {each.run: wanted[place + limits.runs_max].run for place, each in enumerate(surplus)}
    first = sorted(stay, key=lambda each: each.again)
    return Admission(frozenset(each.run for each in first[:free]), replaced)
