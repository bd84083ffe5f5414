"""Which finished runs are kept: examples, and the laws against any runs and limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.history import PROGRESS_KEPT_S, Ended, HistoryLimits, HistoryPlan, plan_history, progress_kept_for_s

NOW_S = 10_000.0


def plan(runs: str, limits: HistoryLimits, now_s: float = NOW_S) -> HistoryPlan[str]:
    """`a+ b-`: run a succeeded, then b did not; each ended a minute after the one before, the first at 0."""
    words = runs.split()
    return plan_history(
        [Ended(word[:-1], word.endswith("+"), 60.0 * place) for place, word in enumerate(words)], limits, now_s
    )


@pytest.mark.parametrize(
    ("runs", "limits", "want"),
    [
        ("", HistoryLimits(), ""),
        ("a+ b+ c+", HistoryLimits(3, 10), ""),
        ("a+ b+ c+ d+", HistoryLimits(3, 10), "a"),
        ("a- b+ c- d+ e-", HistoryLimits(1, 2), "a b"),
        ("a+ b-", HistoryLimits(0, 0), "a b"),
    ],
)
def test_the_latest_of_each_sort_are_kept(runs: str, limits: HistoryLimits, want: str) -> None:
    assert plan(runs, limits) == HistoryPlan(want.split(), None)


def test_runs_of_backfills_are_counted_apart() -> None:
    ended = [Ended(name, True, 60.0 * place, backfilled=name.islower()) for place, name in enumerate("abAcBC")]
    assert plan_history(ended, HistoryLimits(2, 2), NOW_S).surplus == ["a", "A"]


@pytest.mark.parametrize(
    ("age_s", "others_s", "want_s"),
    [
        (60.0, [], PROGRESS_KEPT_S - 60.0),
        (60.0, [100.0, 300.0], PROGRESS_KEPT_S - 60.0),
        (60.0, [100.0, 300.0, 301.0], 0.0),
        (PROGRESS_KEPT_S, [], 0.0),
    ],
)
def test_the_latest_run_of_a_backfill_is_kept_for_a_day(age_s: float, others_s: list[float], want_s: float) -> None:
    now_s = PROGRESS_KEPT_S + 1000.0
    assert progress_kept_for_s(300.0, now_s - age_s, others_s, now_s) == want_s


def test_what_has_been_finished_for_too_long_goes_though_it_is_among_the_latest() -> None:
    limits = HistoryLimits(10, 10, ttl_s=100.0)
    assert plan("a+ b- c+", limits, now_s=99.0) == HistoryPlan([], 100.0)
    assert plan("a+ b- c+", limits, now_s=160.0) == HistoryPlan(["a", "b"], 220.0)
    assert plan("a+ b- c+", limits, now_s=NOW_S) == HistoryPlan(["a", "b", "c"], None)


RUNS = st.lists(st.builds(Ended, st.uuids(), st.booleans(), st.floats(0, NOW_S)), max_size=30)
LIMITS = st.builds(HistoryLimits, st.integers(0, 8), st.integers(0, 8), st.none() | st.floats(1, NOW_S))


@given(RUNS, LIMITS)
def test_no_more_than_the_limits_are_kept_and_none_that_is_newer_goes_before_an_older_one(
    runs: list[Ended[object]], limits: HistoryLimits
) -> None:
    gone = set(plan_history(runs, limits, NOW_S).surplus)
    for succeeded, count in ((True, limits.succeeded), (False, limits.failed)):
        of_sort = sorted((run for run in runs if run.succeeded is succeeded), key=lambda run: run.finish_s)
        kept = [run for run in of_sort if run.run not in gone]
        assert len(kept) <= count
        assert kept == of_sort[len(of_sort) - len(kept) :]
        if limits.ttl_s is None:
            assert len(kept) == min(count, len(of_sort))


@given(RUNS, LIMITS)
def test_looking_again_at_the_moment_that_is_named_finds_something_and_not_before(
    runs: list[Ended[object]], limits: HistoryLimits
) -> None:
    first = plan_history(runs, limits, NOW_S)
    kept = [run for run in runs if run.run not in set(first.surplus)]
    assert not plan_history(kept, limits, NOW_S).surplus
    if first.next_s is not None:
        assert first.next_s > NOW_S
        assert plan_history(kept, limits, first.next_s).surplus
    elif limits.ttl_s is None or not kept:
        assert not plan_history(kept, limits, 2 * NOW_S).surplus
