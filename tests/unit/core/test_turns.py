"""Whose turn a slot is, among replicas that know of each other what was true some seconds ago."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.turns import AGE_GAP_S, ALONE, NOBODY, PLACES_MAX, Backlog, Contest, Rivals, enter

NAMES = ("ann", "ben", "cid")
BACKLOGS = st.builds(Backlog, st.integers(0, 3), st.integers(0, 60))


def contest(mine: Backlog, **others: Backlog) -> Contest:
    return enter(mine, Rivals("me", others))


@pytest.mark.parametrize(
    ("theirs", "ahead", "equal"),
    [
        (Backlog(2, 500.0), 1, False),
        (Backlog(0, 0.0), 0, False),
        (Backlog(1, 100.0 - AGE_GAP_S - 1), 1, False),
        (Backlog(1, 100.0 - AGE_GAP_S), 0, True),
        (Backlog(1, 100.0 + AGE_GAP_S), 0, True),
        (Backlog(1, 100.0 + AGE_GAP_S + 1), 0, False),
    ],
)
def test_a_higher_job_goes_first_then_one_that_is_clearly_older(theirs: Backlog, ahead: int, equal: bool) -> None:
    found = contest(Backlog(1, 100.0), ann=theirs)

    assert (found.ahead, found.equals) == (ahead, ("ann",) if equal else ())
    assert found.alone is (not ahead and not equal)


def test_with_nobody_else_every_slot_is_ours() -> None:
    assert enter(Backlog(0, 0.0), NOBODY) == ALONE.contest
    assert ALONE.contest.alone
    assert ALONE.contest.place("w1", 3) == 0


def test_those_that_go_before_us_do_so_everywhere_but_only_so_many_are_waited_for() -> None:
    higher = {f"op{number}": Backlog(3, 0.0) for number in range(5)}

    assert contest(Backlog(1, 0.0), ann=Backlog(3, 0.0)).place("w1", 0) == 1
    assert contest(Backlog(1, 0.0), **higher).place("w1", 0) == PLACES_MAX


def test_among_equals_each_slot_is_the_home_of_one_and_each_has_about_as_many() -> None:
    homes = dict.fromkeys(NAMES, 0)
    for worker, slot in product([f"w{number}" for number in range(60)], range(5)):
        places = {name: Contest(name, 0, tuple(each for each in NAMES if each != name)) for name in NAMES}
        order = sorted(NAMES, key=lambda name: places[name].place(worker, slot))
        assert [places[name].place(worker, slot) for name in order] == [0, 1, 2]
        homes[order[0]] += 1

    assert all(70 <= count <= 130 for count in homes.values())


@given(st.dictionaries(st.sampled_from(NAMES), BACKLOGS, min_size=2))
def test_nobody_goes_before_the_best_job_of_all_so_nobody_waits_for_each_other(told: dict[str, Backlog]) -> None:
    found = {
        name: enter(mine, Rivals(name, {other: theirs for other, theirs in told.items() if other != name}))
        for name, mine in told.items()
    }

    best = min(told, key=lambda name: (-told[name].level, told[name].since_s))
    assert found[best].ahead == 0
    assert found[best].place("w1", 0) <= len(found[best].equals)
    for name, other in product(told, told):
        if name in found[other].equals:
            assert other in found[name].equals
