"""Run as a process of its own: it waits for its worker's end, then kills whatever the worker's jobs have left, and
removes the folder in which they worked.

    python -I -S guardian_process.py FENCEPOST_WORKER=<name> FOLDER   (standard input: a pipe that the worker holds)

The pipe is at its end when the worker has gone, however it went. From then on each process whose environment holds the
marker is killed, again and again until two looks in a row have found none: one that is just being started shows up in
the second. Jobs' descendants carry the marker wherever they have moved; only who has wiped its environment, changed to
another user or become a privileged program is not seen.

It imports nothing but a few of the interpreter's own modules, as it lives as long as its worker. A session of its own
and blocked signals, given to it by `worker.guardian`, keep away what is meant for the worker.
"""

import contextlib
import os
import signal
import sys
import time

PASSES_CLEAN = 2
PAUSE_S = 0.02


def marked(marker: bytes) -> list[int]:
    """The processes that carry the marker; those that are only waiting to be reaped have no environment any more."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as environ:
                if marker in environ.read().split(b"\0"):
                    found.append(int(name))
    return found


def kill_marked(marker: bytes) -> None:
    """Kill until nobody carries the marker."""
    clean = 0
    while clean < PASSES_CLEAN:
        pids = marked(marker)
        clean = 0 if pids else clean + 1
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE_S)


def main() -> None:
    """Wait, kill, and clear up."""
    marker, folder = sys.argv[1:]
    while os.read(0, 1):
        pass
    kill_marked(os.fsencode(marker))
    from shutil import rmtree  # only now: it takes memory, and a guardian lives as long as its worker

    rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
