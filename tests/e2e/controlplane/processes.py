"""A process by an identity that cannot come to mean another one.

The trick: a pid alone is re-used, so we keep with it when the process started (clock ticks since boot, which
the kernel reports and no process can change) and which boot that was. A signal is sent through a pidfd that
was opened *before* the identity was compared: between the look and the signal nobody can slip in.

Linux only: it reads /proc.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

PROC = Path("/proc")
BOOT_ID_FILE = PROC / "sys/kernel/random/boot_id"
STATE_FIELD = 0  # fields of /proc/PID/stat, counted after the name in brackets
START_FIELD = 19
KILL_LIMIT_S = 10.0
STOPPED_STATE = "T"
DEAD_STATES = frozenset({"Z", "X"})


@dataclass(frozen=True)
class Process:
    """One process, running or not."""

    pid: int
    start_ticks: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> Process:
        """The process that has this pid now; raises ProcessLookupError where there is none."""
        fields = _stat(pid)
        if fields is None:
            raise ProcessLookupError(f"no process {pid}")
        return cls(pid, int(fields[START_FIELD]), _boot_id())

    @classmethod
    def load(cls, file: Path) -> Process | None:
        """What `save` wrote, or None where the file is missing or not ours."""
        try:
            values = json.loads(file.read_text())
            return cls(int(values["pid"]), int(values["start_ticks"]), str(values["boot"]))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def save(self, file: Path) -> None:
        """Whole or not at all: a reader never sees half a file."""
        temporary = file.with_suffix(".partial")
        temporary.write_text(json.dumps(asdict(self)) + "\n")
        temporary.replace(file)

    @property
    def running(self) -> bool:
        """True while this very process lives; a stopped one (SIGSTOP) lives, a zombie doesn't."""
        fields = _stat(self.pid)
        return fields is not None and fields[STATE_FIELD] not in DEAD_STATES and self._is_ours(fields)

    @property
    def paused(self) -> bool:
        """True while SIGSTOP holds it, with every thread: they stop one after the other."""
        states = _thread_states(self.pid)
        return self.running and bool(states) and all(state == STOPPED_STATE for state in states)

    def send(self, *numbers: signal.Signals) -> None:
        """Send signals in turn; does nothing where the process has ended."""
        with self._descriptor() as descriptor:
            for number in numbers:
                if descriptor is not None:
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(descriptor, number)

    def wait(self, limit_s: float) -> bool:
        """Wait for its end, also where it is nobody's child here; False if the limit came first."""
        with self._descriptor() as descriptor:
            if descriptor is None:
                return True
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            return bool(poll.poll(limit_s * 1000))

    def end(self, grace_s: float) -> bool:
        """SIGTERM (a paused process is woken to see it), then SIGKILL after `grace_s`; True once it is gone."""
        self.send(signal.SIGTERM, signal.SIGCONT)
        return self.wait(grace_s) or self.kill()

    def kill(self, limit_s: float = KILL_LIMIT_S) -> bool:
        """SIGKILL; True once it is gone."""
        self.send(signal.SIGKILL)
        return self.wait(limit_s)

    @contextmanager
    def _descriptor(self) -> Iterator[int | None]:
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            yield None
            return
        try:
            # A zombie too: its first thread may be one while the others still end, and nobody can reap it until then.
            fields = _stat(self.pid)
            yield descriptor if fields is not None and self._is_ours(fields) else None
        finally:
            os.close(descriptor)

    def _is_ours(self, stat: list[str]) -> bool:
        return int(stat[START_FIELD]) == self.start_ticks and self.boot == _boot_id()


def reap(pid: int) -> int | None:
    """The exit code of a child of ours that has ended (negative: the signal), or None if it tells none."""
    try:
        reaped, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if reaped == pid else None


def _stat(pid: int) -> list[str] | None:
    return _fields(PROC / str(pid) / "stat")


def _fields(file: Path) -> list[str] | None:
    try:
        text = file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()  # a process may have brackets and spaces in its name


def _thread_states(pid: int) -> list[str]:
    found = [_fields(file) for file in (PROC / str(pid) / "task").glob("*/stat")]
    return [fields[STATE_FIELD] for fields in found if fields is not None]


def _boot_id() -> str:
    return BOOT_ID_FILE.read_text().strip()
