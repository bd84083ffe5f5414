"""Interval sets against plain sets of numbers."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.intervals import EMPTY, IntervalSet, parse_intervals

NUMBERS = st.sets(st.integers(0, 40))


@given(NUMBERS)
def test_a_set_holds_its_numbers_in_order_and_no_others(numbers: set[int]) -> None:
    intervals = IntervalSet.of(numbers)

    assert list(intervals) == sorted(numbers)
    assert len(intervals) == len(numbers)
    assert {number for number in range(-1, 42) if number in intervals} == numbers


@given(NUMBERS, NUMBERS)
def test_a_union_holds_the_numbers_of_either(left: set[int], right: set[int]) -> None:
    assert IntervalSet.of(left).union(IntervalSet.of(right)) == IntervalSet.of(left | right)


@given(NUMBERS, NUMBERS)
def test_differences_and_intersections_are_those_of_sets(left: set[int], right: set[int]) -> None:
    one, other = IntervalSet.of(left), IntervalSet.of(right)

    assert one.difference(other) == IntervalSet.of(left - right)
    assert one.intersection(other) == IntervalSet.of(left & right)


@given(NUMBERS, st.integers(0, 45))
def test_gaps_are_the_numbers_below_a_size_that_are_missing(numbers: set[int], size: int) -> None:
    assert list(IntervalSet.of(numbers).gaps(size)) == sorted(set(range(size)) - numbers)


def test_the_first_gaps_of_a_huge_range_cost_little() -> None:
    gaps = IntervalSet.of([1]).gaps(10**15)

    assert [next(gaps), next(gaps), next(gaps)] == [0, 2, 3]


@given(NUMBERS)
def test_a_set_reads_back_as_it_was_written(numbers: set[int]) -> None:
    intervals = IntervalSet.of(numbers)

    assert parse_intervals(str(intervals)) == intervals


@given(NUMBERS, NUMBERS)
def test_sets_are_equal_exactly_when_they_hold_the_same(left: set[int], right: set[int]) -> None:
    one, other = IntervalSet.of(left), IntervalSet.of(right)

    assert (one == other) == (left == right)
    assert left != right or hash(one) == hash(other)


def test_neighbours_are_written_as_one_interval() -> None:
    assert str(IntervalSet.of([9, 0, 1, 2, 5])) == "0-2,5,9"
    assert repr(IntervalSet.of([0, 1])) == "IntervalSet(0-1)"


def test_a_span_is_every_number_between_two_and_nothing_when_they_are_crossed() -> None:
    assert IntervalSet.span(3, 5) == IntervalSet.of([3, 4, 5])
    assert IntervalSet.span(5, 3) == EMPTY


def test_a_set_of_intervals_is_no_set_of_numbers() -> None:
    assert IntervalSet.of([1]) != {1}


@pytest.mark.parametrize("text", ["x", "-", "1-", "-1", "1-x", "1,", "5-3", "3,1", "1,1", "1-3,4", "1-3,2-5", "1 ,3"])
def test_what_no_set_is_written_like_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        parse_intervals(text)
