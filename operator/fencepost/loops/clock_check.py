"""Whether this replica's wall clock may be trusted: the answers of the API server are noted, and people are told.

What is right is decided in `core.clock_skew`. Whoever is about to act by the wall clock asks `wrong` first; the state
is found anew each time, so a clock that jumps is distrusted before anything is done by it.
"""

import logging
import math
from collections import deque

from fencepost.base.clock import Clock
from fencepost.base.metrics import Metrics
from fencepost.core.clock_skew import SIGHTINGS_MAX, WRONG_S, ClockState, Sighting, clock_state, sighting, skew_s

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 60.0
"""How soon whoever deletes nothing by a clock that is wrong asks again."""


class ClockCheck:
    """One replica's opinion of its own wall clock."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._sightings: deque[Sighting] = deque(maxlen=SIGHTINGS_MAX)
        self._second_s = 0.0
        self._low_s, self._high_s = -math.inf, math.inf
        """What all answers that count agree about: between these our wall clock is ahead of our steady one, if it is
        right."""
        self._state = ClockState.RIGHT
        metrics.watch_clock_skew(lambda: self.skew_s or 0.0)

    def note(self, date_s: float, sent_s: float, heard_s: float) -> None:
        """An answer of the API server, with its Date; the others are moments on our steady clock."""
        if date_s != self._second_s:  # of several answers in one second the others would only outvote older ones
            self._second_s = date_s
            self._sightings.append(sighting(date_s, sent_s, heard_s))
            self._low_s = max(each.low_s for each in self._sightings)
            self._high_s = min(each.high_s for each in self._sightings)

    @property
    def skew_s(self) -> float | None:
        """The API server's wall clock minus ours; None: it has not answered yet."""
        steady_s, now_s = self._clock.steady_s(), self._clock.now_s()
        if self._sightings and self._low_s <= now_s - steady_s <= self._high_s:
            return 0.0  # asked several times a second, and nearly always answered so
        return skew_s(self._sightings, steady_s, now_s)

    @property
    def wrong(self) -> bool:
        """Whether nothing may be fired by our clock now."""
        return self.look() is ClockState.WRONG

    def look(self) -> ClockState:
        """What is to be thought of our clock now; a change is logged and counted."""
        skew = self.skew_s
        before, self._state = self._state, clock_state(skew, self._state)
        if self._state is not before and skew is not None:
            self._tell(before, skew)
        return self._state

    def problem(self) -> str:
        """Why nothing scheduled is fired here, for a person; empty when our clock is trusted."""
        skew = self.skew_s
        if skew is None or not self.wrong:
            return ""
        return (
            f"this replica's clock is {_distance(skew)}: it fires nothing scheduled and leaves its shards to replicas "
            f"whose clock is right; see to the time synchronization of its node"
        )

    def _tell(self, before: ClockState, skew: float) -> None:
        self._metrics.clock_state_changed(self._state.value)
        match self._state:
            case ClockState.WRONG:
                log.error("%s", self.problem())
            case ClockState.OFF if before is ClockState.WRONG:
                log.warning("this replica's clock is trusted again, though it is %s", _distance(skew))
            case ClockState.OFF:
                log.warning(
                    "this replica's clock is %s: what is scheduled fires that much %s; beyond %g s it fires nothing",
                    _distance(skew),
                    "late" if skew > 0 else "early",
                    WRONG_S,
                )
            case ClockState.RIGHT:
                log.info("this replica's clock agrees with the API server's again")


def _distance(skew: float) -> str:
    return f"{abs(skew):.1f} s {'behind' if skew > 0 else 'ahead of'} the API server's"
