"""How many runs of a DAG may be active together, and who may begin."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.concurrency import Admission, Concurrency, Limits, Refusal, Standing, admit, refuse_slot
from fencepost.core.names import RunKey


def runs(text: str) -> list[Standing]:
    """One run a word, in the order in which they came: `a*` has begun, `b` waits, `c!` is being cancelled, and of
    `d+` another round waits."""
    return [
        Standing(
            place, 0, RunKey("ns", word.rstrip("*!+")), began="*" in word, cancelled="!" in word, again="+" in word
        )
        for place, word in enumerate(text.split())
    ]


def admitted(limits: Limits, text: str) -> tuple[str, str]:
    """Who may begin, and who is replaced by whom, in words."""
    found = admit(limits, runs(text))
    replaced = " ".join(f"{old.name}->{new.name}" for old, new in sorted(found.replaced.items()))
    return " ".join(sorted(run.name for run in found.let_in)), replaced


@pytest.mark.parametrize(
    ("limits", "active", "want"),
    [
        (Limits(Concurrency.ALLOW, None), 1000, None),
        (Limits(Concurrency.REPLACE, 1), 1000, None),
        (Limits(Concurrency.FORBID, 2), 1, None),
        (
            Limits(Concurrency.FORBID, 1),
            1,
            "1 of 1 runs is under way; raise concurrency.limit or shorten the runs",
        ),
        (
            Limits(Concurrency.FORBID, 2),
            3,
            "3 of 2 runs are under way; raise concurrency.limit or shorten the runs",
        ),
        (Limits(Concurrency.QUEUE, 2, 3), 4, None),
        (
            Limits(Concurrency.QUEUE, 2, 3),
            5,
            "3 of 3 runs wait already; raise concurrency.queueLimit or shorten the runs",
        ),
    ],
)
def test_a_slot_that_finds_no_room_is_told_why(limits: Limits, active: int, want: str | None) -> None:
    found = refuse_slot(limits, active)

    reason = "QueueFull" if limits.policy is Concurrency.QUEUE else "ConcurrencyForbid"
    assert found == (None if want is None else Refusal(reason, want))


@pytest.mark.parametrize("limits", [Limits(Concurrency.ALLOW, None), Limits(Concurrency.FORBID, 1)])
def test_a_run_that_exists_begins_where_only_slots_are_held_back(limits: Limits) -> None:
    assert admitted(limits, "a* b c") == ("b c", "")


@pytest.mark.parametrize(
    ("limit", "active", "want"),
    [
        (1, "a", "a"),
        (1, "a b", "a"),
        (1, "a* b c", ""),
        (1, "a*! b c", ""),
        (2, "a* b c", "b"),
        (2, "a* b* c* d", ""),
        (3, "b c d* e", "b c"),
    ],
)
def test_in_a_queue_the_oldest_that_wait_begin_as_there_is_room(limit: int, active: str, want: str) -> None:
    assert admitted(Limits(Concurrency.QUEUE, limit), active) == (want, "")


@pytest.mark.parametrize(
    ("limit", "active", "want"),
    [
        (1, "a", ("a", "")),
        (1, "a*", ("", "")),
        (1, "a* b", ("", "a->b")),
        (1, "a*! b", ("", "")),
        (1, "a*! b c", ("", "b->c")),
        (1, "a* b c", ("", "a->b b->c")),
        (1, "a b", ("b", "a->b")),
        (1, "a* b!", ("", "")),
        (2, "a* b* c", ("", "a->c")),
        (2, "a* b", ("b", "")),
        (2, "a* b c", ("b", "a->c")),
    ],
)
def test_a_newer_run_takes_the_place_of_the_oldest_once_that_has_stopped(
    limit: int, active: str, want: tuple[str, str]
) -> None:
    assert admitted(Limits(Concurrency.REPLACE, limit), active) == want


@pytest.mark.parametrize(
    ("policy", "active", "want"),
    [
        (Concurrency.ALLOW, "a+ b*", ("a", "")),
        (Concurrency.FORBID, "a+ b+", ("a", "")),
        (Concurrency.FORBID, "a+ b*", ("", "")),
        (Concurrency.FORBID, "a+ b", ("b", "")),
        (Concurrency.QUEUE, "a+ b", ("a", "")),
        (Concurrency.QUEUE, "a* b+", ("", "")),
        (Concurrency.REPLACE, "a+ b*", ("", "")),
        (Concurrency.REPLACE, "a+ b", ("b", "")),
        (Concurrency.REPLACE, "a* b+", ("", "")),
        (Concurrency.REPLACE, "a+", ("a", "")),
    ],
)
def test_another_round_of_a_run_waits_for_room_and_replaces_nothing(
    policy: Concurrency, active: str, want: tuple[str, str]
) -> None:
    assert admitted(Limits(policy, None if policy is Concurrency.ALLOW else 1), active) == want


def test_runs_of_the_same_second_are_in_the_order_of_their_slots() -> None:
    late, early = Standing(5, 120, RunKey("ns", "a"), began=False), Standing(5, 60, RunKey("ns", "b"), began=False)

    assert admit(Limits(Concurrency.QUEUE, 1), [late, early]).let_in == {early.run}


@given(
    st.sampled_from(list(Concurrency)), st.integers(1, 4), st.lists(st.sampled_from(["", "*", "!", "*!"]), max_size=9)
)
def test_no_more_begin_than_there_is_room_for_and_somebody_begins_where_there_is_room(
    policy: Concurrency, limit: int, marks: list[str]
) -> None:
    names = (f"r{number}" for number in count())
    active = runs(" ".join(f"{name}{mark}" for name, mark in zip(names, marks, strict=False)))
    limits = Limits(policy, None if policy is Concurrency.ALLOW else limit)
    found = admit(limits, active)
    waiting = {each.run for each in active if not each.began}
    begun = len(active) - len(waiting)

    assert found.let_in <= waiting
    assert found.let_in.isdisjoint(found.replaced)
    if policy in (Concurrency.ALLOW, Concurrency.FORBID):  # without rounds
        assert found == Admission(frozenset(waiting))
        return
    assert len(found.let_in) <= max(0, limit - begun)
    may = {each.run for each in active if not each.began and not (policy is Concurrency.REPLACE and each.cancelled)}
    assert bool(found.let_in) == (begun < limit and bool(may))
    if policy is Concurrency.REPLACE:
        stay = [each for each in active if not each.cancelled and each.run not in found.replaced]
        assert len(stay) <= limit
        assert not found.replaced or len(stay) == limit
