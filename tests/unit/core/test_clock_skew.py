"""How far a wall clock is from the API server's: told from whole seconds and slow answers, and never overstated."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.clock_skew import (
    DATE_STEP_S,
    OFF_S,
    SIGHTINGS_MAX,
    TRUE_AGAIN_S,
    TRUSTED_AGAIN_S,
    WRONG_S,
    ClockState,
    Sighting,
    clock_state,
    sighting,
    skew_s,
)

STEADY_S = 1000.0
NOON_S = 1_796_040_000.0


def sightings(*skews_s: float) -> list[Sighting]:
    """Quick answers, each from a server whose clock was so far ahead of one that shows noon at `STEADY_S`."""
    ahead_s = NOON_S - STEADY_S
    return [Sighting(ahead_s + each, ahead_s + each) for each in skews_s]


def test_without_an_answer_nothing_is_known() -> None:
    assert skew_s([], STEADY_S, NOON_S) is None


@pytest.mark.parametrize(
    ("date_s", "sent_s", "heard_s", "want_s"),
    [
        (NOON_S, STEADY_S, STEADY_S, 0.0),
        (NOON_S - 0.5, STEADY_S, STEADY_S, 0.0),
        (NOON_S + 40.0, STEADY_S, STEADY_S, 40.0),
        (NOON_S - 40.0, STEADY_S, STEADY_S, -39.0),
        (NOON_S - 40.0, STEADY_S - 20.0, STEADY_S, -19.0),
        (NOON_S - 40.0, STEADY_S - 50.0, STEADY_S, 0.0),
        (NOON_S + 40.0, STEADY_S - 50.0, STEADY_S, 40.0),
    ],
    ids=["same", "rounded", "behind", "ahead", "ahead-and-slow", "too-slow-to-tell", "behind-and-slow"],
)
def test_an_answer_counts_for_as_little_as_it_may_mean(
    date_s: float, sent_s: float, heard_s: float, want_s: float
) -> None:
    assert skew_s([sighting(date_s, sent_s, heard_s)], STEADY_S, NOON_S) == want_s


@given(
    skew=st.floats(-1e6, 1e6),
    answers=st.lists(
        st.tuples(st.floats(0.0, 60.0), st.floats(0.0, 60.0), st.floats(0.0, 60.0)),
        min_size=1,
        max_size=SIGHTINGS_MAX,
    ),
)
def test_however_slow_the_answers_the_skew_is_never_overstated_nor_by_more_than_their_slowness_understated(
    skew: float, answers: list[tuple[float, float, float]]
) -> None:
    seen = []
    for ago_s, way_s, back_s in answers:
        dated_s = STEADY_S - ago_s - back_s
        date_s = math.floor(NOON_S - (STEADY_S - dated_s) + skew)
        seen.append(sighting(date_s, dated_s - way_s, dated_s + back_s))
    found_s = skew_s(seen, STEADY_S, NOON_S)

    assert found_s is not None
    assert abs(found_s) <= abs(skew) + 1e-3
    assert found_s * skew >= 0.0
    assert abs(skew - found_s) <= max(way_s + back_s for _, way_s, back_s in answers) + DATE_STEP_S + 1e-3


@pytest.mark.parametrize(
    ("skews_s", "want_s"),
    [
        ((0.0, 0.0, 3600.0), 0.0),
        ((3600.0, 0.0), 0.0),
        ((-3600.0, 0.0), 0.0),
        ((50.0, -3600.0, 50.0, 50.0, 3600.0), 50.0),
        ((3600.0, 3600.0, 0.0, 0.0, 3600.0), 3600.0),
    ],
)
def test_an_answer_that_tells_another_time_than_most_does_not_count(skews_s: tuple[float, ...], want_s: float) -> None:
    assert skew_s(sightings(*skews_s), STEADY_S, NOON_S) == want_s


def test_a_wall_clock_that_jumps_is_noticed_without_another_answer() -> None:
    seen = sightings(0.0, 0.0, 0.0)

    assert skew_s(seen, STEADY_S + 60.0, NOON_S + 60.0) == 0.0
    assert skew_s(seen, STEADY_S + 60.0, NOON_S + 60.0 + 3600.0) == -3600.0
    assert skew_s(seen, STEADY_S + 60.0, NOON_S + 60.0 - 45.0) == 45.0


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("skew", "before", "want"),
    [
        (OFF_S, ClockState.RIGHT, ClockState.RIGHT),
        (OFF_S + 0.1, ClockState.RIGHT, ClockState.OFF),
        (OFF_S, ClockState.OFF, ClockState.OFF),
        (TRUE_AGAIN_S, ClockState.OFF, ClockState.RIGHT),
        (WRONG_S, ClockState.RIGHT, ClockState.OFF),
        (WRONG_S, ClockState.OFF, ClockState.OFF),
        (WRONG_S + 0.1, ClockState.RIGHT, ClockState.WRONG),
        (WRONG_S + 0.1, ClockState.OFF, ClockState.WRONG),
        (WRONG_S, ClockState.WRONG, ClockState.WRONG),
        (TRUSTED_AGAIN_S + 0.1, ClockState.WRONG, ClockState.WRONG),
        (TRUSTED_AGAIN_S, ClockState.WRONG, ClockState.OFF),
        (TRUE_AGAIN_S, ClockState.WRONG, ClockState.RIGHT),
    ],
)
def test_what_is_thought_of_a_clock(skew: float, before: ClockState, want: ClockState, sign: int) -> None:
    assert clock_state(sign * skew, before) is want


@pytest.mark.parametrize("before", list(ClockState))
def test_without_an_answer_what_was_thought_of_a_clock_is_still_thought(before: ClockState) -> None:
    assert clock_state(None, before) is before
