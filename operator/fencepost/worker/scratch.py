"""Where the folders of jobs are made, and what becomes of them when their worker dies.

A worker's own folder is locked as long as the worker lives, by a lock that the kernel lets go of with the process. The
guardian removes the folder of a worker that was killed; where the guardian dies too, as in a container whose first
process is killed, the next worker of the same pod finds the folder unlocked and removes it.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fencepost.core.names import NONCE_LENGTH


class Scratch:
    """One worker's folder, from now until `close`."""

    def __init__(self, worker: str, root: Path | None) -> None:
        """`root`: None: the system's place for temporary files. ValueError if no folder can be made there."""
        self._root = Path(tempfile.gettempdir()) if root is None else root
        for path in self._left_behind(worker[: -NONCE_LENGTH - 1]):
            shutil.rmtree(path, ignore_errors=True)
        try:
            # Nobody finds it under its name before it is locked.
            fresh = Path(tempfile.mkdtemp(prefix=f".{worker}.", dir=self._root))
        except OSError as error:
            raise ValueError(
                f"jobs cannot have folders in {self._root}: {error}; name another with --scratch"
            ) from error
        self._lock = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = fresh.rename(fresh.with_name(fresh.name.removeprefix(".")))
        self._made_count = 0

    def folder(self) -> str:
        """A new empty folder that no other user may look into; its path. OSError if there can be none."""
        self._made_count += 1
        path = f"{self.path}/{self._made_count}"
        os.mkdir(path, mode=0o700)
        return path

    def close(self) -> None:
        """Remove the worker's folder with all that is in it; a second time does nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def _left_behind(self, pod: str) -> Iterator[Path]:
        """The folders of workers of this pod that live no more."""
        for path in self._root.glob(f"{pod}-{'?' * NONCE_LENGTH}.*"):
            with contextlib.suppress(OSError):
                lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield path
                finally:
                    os.close(lock)
