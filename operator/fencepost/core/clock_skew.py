"""How far our wall clock is from the API server's, told from the Date header of its answers.

Picture somebody who shouts the hour out of a window, and you stand far below with a stopwatch. When you hear "noon" it
may be noon and fifty-nine seconds already, and the shout was on its way for a while. But it was not uttered before you
asked, nor after you heard it: so each answer pins the other clock, on the stopwatch, between two bounds that are true
however slow the answer was. A slow one says little, and never anything false.

The stopwatch is our steady clock. As it goes on evenly when the wall clock is set, a wall clock that jumps is noticed
at the next look, and not only at the next answer.

Answers may be false for another reason: one of several API servers has a wrong clock itself, or a proxy has kept an old
answer. So the middle one of the last few counts. Not promised: what the true time is. If the API server's clock is
wrong, a right one looks wrong from here; and a machine whose steady clock stood still, as under a hypervisor that
paused it, finds out only after a few answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

SIGHTINGS_MAX = 5
"""Answers that count, each from another second."""
DATE_STEP_S = 1.0
"""A Date header has whole seconds, rounded down."""
OFF_S = 2.0
"""Beyond this a clock is off: people are warned."""
TRUE_AGAIN_S = 1.0
"""Up to this one that was off is right again; less than `OFF_S`, so that one at the limit is told of once."""
WRONG_S = 30.0
"""Beyond this a clock is wrong: nothing is fired by it."""
TRUSTED_AGAIN_S = 15.0
"""Up to this one that was wrong is trusted again."""


class ClockState(StrEnum):
    """What is thought of our wall clock."""

    RIGHT = "right"
    """It agrees with the API server's, or there is no answer yet."""
    OFF = "off"
    """It differs by more than `OFF_S`: what is scheduled fires by it, that much too early or too late."""
    WRONG = "wrong"
    """It differs by more than `WRONG_S`: nothing scheduled fires by it."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """By how much the server's wall clock was ahead of our steady clock at one answer."""

    low_s: float
    """At least."""
    high_s: float
    """At most."""


def sighting(date_s: float, sent_s: float, heard_s: float) -> Sighting:
    """What an answer tells: `date_s` is its Date in Unix seconds, the others moments on our steady clock."""
    return Sighting(low_s=date_s - heard_s, high_s=date_s + DATE_STEP_S - sent_s)


def skew_s(sightings: Sequence[Sighting], steady_s: float, now_s: float) -> float | None:
    """The server's wall clock minus ours, as little as the answers allow; None: there were none.

    `steady_s` and `now_s` are what our two clocks show at this moment.
    """
    if not sightings:
        return None
    ahead_s = now_s - steady_s
    skews_s = sorted(
        [each.low_s - ahead_s if each.low_s > ahead_s else min(0.0, each.high_s - ahead_s) for each in sightings]
    )
    low_s, high_s = skews_s[(len(skews_s) - 1) // 2], skews_s[len(skews_s) // 2]
    return min(low_s, high_s, key=abs)


def clock_state(skew: float | None, before: ClockState) -> ClockState:
    """What to think of a clock with this skew; `before` is what was thought of it."""
    if skew is None:
        return before
    wrong_s = TRUSTED_AGAIN_S if before is ClockState.WRONG else WRONG_S
    off_s = OFF_S if before is ClockState.RIGHT else TRUE_AGAIN_S
    if abs(skew) > wrong_s:
        return ClockState.WRONG
    return ClockState.OFF if abs(skew) > off_s else ClockState.RIGHT
