"""The worker's own log of what jobs print: one JSON object a line, written by a thread.

Whoever reads a worker's standard output may stop reading; a write would then stop the event loop, and with it the
renewal of the Lease while jobs run on. So only this thread waits, and the loop looks at how much waits with it.
"""

import contextlib
import os
import queue
import threading
from collections.abc import Sequence
from typing import Final

import orjson

from fencepost.api.times import format_time
from fencepost.base.clock import Clock
from fencepost.worker.output import OutputLine
from fencepost.worker.runner import JobSource

WAITING_BYTES_MAX: Final = 1024 * 1024
CLOSE_PATIENCE_S: Final = 2.0
"""How long the end of the process waits for a reader that has stopped reading."""


class JsonJobLog:
    """Lines as JSON to a file descriptor, which stays open."""

    def __init__(self, descriptor: int, clock: Clock) -> None:
        self._descriptor = descriptor
        self._clock = clock
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._given_bytes = 0
        self._written_bytes = 0
        self._thread = threading.Thread(target=self._write_all, name="job-log", daemon=True)
        self._thread.start()

    @property
    def full(self) -> bool:
        return self._given_bytes - self._written_bytes > WAITING_BYTES_MAX

    def write(self, source: JobSource, lines: Sequence[OutputLine]) -> None:
        label = {
            "time": format_time(self._clock.now_s(), millis=True),
            "namespace": source.run.namespace,
            "run": source.run.name,
            "task": source.job.task,
            "index": source.job.index,
            "attempt": source.attempt,
        }
        # The label is the same for all of these lines: each only adds its end.
        head = orjson.dumps(label)[:-1] + b',"line":'
        data = b"".join(head + orjson.dumps(line.text) + (b',"cut":true}\n' if line.cut else b"}\n") for line in lines)
        self._given_bytes += len(data)
        self._queue.put(data)

    def close(self) -> None:
        """Wait for what has been given, but not for ever."""
        self._queue.put(None)
        self._thread.join(CLOSE_PATIENCE_S)

    def _write_all(self) -> None:
        while (data := self._queue.get()) is not None:
            left = memoryview(data)
            # A reader that has gone for good takes nothing more: what is printed is dropped then.
            with contextlib.suppress(OSError):
                while left:
                    left = left[os.write(self._descriptor, left) :]
            self._written_bytes += len(data)
