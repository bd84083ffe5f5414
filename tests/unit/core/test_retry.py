"""Back-off: grows, is capped, and is the same whoever computes it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.definition import RetryPolicy
from fencepost.core.retry import retry_delay_s

POLICIES = st.builds(
    RetryPolicy,
    base_s=st.floats(0, 3600),
    factor=st.floats(1, 100),
    cap_s=st.floats(0, 86_400),
    jitter=st.floats(0, 1),
)


def test_without_jitter_each_delay_is_a_factor_longer_up_to_the_cap() -> None:
    policy = RetryPolicy(base_s=10, factor=2, cap_s=60, jitter=0)

    assert [retry_delay_s(policy, failures, "uid/load/0") for failures in range(1, 6)] == [10, 20, 40, 60, 60]


@given(POLICIES, st.integers(1, 10**6), st.text(max_size=20))
def test_a_delay_is_never_negative_and_never_above_the_cap_and_its_jitter(
    policy: RetryPolicy, failures: int, execution: str
) -> None:
    assert 0 <= retry_delay_s(policy, failures, execution) <= policy.cap_s * (1 + policy.jitter)


def test_a_jitter_moves_the_delay_by_no_more_than_its_share_and_in_both_directions() -> None:
    policy = RetryPolicy(base_s=10, jitter=0.1)
    delays = [retry_delay_s(policy, 1, f"uid/load/{index}") for index in range(200)]

    assert all(9 <= delay <= 11 for delay in delays)
    assert min(delays) < 9.1
    assert max(delays) > 10.9


def test_two_replicas_plan_the_same_retry_for_the_same_moment() -> None:
    assert retry_delay_s(RetryPolicy(), 1, "uid/load/0") == pytest.approx(10.315200740574621, abs=1e-9)
    assert retry_delay_s(RetryPolicy(jitter=1), 1, "a") != retry_delay_s(RetryPolicy(jitter=1), 2, "a")
