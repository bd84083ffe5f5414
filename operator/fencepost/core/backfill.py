"""A backfill: the runs of past slots, made by whoever asks for them, and no slot twice.

The trick is the name. A slot's run is called `<dag>-<Unix seconds>`, whoever makes it, so the API server itself refuses
a second one, and what has been made can be read off the names. A backfill makes its runs oldest slot first and marks
each with its own name; so the latest slot that bears the mark says how far it had come, also when older runs have been
deleted since: `core.history` keeps that one for a day. Begun again under the same name it goes on from there; it needs
to remember nothing.

Not promised: that a slot is not run twice once its run has been deleted by another backfill or by hand, or a day later.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from fencepost.core.phases import RunPhase

SLOTS_MAX = 10_000
"""Of one backfill."""


class Reprocess(StrEnum):
    """What becomes of a slot whose run exists."""

    NONE = "none"
    """It is left alone."""
    FAILED = "failed"
    """Its jobs that have not succeeded are run again, if it has ended otherwise than well."""
    ALL = "all"
    """All its jobs are run again, if it has ended."""


@dataclass(frozen=True, slots=True)
class SlotRun:
    """The run that exists under a slot's name."""

    phase: RunPhase
    round: int = 0
    """The last round that anybody has asked for."""
    round_due: bool = False
    """That round has not been taken up yet."""
    ours: bool = False
    """It bears this backfill's mark."""

    @property
    def under_way(self) -> bool:
        """It has not ended, or is about to go on."""
        return self.round_due or not self.phase.finished


class Act(StrEnum):
    """What a backfill does about a slot."""

    CREATE = "create"
    """Make its run."""
    RERUN = "rerun"
    """Ask for another round of its run."""
    FOLLOW = "follow"
    """This backfill's own run is under way: see it to its end."""
    LEAVE = "leave"
    """Nothing is to be done."""


@dataclass(frozen=True, slots=True)
class Step:
    """One slot, in the order in which they are dealt with."""

    slot_s: int
    act: Act
    why: str = ""
    """For a person; of LEAVE."""
    round: int = 0
    """Of RERUN: the round to ask for."""


def plan_backfill(
    slots: Iterable[int], found: Mapping[int, SlotRun], reached_s: int | None, reprocess: Reprocess
) -> Iterator[Step]:
    """What to do about each slot (Unix seconds, ascending). `reached_s`: the latest slot that bears the mark."""
    for slot_s in slots:
        run = found.get(slot_s)
        if run is None and (reached_s is None or slot_s > reached_s):
            yield Step(slot_s, Act.CREATE)
        elif run is None:
            yield Step(slot_s, Act.LEAVE, "dealt with before, and deleted since")
        elif run.under_way:
            yield Step(slot_s, Act.FOLLOW) if run.ours else Step(slot_s, Act.LEAVE, "it is under way")
        elif not run.ours and _to_rerun(run.phase, reprocess):
            yield Step(slot_s, Act.RERUN, round=run.round + 1)
        else:
            yield Step(slot_s, Act.LEAVE, f"it has {str(run.phase).lower()}")


def _to_rerun(phase: RunPhase, reprocess: Reprocess) -> bool:
    return reprocess is Reprocess.ALL or (reprocess is Reprocess.FAILED and phase is not RunPhase.SUCCEEDED)
