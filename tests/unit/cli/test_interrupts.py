"""Ctrl-C on a run in a process of its own: what its jobs hear, what it says, and that nothing is left of it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.files import dag, task, write

PATIENCE_S = 30.0
LOOK_S = 0.02

# Writes the numbers of the job's shell, of a child of it, and of one that has left the job's session.
FAMILY = "sleep 600 & setsid sleep 600 & echo $$ $! > family; touch started"
OBEDIENT = f"trap 'touch heard-term; exit 0' TERM; {FAMILY}; wait"
DEAF = f"trap '' TERM; {FAMILY}; while :; do wait; done"


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Look again and again, but not for ever."""
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up, f"{what} did not come true in {PATIENCE_S} s"
        time.sleep(LOOK_S)


def marked_processes(folder: Path) -> list[int]:
    """The processes that were started in this folder and live."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                if os.readlink(f"/proc/{name}/cwd") == str(folder):
                    found.append(int(name))
            except OSError:
                continue
    return found


@contextmanager
def running(folder: Path, *objects: dict[str, Any], options: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    """The command in a folder of its own, with its jobs under way."""
    file = write(folder / "dag.yaml", *objects)
    call = [sys.executable, "-c", "import sys; from fencepost.cli.app import main; sys.exit(main())", "run", file]
    process = subprocess.Popen(
        [*call, *options],
        cwd=folder,
        env=os.environ | {"TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_until((folder / "started").exists, "the start of the job")
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def end_of(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """Its exit code and its lines on standard output."""
    output, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, output.splitlines()


def test_ctrl_c_once_cancels_the_run_and_leaves_jobs_time_to_end(tmp_path: Path) -> None:
    waiting = task("waiting", "touch never", "family")
    with running(tmp_path, dag("long", task("family", OBEDIENT), waiting)) as process:
        process.send_signal(signal.SIGINT)
        code, lines = end_of(process)
    assert code == 1
    assert (tmp_path / "heard-term").exists()
    assert not (tmp_path / "never").exists()
    assert "cancelling the run: its jobs get 30.0 s to end; interrupt again to kill them" in lines
    assert "waiting: Cancelled" in lines
    assert lines[-1].split(": ")[1].startswith("Cancelled in ")
    wait_until(lambda: marked_processes(tmp_path) == [], "the end of the job's family")


def test_a_job_that_does_not_listen_is_killed_after_its_grace_period(tmp_path: Path) -> None:
    with running(tmp_path, dag("deaf", task("family", DEAF), terminationGracePeriod="100ms")) as process:
        process.send_signal(signal.SIGTERM)
        code, lines = end_of(process)
    assert code == 1
    assert lines[-1].split(": ")[1].startswith("Cancelled in ")
    wait_until(lambda: marked_processes(tmp_path) == [], "the end of the job's family")


def test_ctrl_c_twice_kills_the_run_at_once(tmp_path: Path) -> None:
    deaf = dag("deaf", task("family", DEAF), terminationGracePeriod="10m")
    with running(tmp_path, deaf, options=("--output", "json")) as process:
        process.send_signal(signal.SIGINT)
        # Two signals at once may arrive as one.
        assert process.stderr is not None
        assert any(line.startswith("cancelling the run") for line in iter(process.stderr.readline, ""))
        process.send_signal(signal.SIGINT)
        code, lines = end_of(process)
    assert code == 1
    whole = json.loads("\n".join(lines))
    assert whole["run"]["status"]["phase"] == "Running"
    wait_until(lambda: marked_processes(tmp_path) == [], "the end of the job's family")


def test_nothing_of_the_jobs_outlives_a_command_that_is_killed(tmp_path: Path) -> None:
    with running(tmp_path, dag("orphans", task("family", DEAF))) as process:
        assert len(marked_processes(tmp_path)) >= 4
        process.kill()
        wait_until(lambda: marked_processes(tmp_path) == [], "the end of the job's family")


def test_what_a_job_leaves_behind_ends_with_the_run(tmp_path: Path) -> None:
    with running(tmp_path, dag("litter", task("family", FAMILY))) as process:
        code, lines = end_of(process)
    assert (code, lines[-1].split(": ")[1][:9]) == (0, "Succeeded")
    assert marked_processes(tmp_path) == []


@pytest.mark.parametrize("lines", [1, 100_000])
def test_a_reader_that_has_gone_does_not_stop_the_run(lines: int, tmp_path: Path) -> None:
    script = f"touch started; until test -e gone; do sleep 0.02; done; yes | head -n {lines}; touch ended"
    with running(tmp_path, dag("unread", task("talk", script))) as process:
        assert process.stdout is not None
        process.stdout.close()
        (tmp_path / "gone").touch()
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
        process.stdout = None
    assert (tmp_path / "ended").exists()
