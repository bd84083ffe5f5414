"""Sets of small integers kept as intervals, written as `0-8123,8130`.

A fan-out of ten thousand jobs settles nearly in order, so its ended jobs are a handful of intervals: the run's object
stays small, and joining two sets is one walk over their intervals. In the worst case, every other index, an interval
holds one index.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from heapq import merge


class IntervalSet:
    """A set of non-negative integers. Immutable: `union` gives a new one."""

    __slots__ = ("_firsts", "_lasts", "_size")

    def __init__(self, firsts: tuple[int, ...] = (), lasts: tuple[int, ...] = ()) -> None:
        """Sorted, disjoint, non-adjacent closed intervals; use `of` or `parse_intervals` to build one."""
        self._firsts = firsts
        self._lasts = lasts
        self._size = sum(last - first + 1 for first, last in zip(firsts, lasts, strict=True))

    @staticmethod
    def of(numbers: Iterable[int]) -> "IntervalSet":
        """The set of these numbers."""
        firsts: list[int] = []
        lasts: list[int] = []
        for number in sorted(set(numbers)):
            if lasts and lasts[-1] == number - 1:
                lasts[-1] = number
            else:
                firsts.append(number)
                lasts.append(number)
        return IntervalSet(tuple(firsts), tuple(lasts))

    @staticmethod
    def span(first: int, last: int) -> "IntervalSet":
        """All numbers from `first` to `last`, both included; empty when last < first."""
        return IntervalSet((first,), (last,)) if first <= last else EMPTY

    def __len__(self) -> int:
        return self._size

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._firsts, number) - 1
        return at >= 0 and number <= self._lasts[at]

    def __iter__(self) -> Iterator[int]:
        for first, last in zip(self._firsts, self._lasts, strict=True):
            yield from range(first, last + 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntervalSet) and self._firsts == other._firsts and self._lasts == other._lasts

    def __hash__(self) -> int:
        return hash((self._firsts, self._lasts))

    def __repr__(self) -> str:
        return f"IntervalSet({self})"

    def __str__(self) -> str:
        return ",".join(
            str(first) if first == last else f"{first}-{last}"
            for first, last in zip(self._firsts, self._lasts, strict=True)
        )

    def with_number(self, number: int) -> "IntervalSet":
        """The same numbers and this one. Costs two copies of short tuples, where a union walks over all intervals."""
        at = bisect_right(self._firsts, number)
        if at and number <= self._lasts[at - 1]:
            return self
        joins_left = at > 0 and self._lasts[at - 1] == number - 1
        joins_right = at < len(self._firsts) and self._firsts[at] == number + 1
        made = IntervalSet()
        made._firsts = self._firsts[:at] + (() if joins_left else (number,)) + self._firsts[at + joins_right :]
        made._lasts = self._lasts[: at - joins_left] + (() if joins_right else (number,)) + self._lasts[at:]
        made._size = self._size + 1
        return made

    def union(self, other: "IntervalSet") -> "IntervalSet":
        """The numbers of either set."""
        if not self._size or not other._size:
            return self if self._size else other
        if other._size == 1:
            return self.with_number(other._firsts[0])
        firsts: list[int] = []
        lasts: list[int] = []
        pairs = merge(zip(self._firsts, self._lasts, strict=True), zip(other._firsts, other._lasts, strict=True))
        for first, last in pairs:
            if lasts and first <= lasts[-1] + 1:
                lasts[-1] = max(lasts[-1], last)
            else:
                firsts.append(first)
                lasts.append(last)
        return IntervalSet(tuple(firsts), tuple(lasts))

    def difference(self, other: "IntervalSet") -> "IntervalSet":
        """The numbers of this set that are not in the other."""
        if not self._size or not other._size:
            return self
        firsts: list[int] = []
        lasts: list[int] = []
        cut = 0
        for first, last in zip(self._firsts, self._lasts, strict=True):
            while cut < len(other._lasts) and other._lasts[cut] < first:
                cut += 1
            start, within = first, cut
            while within < len(other._firsts) and other._firsts[within] <= last:
                if start < other._firsts[within]:
                    firsts.append(start)
                    lasts.append(other._firsts[within] - 1)
                start = other._lasts[within] + 1
                within += 1
            if start <= last:
                firsts.append(start)
                lasts.append(last)
        return IntervalSet(tuple(firsts), tuple(lasts))

    def intersection(self, other: "IntervalSet") -> "IntervalSet":
        """The numbers of both sets."""
        return self.difference(self.difference(other))

    def gaps(self, size: int) -> Iterator[int]:
        """The numbers of range(size) that are not in the set, ascending; lazy, so the first few cost little."""
        start = 0
        for first, last in zip(self._firsts, self._lasts, strict=True):
            yield from range(start, min(first, size))
            start = last + 1
        yield from range(start, size)


EMPTY = IntervalSet()


def parse_intervals(text: str) -> IntervalSet:
    """The inverse of `str(IntervalSet)`; ValueError for anything else, unsorted or overlapping parts included."""
    if not text:
        return EMPTY
    firsts: list[int] = []
    lasts: list[int] = []
    for part in text.split(","):
        head, dash, tail = part.partition("-")
        if not head.isdecimal() or (dash and not tail.isdecimal()):
            raise ValueError(f"{part!r} in {text[:80]!r} is neither a number nor an interval")
        first, last = int(head), int(tail) if dash else int(head)
        if last < first or (lasts and first <= lasts[-1] + 1):
            raise ValueError(f"{part!r} in {text[:80]!r} is out of order")
        firsts.append(first)
        lasts.append(last)
    return IntervalSet(tuple(firsts), tuple(lasts))
