"""A job's output: whole lines whatever the pieces, bounded memory, and a worker that is never held up."""

import asyncio
import itertools
import os
from collections.abc import Sequence

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.base.clock import SystemClock
from fencepost.core.names import JobKey, RunKey
from fencepost.worker import job_log as job_log_module
from fencepost.worker.job_log import JsonJobLog
from fencepost.worker.output import LINE_BYTES_MAX, TAIL_BYTES_MAX, LineCutter, OutputLine, Pump
from fencepost.worker.runner import JobSource

SOURCE = JobSource(RunKey("analytics", "etl-1"), JobKey("load", 3), 2)


class ListLog:
    """A log that keeps what it is given."""

    def __init__(self) -> None:
        self.full = False
        self.lines: list[OutputLine] = []

    def write(self, source: JobSource, lines: Sequence[OutputLine]) -> None:
        assert source is SOURCE
        self.lines += lines


class Pipe:
    """A job's end of a pipe, and the pump at the other."""

    def __init__(self) -> None:
        self.log = ListLog()
        read_end, self.write_end = os.pipe()
        os.set_blocking(read_end, False)
        self.pump = Pump(read_end, SOURCE, self.log)

    async def until(self, lines: int) -> None:
        async with asyncio.timeout(10):
            while len(self.log.lines) < lines:  # noqa: ASYNC110 - a pipe is what is waited for
                await asyncio.sleep(0.001)


def cut(*pieces: bytes) -> list[OutputLine]:
    cutter = LineCutter()
    lines = [line for piece in pieces for line in cutter.feed(piece)]
    return lines + cutter.end()


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=6))
def test_lines_do_not_depend_on_the_pieces_they_come_in(data: bytes, places: list[int]) -> None:
    bounds = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    pieces = [data[first:last] for first, last in itertools.pairwise(bounds)]
    want = data.split(b"\n")
    if want[-1] == b"":
        want.pop()
    assert [line.text for line in cut(*pieces)] == [line.decode(errors="replace") for line in want]


@pytest.mark.parametrize("piece_bytes", [1000, 16 * 1024, 100 * 1024])
def test_a_line_that_is_too_long_is_cut_and_marked_and_the_next_one_is_whole(piece_bytes: int) -> None:
    data = b"before\n" + b"x" * 50_000 + b"\nafter\n" + b"y" * 20_000
    lines = cut(*(data[at : at + piece_bytes] for at in range(0, len(data), piece_bytes)))
    assert [line.cut for line in lines] == [False, True, False, True]
    assert [line.text[:6] for line in lines] == ["before", "xxxxxx", "after", "yyyyyy"]
    assert len(lines[1].text) == len(lines[3].text) == LINE_BYTES_MAX


def test_a_line_of_exactly_the_limit_is_whole() -> None:
    assert cut(b"x" * LINE_BYTES_MAX + b"\n") == [OutputLine("x" * LINE_BYTES_MAX)]


async def test_the_tail_is_the_end_of_all_that_was_printed() -> None:
    pipe = Pipe()
    os.write(pipe.write_end, b"first\n" + "ä".encode() * TAIL_BYTES_MAX + b"\nlast words\n")
    await pipe.until(lines=3)
    os.close(pipe.write_end)
    tail = pipe.pump.finish()
    assert tail.endswith("ä\nlast words")
    assert len(tail.encode()) <= TAIL_BYTES_MAX


async def test_what_is_still_in_the_pipe_at_the_end_is_read_though_somebody_holds_it_open() -> None:
    pipe = Pipe()
    os.write(pipe.write_end, b"one\ntwo")
    assert pipe.pump.finish() == "one\ntwo"
    assert pipe.log.lines == [OutputLine("one"), OutputLine("two")]
    with pytest.raises(BrokenPipeError):
        os.write(pipe.write_end, b"three")
    os.close(pipe.write_end)


async def test_a_job_that_closes_its_output_and_lives_on_is_let_alone() -> None:
    pipe = Pipe()
    os.write(pipe.write_end, b"bye\n")
    os.close(pipe.write_end)
    await pipe.until(lines=1)
    assert pipe.pump.finish() == "bye"


async def test_a_full_log_leaves_the_output_in_the_pipe_until_it_can_take_more() -> None:
    pipe = Pipe()
    pipe.log.full = True
    os.write(pipe.write_end, b"one\n")
    for _ in range(20):
        await asyncio.sleep(0)
    assert pipe.log.lines == []
    pipe.log.full = False
    await pipe.until(lines=1)
    os.close(pipe.write_end)
    pipe.pump.finish()


def test_each_line_becomes_one_json_object_with_its_job() -> None:
    read_end, write_end = os.pipe()
    log = JsonJobLog(write_end, SystemClock())
    log.write(SOURCE, [OutputLine('say "hi"\t\x00'), OutputLine("long", cut=True)])
    log.close()
    os.close(write_end)
    with os.fdopen(read_end, "rb") as file:
        first, second = [orjson.loads(line) for line in file]
    assert first.pop("time").endswith("Z")
    assert first == {
        "namespace": "analytics",
        "run": "etl-1",
        "task": "load",
        "index": 3,
        "attempt": 2,
        "line": 'say "hi"\t\x00',
    }
    assert (second["line"], second["cut"]) == ("long", True)


def test_a_reader_that_has_stopped_reading_holds_up_neither_writes_nor_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_log_module, "CLOSE_PATIENCE_S", 0.1)
    read_end, write_end = os.pipe()
    log = JsonJobLog(write_end, SystemClock())
    while not log.full:
        log.write(SOURCE, [OutputLine("x" * 1000)] * 100)
    clock = SystemClock()
    closed_at_s = clock.steady_s()
    log.close()
    assert clock.steady_s() - closed_at_s < 5
    os.close(read_end)
    os.close(write_end)


def test_a_reader_that_has_gone_is_no_error() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    log = JsonJobLog(write_end, SystemClock())
    log.write(SOURCE, [OutputLine("nobody hears")])
    log.close()
    assert not log.full
    os.close(write_end)
