"""One process at a time, by a lock on a file that the kernel releases when its holder dies.

The descriptor is not inherited (Python's default), so a daemon that is started under the lock does not
keep it.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.controlplane.errors import ControlPlaneError
from tests.e2e.controlplane.waiting import eventually


@contextmanager
def exclusive(path: Path, *, limit_s: float, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock on `path`; `on_wait` is called once if somebody else has it.

    Raises ControlPlaneError after `limit_s` seconds of waiting.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        if not _try_lock(file.fileno()):
            on_wait()
            _wait_for_lock(path, file.fileno(), limit_s)
        yield


def _wait_for_lock(path: Path, descriptor: int, limit_s: float) -> None:
    try:
        eventually(f"{path} is free", lambda: _try_lock(descriptor), limit_s=limit_s)
    except TimeoutError as late:
        raise ControlPlaneError(
            f"{path} has been locked by another process for {limit_s:.0f} s: "
            f"wait for it to end, or look who it is by `fuser {path}`"
        ) from late


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
