"""The worker as a whole process: signals, its log, and that its jobs die with it, however it dies."""

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from typing import IO, Any

import orjson
import pytest

from fencepost.api.codec import decode_result
from fencepost.core.run_state import Outcome, Result
from tests.unit.worker import lone_worker
from tests.unit.worker.stage import key_of
from tests.unit.worker.test_process import alive

LIMIT_S = 20.0
ROOT = Path(__file__).parents[3]

FAMILY = """
echo pid $$
sleep 1000 & echo pid $!
setsid sh -c 'echo pid $$; exec sleep 1000' &
wait
"""
"""A job with a child in its group and a grandchild that has left it."""


class LoneWorker:
    """One worker process."""

    def __init__(self, scratch: Path, script: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, lone_worker.__file__, str(scratch), script],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._printed, self._said = _lines_of(self._process.stdout), _lines_of(self._process.stderr)

    def line(self) -> dict[str, Any]:
        """The next line of its log of jobs."""
        line: dict[str, Any] = orjson.loads(self._printed.get(timeout=LIMIT_S))
        return line

    def pids(self, count: int) -> list[int]:
        """What a family of so many processes has said."""
        return [int(self.line()["line"].removeprefix("pid ")) for _ in range(count)]

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def signal_group(self, number: int) -> None:
        os.killpg(self._process.pid, number)

    def heard(self, words: str) -> str:
        """What it says of itself, as soon as that holds these words."""
        while words not in (said := self._said.get(timeout=LIMIT_S)):
            pass
        return said

    def end(self) -> tuple[int, Result]:
        """Its exit code, and the result of its job."""
        last = orjson.loads(self.heard('{"code"'))
        assert self._process.wait(LIMIT_S) == last["code"]
        return last["code"], decode_result(last["results"][key_of(0)])

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def _lines_of(pipe: IO[bytes] | None) -> Queue[str]:
    """The lines that come out of a pipe, read by a thread until its end."""
    assert pipe is not None
    lines: Queue[str] = Queue()

    def read() -> None:
        with pipe:
            for line in pipe:
                lines.put(line.decode())

    threading.Thread(target=read, daemon=True).start()
    return lines


Start = Callable[[str], LoneWorker]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts workers with one job, which runs the given script."""
    workers: list[LoneWorker] = []

    def make(script: str) -> LoneWorker:
        workers.append(LoneWorker(tmp_path, script))
        return workers[-1]

    yield make
    for worker in workers:
        worker.close()


def wait_until_dead(pid: int) -> None:
    """Until the process is gone, or a zombie that somebody else has to reap."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended, _, _ = select.select([descriptor], [], [], LIMIT_S)
    os.close(descriptor)
    assert ended, f"process {pid} lives on"


@pytest.mark.parametrize("whole_group", [False, True])
def test_a_killed_worker_takes_its_jobs_and_their_children_with_it(start: Start, whole_group: bool) -> None:
    worker = start(FAMILY)
    pids = worker.pids(3)
    assert all(alive(pid) for pid in pids)
    if whole_group:
        worker.signal_group(signal.SIGKILL)
    else:
        worker.signal(signal.SIGKILL)
    for pid in pids:
        wait_until_dead(pid)


def test_a_killed_worker_leaves_no_folder_behind(start: Start, tmp_path: Path) -> None:
    worker = start("mkdir -p a/b; touch a/b/c; echo pid $$; sleep 1000")
    [pid] = worker.pids(1)
    [guardian] = [child for child in children_of(worker.pid) if child != pid]
    assert list(tmp_path.glob("*/*/a/b/c"))
    worker.signal(signal.SIGKILL)
    wait_until_dead(guardian)
    assert list(tmp_path.iterdir()) == []


def test_the_guardian_is_deaf_to_signals_that_are_meant_for_the_worker(start: Start) -> None:
    worker = start(FAMILY)
    pids = worker.pids(3)
    [guardian] = [pid for pid in children_of(worker.pid) if pid not in pids]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(guardian, number)
    worker.signal(signal.SIGKILL)
    for pid in (*pids, guardian):
        wait_until_dead(pid)


def test_a_job_prints_into_the_workers_log_with_its_name(start: Start) -> None:
    line = start("echo hello; sleep 1000").line()
    assert {name: line[name] for name in ("namespace", "run", "task", "index", "attempt", "line")} == {
        "namespace": "analytics",
        "run": "etl-1796040000",
        "task": "load",
        "index": 0,
        "attempt": 1,
        "line": "hello",
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_the_job_end_and_the_worker_exits_with_0(start: Start, number: int) -> None:
    worker = start("pwd; until test -e done; do sleep 0.01; done; echo 42 > $FENCEPOST_OUTPUT")
    folder = Path(worker.line()["line"])
    worker.signal(number)
    worker.heard("is draining")
    (folder / "done").touch()
    code, result = worker.end()
    assert (code, result.outcome, result.output) == (0, Outcome.SUCCEEDED, "42\n")
    assert not folder.exists()


def test_the_second_signal_stops_the_job(start: Start) -> None:
    worker = start("trap 'echo stopping; exit 9' TERM; echo started; while :; do sleep 0.01; done")
    worker.line()
    worker.signal(signal.SIGTERM)
    worker.heard("is draining")
    worker.signal(signal.SIGTERM)
    while worker.line()["line"] != "stopping":
        pass
    code, result = worker.end()
    assert (code, result.outcome, result.exit_code) == (0, Outcome.STOPPED, 9)


def children_of(pid: int) -> list[int]:
    """The processes whose parent it is."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
