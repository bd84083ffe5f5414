"""How many slots are kept for critical jobs, and on which workers."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.reserve import Marked, kept_slots, plan_marks, reserve_size

PERCENTS = st.integers(1, 100)
WORKERS = st.dictionaries(
    st.sampled_from([f"w{number}" for number in range(8)]),
    st.builds(Marked, st.integers(1, 32), st.none() | st.integers(0, 32)),
)


def kept(percent: int, workers: Mapping[str, Marked]) -> int:
    """What workers keep together."""
    return sum(kept_slots(percent, worker) for worker in workers.values())


def marked(workers: Mapping[str, Marked], marks: Mapping[str, int]) -> dict[str, Marked]:
    """The workers once they bear these marks."""
    return {name: Marked(worker.slots, marks.get(name, worker.mark)) for name, worker in workers.items()}


@pytest.mark.parametrize(
    ("percent", "live", "want"), [(10, 30, 3), (10, 39, 3), (10, 9, 0), (50, 1, 0), (100, 4, 3), (99, 2, 1), (10, 0, 0)]
)
def test_the_reserve_is_the_floor_of_its_share_and_never_every_slot(percent: int, live: int, want: int) -> None:
    assert reserve_size(percent, live) == want


def test_a_worker_without_a_mark_keeps_its_share_rounded_up() -> None:
    assert [kept_slots(10, Marked(slots, None)) for slots in (1, 4, 10, 11)] == [1, 1, 1, 2]


def test_a_mark_counts_as_long_as_the_pool_has_a_reserve() -> None:
    assert kept_slots(10, Marked(4, 2)) == 2
    assert kept_slots(10, Marked(4, 5)) == 4
    assert kept_slots(0, Marked(4, 2)) == 0
    assert plan_marks(0, {"w": Marked(4, 2)}) == {}


def test_workers_whose_share_is_a_whole_number_need_no_mark() -> None:
    assert plan_marks(10, {f"w{number}": Marked(10, None) for number in range(120)}) == {}


def test_of_workers_too_small_for_a_share_of_their_own_some_keep_a_slot() -> None:
    workers = {f"w{number}": Marked(4, None) for number in range(10)}

    marks = plan_marks(10, workers)

    assert len(marks) == 6
    assert set(marks.values()) == {0}
    assert kept(10, marked(workers, marks)) == 4


def test_a_worker_that_comes_is_the_one_to_be_marked() -> None:
    old = marked(workers := {"a": Marked(4, None), "b": Marked(4, None)}, plan_marks(50, workers))

    assert plan_marks(10, {"a": Marked(4, 0), "b": Marked(4, 0), "c": Marked(4, None)}) == {}
    assert plan_marks(10, {"a": Marked(4, 1), "c": Marked(4, None), "b": Marked(4, 0)}) == {"c": 0}
    assert plan_marks(50, {**old, "c": Marked(4, None)}) == {}


def test_when_a_worker_is_lost_the_others_keep_its_part() -> None:
    assert plan_marks(25, {"a": Marked(2, 0), "b": Marked(2, 0)}) == {"a": 1}


def test_one_slot_stays_open_to_all_and_always_the_same() -> None:
    workers = {"a": Marked(2, None), "b": Marked(2, None)}

    after = marked(workers, plan_marks(100, workers))

    assert kept(100, after) == 3
    assert plan_marks(100, after) == {}


@given(PERCENTS, WORKERS)
def test_together_the_workers_keep_the_reserve_exactly(percent: int, workers: dict[str, Marked]) -> None:
    after = marked(workers, plan_marks(percent, workers))

    assert kept(percent, after) == reserve_size(percent, sum(worker.slots for worker in workers.values()))
    assert plan_marks(percent, after) == {}
    for worker in after.values():
        assert abs(kept_slots(percent, worker) - percent * worker.slots / 100) <= 1


@given(PERCENTS, WORKERS)
def test_workers_that_nobody_has_marked_yet_keep_too_much_rather_than_too_little(
    percent: int, workers: dict[str, Marked]
) -> None:
    unmarked = {name: Marked(worker.slots, None) for name, worker in workers.items()}

    assert kept(percent, unmarked) >= reserve_size(percent, sum(worker.slots for worker in workers.values()))


@given(PERCENTS, WORKERS, st.integers(1, 32))
def test_one_worker_more_or_less_changes_few_marks(percent: int, workers: dict[str, Marked], slots: int) -> None:
    before = marked(workers, plan_marks(percent, workers))
    more = {**before, "new": Marked(slots, None)}
    after = marked(more, plan_marks(percent, more))
    del after["new"]

    assert len(plan_marks(percent, more)) <= 2
    assert len(plan_marks(percent, after)) <= 2
