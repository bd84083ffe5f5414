"""A pid file names one process of one boot, and a foreign process that re-used the pid is never touched."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.controlplane.processes import Process, reap
from tests.e2e.controlplane.spawn import spawn
from tests.e2e.controlplane.waiting import eventually

LIMIT_S = 20.0
IDLE = [sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()",
]
FIRST_THREAD_ENDS = [
    sys.executable,
    "-c",
    """
import ctypes, os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(3))).start()
print("up", flush=True)
ctypes.CDLL(None).pthread_exit(None)
""",
]
"""What a process of many threads looks like for a moment as it ends: its first thread is gone, another is not."""


@pytest.fixture
def idle() -> Iterator[subprocess.Popen[str]]:
    yield from running(IDLE)


@pytest.fixture
def stubborn() -> Iterator[subprocess.Popen[str]]:
    yield from running(STUBBORN)


def running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        yield child
        child.kill()


def another_with_the_same_pid(process: Process) -> Process:
    """What a pid file says whose process ended long ago."""
    return dataclasses.replace(process, start_ticks=process.start_ticks - 1)


def test_a_process_runs_until_it_ends_though_nobody_has_reaped_it(idle: subprocess.Popen[str]) -> None:
    process = Process.of(idle.pid)
    assert process.running

    assert process.end(LIMIT_S)

    assert not process.running
    assert Path(f"/proc/{idle.pid}").exists()  # a zombie


def test_a_process_whose_first_thread_is_gone_has_ended_when_all_are_and_its_code_can_be_told() -> None:
    with subprocess.Popen(FIRST_THREAD_ENDS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        process = Process.of(child.pid)
        assert eventually("its first thread has ended", lambda: not process.running)

        assert not process.wait(0)
        child.stdin.close()
        assert process.wait(LIMIT_S)

        assert reap(child.pid) == 3


def test_a_process_that_reused_the_pid_does_not_count_and_gets_no_signal(idle: subprocess.Popen[str]) -> None:
    stale = another_with_the_same_pid(Process.of(idle.pid))

    assert not stale.running
    assert stale.end(LIMIT_S)
    assert stale.kill()

    assert Process.of(idle.pid).running


def test_a_process_of_another_boot_does_not_count(idle: subprocess.Popen[str]) -> None:
    assert not dataclasses.replace(Process.of(idle.pid), boot="another").running


def test_a_paused_process_runs_and_can_be_ended(idle: subprocess.Popen[str]) -> None:
    process = Process.of(idle.pid)

    process.send(signal.SIGSTOP)

    assert eventually("it is paused", lambda: process.paused)
    assert process.running
    assert process.end(LIMIT_S)
    assert idle.wait() == -signal.SIGTERM


def test_a_process_that_ignores_sigterm_is_killed(stubborn: subprocess.Popen[str]) -> None:
    assert Process.of(stubborn.pid).end(grace_s=0.1)

    assert stubborn.wait() == -signal.SIGKILL


def test_waiting_for_a_process_has_a_limit(idle: subprocess.Popen[str]) -> None:
    assert not Process.of(idle.pid).wait(limit_s=0.01)


def test_a_pid_file_is_read_back_as_written(tmp_path: Path) -> None:
    ourselves = Process.of(os.getpid())
    ourselves.save(tmp_path / "pid.json")

    assert Process.load(tmp_path / "pid.json") == ourselves
    assert ourselves.running


@pytest.mark.parametrize("content", [None, "", "1234", '{"pid": 1}', '{"pid": "x", "start_ticks": 1, "boot": ""}'])
def test_a_file_that_is_no_pid_file_names_nobody(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "pid.json"
    if content is not None:
        file.write_text(content)

    assert Process.load(file) is None


@pytest.mark.parametrize("outlives_us", [False, True])
def test_a_daemon_has_the_pid_we_are_told_and_writes_to_its_log(tmp_path: Path, outlives_us: bool) -> None:
    log = tmp_path / "log"
    process = spawn([sys.executable, "-c", "import os; print(os.getpid())"], log, outlives_us=outlives_us)

    assert process.wait(LIMIT_S)
    assert log.read_text() == f"{process.pid}\n"
    os.waitpid(process.pid, 0)


SPAWNER = """
import sys, pathlib
from tests.e2e.controlplane.spawn import spawn
print(spawn(sys.argv[2:], pathlib.Path(sys.argv[1]), outlives_us={outlives_us}).pid, flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("outlives_us", [False, True])
def test_a_daemon_dies_with_its_starter_only_if_it_was_meant_to(tmp_path: Path, outlives_us: bool) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", SPAWNER.format(outlives_us=outlives_us), str(log), *IDLE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        daemon = Process.of(int(starter.stdout.readline()))
        eventually("the daemon is up", lambda: log.exists() and log.read_text() == "up\n")
        starter.kill()
        starter.wait()

    try:
        assert daemon.wait(LIMIT_S if not outlives_us else 0.2) is not outlives_us
    finally:
        daemon.kill()
