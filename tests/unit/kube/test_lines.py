"""Lines come out the same however the bytes were cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.kube.lines import LINE_BYTES_MAX, LineSplitter, LineTooLongError


@given(st.lists(st.binary().map(lambda line: line.replace(b"\n", b"")), max_size=8), st.lists(st.integers(1, 9)))
def test_the_lines_do_not_depend_on_the_cuts(lines: list[bytes], sizes: list[int]) -> None:
    content = b"".join(line + b"\n" for line in lines)
    splitter, got, at = LineSplitter(), [], 0
    for size in [*sizes, len(content) + 1]:
        got += splitter.feed(content[at : at + size])
        at += size
    assert got == [line for line in lines if line]


def test_a_line_with_no_end_is_refused_before_it_fills_the_memory() -> None:
    splitter = LineSplitter()
    splitter.feed(b"x" * LINE_BYTES_MAX)
    with pytest.raises(LineTooLongError):
        splitter.feed(b"x")
