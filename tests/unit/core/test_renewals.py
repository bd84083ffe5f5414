"""The interval of renewals, over the number of workers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.renewals import INTERVAL_STEP_S, RENEWALS_PER_S_MAX, renewal_interval_s


@pytest.mark.parametrize(
    ("workers", "present_s", "want_s"),
    [
        (0, 10, 10),
        (1999, 10, 10),
        (2000, 10, 20),
        (10_000, 10, 60),
        (1999, 20, 20),
        (1600, 20, 20),
        (1599, 20, 10),
        (100, 60, 10),
    ],
)
def test_it_rises_at_once_and_falls_when_there_is_room_to_spare(workers: int, present_s: int, want_s: int) -> None:
    assert renewal_interval_s(workers, present_s) == want_s


@given(st.integers(0, 500_000), st.integers(1, 300))
def test_renewals_stay_under_their_limit_whatever_the_number_of_workers(workers: int, steps: int) -> None:
    interval_s = renewal_interval_s(workers, steps * INTERVAL_STEP_S)
    assert workers / interval_s < RENEWALS_PER_S_MAX


@given(st.integers(0, 500_000), st.integers(1, 300))
def test_the_same_number_of_workers_changes_it_once(workers: int, steps: int) -> None:
    interval_s = renewal_interval_s(workers, steps * INTERVAL_STEP_S)
    assert renewal_interval_s(workers, interval_s) == interval_s
