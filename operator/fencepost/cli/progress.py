"""What is shown of a run while it goes on: plain lines, one for each change, wherever nobody watches a terminal.

Two displays, one protocol. A display is the jobs' log as well, since both write to one place and may not mix.
"""

import queue
import threading
from collections.abc import Sequence
from typing import Final, Protocol, TextIO

from fencepost.cli.ledger import Ledger
from fencepost.cli.narration import job_label, narrate
from fencepost.cli.streams import discard
from fencepost.core.graph import Graph
from fencepost.core.run_state import RunState
from fencepost.worker.output import JobLog, OutputLine
from fencepost.worker.runner import JobSource

WAITING_LENGTH_MAX: Final = 1024 * 1024
"""Characters that wait for the reader of our output; from then on jobs' pipes are not read, so the jobs wait."""


class Display(JobLog, Protocol):
    """Shows one run."""

    def note(self, line: str) -> None:
        """Something to say that is no change of the run."""
        ...

    def update(self, before: RunState, ledger: Ledger, /) -> None:
        """The run has changed from `before` to what the ledger says."""
        ...

    def refresh(self) -> None:
        """To be called a few times a second: time goes on even while nothing changes."""
        ...

    def close(self) -> None:
        """Show what has not been shown yet, and end."""
        ...


class PlainDisplay:
    """Lines to a stream, written by a thread: a reader who pauses stops neither the jobs' time limits nor Ctrl-C."""

    def __init__(self, stream: TextIO, graph: Graph, *, show_output: bool) -> None:
        self._stream = stream
        self._graph = graph
        self._show_output = show_output
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._given = 0
        self._written = 0
        self._thread = threading.Thread(target=self._write_all, name="display", daemon=True)
        self._thread.start()

    @property
    def full(self) -> bool:
        return self._given - self._written > WAITING_LENGTH_MAX

    def write(self, source: JobSource, lines: Sequence[OutputLine]) -> None:
        if self._show_output:
            label = job_label(self._graph, source.job)
            self._put("".join(f"{label} | {line.text}\n" for line in lines))

    def note(self, line: str) -> None:
        self._put(f"{line}\n")

    def update(self, before: RunState, ledger: Ledger) -> None:
        text = "".join(f"{line}\n" for line in narrate(before, ledger))
        if text:
            self._put(text)

    def refresh(self) -> None:
        """Nothing: lines do not change."""

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _put(self, text: str) -> None:
        self._given += len(text)
        self._queue.put(text)

    def _write_all(self) -> None:
        while (text := self._queue.get()) is not None:
            try:
                self._stream.write(text)
                self._stream.flush()
            except (OSError, ValueError):
                # The reader has gone for good. The run goes on; who wants it to end says so.
                discard(self._stream)
            self._written += len(text)
