"""The worker's side of its guardian: starts it, holds its pipe, and starts another one should somebody end it.

It is given no environment at all: it would otherwise carry the marker of a worker in whose job this worker runs, and be
killed just when it is needed.
"""

import logging
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from fencepost.worker import guardian_process
from fencepost.worker.scratch import Scratch

MARKER_VARIABLE: Final = "FENCEPOST_WORKER"
DEAF_TO: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""Signals that are meant for the worker."""
FAREWELL_S: Final = 10.0
"""How long it may take to kill what is left."""

log = logging.getLogger(__name__)


class Guardian:
    """Sees to it that no job outlives its worker. From the first `ensure` to `close`."""

    def __init__(self, worker: str, scratch: Scratch) -> None:
        """`scratch`: removed as well when the worker has gone."""
        self.marker = {MARKER_VARIABLE: worker}
        """To be put into the environment of each job."""
        self._worker = worker
        self._scratch = scratch
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Of its process; None before the first `ensure`."""
        return None if self._process is None else self._process.pid

    def ensure(self) -> None:
        """Have a living guardian before a job is started; OSError if there can be none."""
        if self._process is not None and self._process.poll() is None:
            return
        if self._process is not None:
            log.warning("the guardian of worker %s has been ended from outside; starting another one", self._worker)
            self._release()
        # A mask is inherited, so it is deaf from its first moment.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, DEAF_TO)
        try:
            self._process = self._spawn()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def close(self) -> None:
        """Let it kill whatever jobs have left behind, and wait until it has."""
        if self._process is None:
            return
        self._release()
        try:
            self._process.wait(FAREWELL_S)
        except subprocess.TimeoutExpired:
            log.error("worker %s leaves processes behind that cannot be killed", self._worker)

    def _spawn(self) -> subprocess.Popen[bytes]:
        script = str(Path(guardian_process.__file__))
        return subprocess.Popen(
            [sys.executable, "-I", "-S", script, f"{MARKER_VARIABLE}={self._worker}", str(self._scratch.path)],
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _release(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
