"""Starts a daemon: one that dies with this process, or one that outlives it.

Dying together is the kernel's PR_SET_PDEATHSIG, so it holds even when this process is killed outright.
Two traps in it, and what is done about them:

- The signal comes when the *thread* that forked ends, not the process. So every daemon is forked by one
  thread that lives as long as the process.
- Setting it between fork and exec is not safe in a process with threads. So a tiny Python program is
  started instead, which sets it on itself, looks whether the parent is still there, and becomes the daemon.

Daemons lead a session of their own: a Ctrl-C in the terminal reaches us first, and we end them in order.
"""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.e2e.controlplane.processes import Process

SHIM = """
import ctypes, os, sys
PR_SET_PDEATHSIG, SIGKILL = 1, 9
parent, command = int(sys.argv[1]), sys.argv[2:]
if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0:
    sys.exit(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}")
if os.getppid() != parent:
    sys.exit("the process that wanted this one is gone")
os.execv(command[0], command)
"""
PYTHON_FLAGS = ("-I", "-S")  # no site packages, nothing from the environment: it starts in 15 ms

_spawners: dict[int, ThreadPoolExecutor] = {}


def spawn(command: list[str], log: Path, *, outlives_us: bool) -> Process:
    """Start `command` with its output appended to `log`.

    The pid is the daemon's own. Raises OSError where the program cannot be started; an exec that fails
    later shows as a daemon that died, with the reason in its log.
    """
    if outlives_us:
        return Process.of(_start(command, log))
    wrapped = [sys.executable, *PYTHON_FLAGS, "-c", SHIM, str(os.getpid()), *command]
    return Process.of(_spawner().submit(_start, wrapped, log).result())


def _spawner() -> ThreadPoolExecutor:
    """The one thread that forks; a process made by os.fork() has lost it and gets its own."""
    pid = os.getpid()
    if pid not in _spawners:
        _spawners[pid] = ThreadPoolExecutor(max_workers=1, thread_name_prefix="controlplane-spawner")
    return _spawners[pid]


def _start(command: list[str], log: Path) -> int:
    return os.posix_spawn(
        command[0],
        command,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=[signal.SIGPIPE],  # Python ignores it, and an ignored signal is inherited
    )
