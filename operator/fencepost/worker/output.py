"""A job's output on its way to the worker's own log: read as it comes, cut into lines, never in the way of anything.

A job must not be able to hurt its worker by what it prints. It is read a small piece at a time; a line of any length
costs a fixed amount of memory; and while the log cannot take more, the job's pipe is simply not read, so that the job
waits and not the worker.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from fencepost.api.codec import MESSAGE_BYTES_MAX
from fencepost.worker.runner import JobSource

LINE_BYTES_MAX: Final = 16 * 1024
"""Of a line in the log; the rest of a longer one is dropped, and the line marked."""
TAIL_BYTES_MAX: Final = MESSAGE_BYTES_MAX
READ_BYTES: Final = 16 * 1024
"""At a time: a job that prints without end must leave the loop to others."""
REST_BYTES_MAX: Final = 64 * 1024
"""Read after a job has ended: what a pipe holds. Somebody who has left the job may go on writing for ever."""
LOG_FULL_PAUSE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class OutputLine:
    """One line, without its end."""

    text: str
    cut: bool = False
    """It was longer than LINE_BYTES_MAX."""


class JobLog(Protocol):
    """Where the output of jobs goes. Nothing here may block."""

    @property
    def full(self) -> bool:
        """Whether it cannot keep up: nothing more is read from any job until it can."""
        ...

    def write(self, source: JobSource, lines: Sequence[OutputLine]) -> None:
        """Take some lines of one job; also when it is full, as jobs that end have a last word."""
        ...


class LineCutter:
    """Bytes in pieces to lines."""

    def __init__(self) -> None:
        self._open = b""
        self._overlong = False

    def feed(self, piece: bytes) -> list[OutputLine]:
        """The lines that this piece completes."""
        *ended, self._open = (self._open + piece).split(b"\n")
        lines = [line for part in ended if (line := self._end(part)) is not None]
        if len(self._open) > LINE_BYTES_MAX:
            if not self._overlong:
                lines.append(_line(self._open))
            self._overlong = True
            self._open = b""
        return lines

    def end(self) -> list[OutputLine]:
        """What is left when nothing more comes."""
        line = self._end(self._open) if self._open else None
        self._open = b""
        return [] if line is None else [line]

    def _end(self, part: bytes) -> OutputLine | None:
        """A line of which the last part is here; None if it has been given out when it became too long."""
        if self._overlong:
            self._overlong = False
            return None
        return _line(part)


class Pump:
    """Reads one job's pipe into the log, from when it is made until it is closed."""

    def __init__(self, descriptor: int, source: JobSource, log: JobLog) -> None:
        """`descriptor` must not block; the pump closes it."""
        self._descriptor = descriptor
        self._source = source
        self._log = log
        self._cutter = LineCutter()
        self._tail = b""
        self._pause: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._on_readable)

    def finish(self) -> str:
        """The job has ended: take what is still in its pipe, whoever holds the other end, and close it. The tail."""
        rest = REST_BYTES_MAX
        while rest > 0 and (piece := self._read()):
            rest -= len(piece)
            self._take(self._cutter.feed(piece))
        self._take(self._cutter.end())
        self._loop.remove_reader(self._descriptor)
        if self._pause:
            self._pause.cancel()
        os.close(self._descriptor)
        return self._tail.decode(errors="replace").lstrip("\ufffd").strip("\n")

    def _on_readable(self) -> None:
        if self._log.full:
            self._loop.remove_reader(self._descriptor)
            self._pause = self._loop.call_later(LOG_FULL_PAUSE_S, self._resume)
            return
        piece = self._read()
        if piece:
            self._take(self._cutter.feed(piece))
        elif piece == b"":
            # Closed by the job, which may live on.
            self._loop.remove_reader(self._descriptor)

    def _resume(self) -> None:
        self._loop.add_reader(self._descriptor, self._on_readable)

    def _read(self) -> bytes | None:
        """Some bytes; none at the end of the pipe; None if there is nothing now."""
        try:
            piece = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return None
        self._tail = (self._tail + piece)[-TAIL_BYTES_MAX:]
        return piece

    def _take(self, lines: Sequence[OutputLine]) -> None:
        if lines:
            self._log.write(self._source, lines)


def _line(part: bytes) -> OutputLine:
    return OutputLine(part[:LINE_BYTES_MAX].decode(errors="replace"), cut=len(part) > LINE_BYTES_MAX)
