"""The folder of a worker: its own as long as it lives, and removed by whoever comes after it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.worker.scratch import Scratch

HOLD = """
import sys, time
from pathlib import Path
from fencepost.worker.scratch import Scratch
print(Scratch(sys.argv[1], Path(sys.argv[2])).folder(), flush=True)
time.sleep(1000)
"""


def test_each_job_has_a_folder_that_goes_with_the_workers(tmp_path: Path) -> None:
    scratch = Scratch("w1-aaaaa", tmp_path)
    one, other = Path(scratch.folder()), Path(scratch.folder())
    assert one != other
    assert one.stat().st_mode & 0o077 == 0
    (one / "left behind").touch()
    scratch.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_worker_of_the_same_pod_has_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    def process(worker: str) -> tuple[subprocess.Popen[str], Path]:
        made = subprocess.Popen(
            [sys.executable, "-c", HOLD, worker, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert made.stdout is not None
        return made, Path(made.stdout.readline().strip())

    dead, left = process("w1-aaaaa")
    dead.send_signal(signal.SIGKILL)
    dead.wait()
    elsewhere = tmp_path / "w2-aaaaa.folder"
    elsewhere.mkdir()
    assert left.exists()
    living, kept = process("w1-bbbbb")
    try:
        assert not left.exists()
        Scratch("w1-ccccc", tmp_path).close()
        assert kept.exists(), "its worker lives"
        assert elsewhere.exists(), "it is another pod's"
    finally:
        living.kill()
        living.communicate()


def test_a_place_where_no_folder_can_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"absent.* name another with --scratch"):
        Scratch("w1-aaaaa", tmp_path / "absent")
