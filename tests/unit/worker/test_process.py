"""Jobs as real processes: what they see, how they end, and that nothing of them is left."""

import asyncio
import ctypes
import errno
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from fencepost.core.names import JobKey, RunKey
from fencepost.core.outputs import LIST_BYTES_MAX, OUTPUT_BYTES_MAX
from fencepost.worker import process as process_module
from fencepost.worker.output import OutputLine
from fencepost.worker.process import ProcessJob, ProcessRunner
from fencepost.worker.runner import CannotStartError, Ending, JobSource, Launch, RunnerBusyError

LIMIT_S = 10.0
WORKER = "pod-x1y2z"
OWN = {
    "PATH": os.environ["PATH"],
    "HOME": "/home/worker",
    "LC_ALL": "C.UTF-8",
    "KUBECONFIG": "/secret",
    "KUBERNETES_SERVICE_HOST": "10.0.0.1",
}


class ListLog:
    def __init__(self) -> None:
        self.full = False
        self.lines: list[str] = []

    def write(self, source: JobSource, lines: Sequence[OutputLine]) -> None:
        self.lines += [line.text for line in lines]


class Bench:
    """A runner and what it has logged."""

    def __init__(self, folder: Path, working_directory: Path | None = None) -> None:
        self.folder = folder
        self.log = ListLog()
        self.runner = ProcessRunner(
            WORKER, self.log, OWN, scratch_root=folder, working_directory=working_directory
        )  # fmt: skip

    async def start(self, *command: str, env: Mapping[str, str] | None = None) -> ProcessJob:
        source = JobSource(RunKey("analytics", "etl-1"), JobKey("load", 0), 1)
        return await self.runner.start(Launch(source, command, env or {}))

    async def run(self, *command: str, env: Mapping[str, str] | None = None) -> Ending:
        job = await self.start(*command, env=env)
        return await asyncio.wait_for(job.wait(), LIMIT_S)

    async def sh(self, script: str) -> Ending:
        return await self.run("sh", "-c", script)

    async def started(self, script: str) -> ProcessJob:
        """A job that has said `ready`."""
        job = await self.start("sh", "-c", script)
        await until(lambda: "ready" in self.log.lines)
        return job

    def scratches(self) -> list[Path]:
        """Where runners make the folders of jobs."""
        return list(self.folder.iterdir())

    def left(self) -> list[Path]:
        """Folders of jobs."""
        return [path for scratch in self.scratches() for path in scratch.iterdir()]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.runner.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in other processes
            await asyncio.sleep(0.005)


def wait_for_zombie(pid: int) -> None:
    """Until a child of ours has ended; it is not reaped."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def state_of(pid: int) -> str | None:
    """R, S, Z and so on; None if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def alive(pid: int) -> bool:
    """Whether the process runs; one that waits to be reaped does not."""
    return state_of(pid) not in (None, "Z")


async def test_exit_codes_and_signals_come_through(bench: Bench) -> None:
    assert (await bench.sh("exit 0")).exit_code == 0
    assert (await bench.sh("exit 3")).exit_code == 3
    assert (await bench.sh("kill -KILL $$")).exit_code == -9


async def test_output_and_errors_are_one_stream_and_its_end_is_kept(bench: Bench) -> None:
    ending = await bench.sh("echo one; echo two >&2; printf three")
    assert bench.log.lines == ["one", "two", "three"]
    assert ending.tail == "one\ntwo\nthree"


async def test_a_job_sees_a_small_part_of_the_workers_environment_and_its_own(bench: Bench) -> None:
    await bench.run("env", env={"FENCEPOST_TASK": "load", "FENCEPOST_WORKER": "forged", "HOME": "/mine"})
    seen = dict(line.split("=", 1) for line in bench.log.lines)
    output = seen.pop("FENCEPOST_OUTPUT")
    assert seen == {
        "PATH": OWN["PATH"],
        "LC_ALL": "C.UTF-8",
        "HOME": "/mine",
        "FENCEPOST_TASK": "load",
        "FENCEPOST_WORKER": WORKER,
    }
    assert output.startswith(str(bench.folder))


async def test_a_job_runs_in_a_folder_of_its_own_that_is_gone_afterwards(bench: Bench) -> None:
    ending = await bench.sh('mkdir -p deep/er; echo data > deep/er/file; test "$PWD" = "$(dirname $FENCEPOST_OUTPUT)"')
    assert ending.exit_code == 0
    assert bench.left() == []


async def test_a_job_can_run_where_the_caller_wants_it(tmp_path: Path) -> None:
    scratch, here = tmp_path / "scratch", tmp_path / "here"
    scratch.mkdir()
    here.mkdir()
    bench = Bench(scratch, working_directory=here)
    await bench.sh("pwd; echo 42 > $FENCEPOST_OUTPUT")
    bench.runner.close()
    assert bench.log.lines == [str(here)]
    assert list(here.iterdir()) == []


async def test_a_job_whose_output_is_a_list_to_fan_out_over_may_put_out_more(bench: Bench) -> None:
    script = f"head -c {LIST_BYTES_MAX} /dev/zero | tr '\\0' x > $FENCEPOST_OUTPUT"
    source = JobSource(RunKey("analytics", "etl-1"), JobKey("list", 0), 1)

    job = await bench.runner.start(Launch(source, ("sh", "-c", script), {}, LIST_BYTES_MAX))

    assert len((await job.wait()).output) == LIST_BYTES_MAX


@pytest.mark.parametrize(
    ("script", "want"),
    [
        ("true", ("", "")),
        ("printf '[1, 2]' > $FENCEPOST_OUTPUT", ("[1, 2]", "")),
        ("printf 'ä\\n' > $FENCEPOST_OUTPUT", ("ä\n", "")),
        (f"head -c {OUTPUT_BYTES_MAX} /dev/zero | tr '\\0' x > $FENCEPOST_OUTPUT", ("x" * OUTPUT_BYTES_MAX, "")),
        (f"head -c {OUTPUT_BYTES_MAX + 1} /dev/zero > $FENCEPOST_OUTPUT", ("", "holds more than 2048 bytes")),
        ("printf '\\377' > $FENCEPOST_OUTPUT", ("", "is not UTF-8")),
        ("mkdir $FENCEPOST_OUTPUT", ("", "is no plain file")),
        ("mkfifo $FENCEPOST_OUTPUT", ("", "is no plain file")),
        ("ln -s /etc/hostname $FENCEPOST_OUTPUT", ("", "write a plain file there")),
    ],
)
async def test_the_output_file_becomes_the_output_or_a_fault(bench: Bench, script: str, want: tuple[str, str]) -> None:
    ending = await bench.sh(script)
    assert (ending.exit_code, ending.output) == (0, want[0])
    assert want[1] in ending.fault
    assert bool(want[1]) == bool(ending.fault)


@pytest.mark.parametrize(
    ("command", "want_code", "want"),
    [
        (("no-such-command",), 127, "'no-such-command', or its interpreter, was not found"),
        (("/etc/passwd",), 126, "Permission denied"),
        (("/",), 126, "Permission denied"),
        (("",), 126, "cannot be started"),
        (("true", "a\0b"), 126, "embedded null byte"),
        (("true", "x" * 1_000_000), 126, "Argument list too long"),
    ],
)
async def test_a_command_that_cannot_be_started_is_named_and_leaves_nothing(
    bench: Bench, command: tuple[str, ...], want_code: int, want: str
) -> None:
    with pytest.raises(CannotStartError, match=want) as caught:
        await bench.start(*command)
    assert caught.value.exit_code == want_code
    assert bench.left() == []


async def test_a_machine_that_is_out_of_processes_is_not_the_jobs_fault(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spawn(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    await bench.sh("true")
    monkeypatch.setattr(subprocess, "Popen", spawn)
    with pytest.raises(RunnerBusyError, match="temporarily unavailable"):
        await bench.start("true")


async def test_a_worker_without_room_for_folders_is_not_the_jobs_fault(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    shutil.rmtree(bench.scratches()[0])
    with pytest.raises(RunnerBusyError, match="No such file"):
        await bench.start("true")
    bench.runner.close()


async def test_a_job_that_cannot_be_followed_is_killed_and_has_failed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_descriptor(pid: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", no_descriptor)
    with pytest.raises(CannotStartError, match="Too many open files"):
        await bench.start("sh", "-c", "echo $$; sleep 1000")
    assert bench.left() == []
    assert not [pid for pid in map(int, bench.log.lines) if alive(pid)]


async def test_a_signal_reaches_every_process_of_the_group(bench: Bench) -> None:
    child = "trap 'echo child got it; exit' TERM; echo ready; sleep 60 & wait"
    job = await bench.started(f'trap "wait; echo parent got it" TERM; sh -c "{child}" & wait')
    assert job.signal(signal.SIGTERM)
    await asyncio.wait_for(job.wait(), LIMIT_S)
    assert bench.log.lines == ["ready", "child got it", "parent got it"]


async def test_a_job_that_ignores_sigterm_ends_by_sigkill(bench: Bench) -> None:
    job = await bench.started("trap '' TERM; echo ready; while :; do sleep 0.01; done")
    assert job.signal(signal.SIGTERM)
    assert job.signal(signal.SIGKILL)
    assert (await asyncio.wait_for(job.wait(), LIMIT_S)).exit_code == -9


async def test_a_signal_to_a_job_that_has_ended_says_so(bench: Bench) -> None:
    job = await bench.start("true")
    wait_for_zombie(job.pid)
    assert not job.signal(signal.SIGTERM), "ended, though the loop has not heard of it yet"
    assert (await job.wait()).exit_code == 0
    assert not job.signal(signal.SIGTERM)


async def test_what_a_job_leaves_in_its_group_is_killed_at_its_end(bench: Bench) -> None:
    ending = await bench.sh("sleep 1000 & echo $!")
    assert ending.exit_code == 0
    assert not alive(int(bench.log.lines[0]))


async def test_a_grandchild_that_left_the_group_and_holds_the_pipe_does_not_hang_the_worker(bench: Bench) -> None:
    ending = await bench.sh("setsid sh -c 'echo $$; touch gone; exec sleep 1000' & until test -e gone; do :; done")
    assert ending.exit_code == 0
    pid = int(bench.log.lines[0])
    assert alive(pid), "it is for the guardian to kill"
    bench.runner.close()
    assert not alive(pid)


async def test_a_job_that_closes_its_output_is_waited_for(bench: Bench) -> None:
    job = await bench.start("sh", "-c", "exec >&- 2>&-; touch closed; until test -e go; do sleep 0.01; done; exit 7")
    waiting = asyncio.ensure_future(job.wait())
    [folder] = bench.left()
    await until((folder / "closed").exists)
    (folder / "go").touch()
    assert (await asyncio.wait_for(waiting, LIMIT_S)).exit_code == 7


async def test_a_guardian_that_was_killed_is_replaced_before_the_next_job(bench: Bench) -> None:
    await bench.sh("true")
    first = bench.runner.guardian.pid
    assert first
    os.kill(first, signal.SIGKILL)
    wait_for_zombie(first)
    await bench.sh("true")
    assert bench.runner.guardian.pid != first


async def test_a_runner_that_is_closed_leaves_no_folder_and_no_process(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    job = await bench.started("echo ready; sleep 1000")
    guardian = bench.runner.guardian.pid
    bench.runner.close()
    assert (await asyncio.wait_for(job.wait(), LIMIT_S)).exit_code == -9
    assert guardian
    assert not alive(guardian)
    assert bench.scratches() == []


async def test_as_the_first_process_of_a_container_it_reaps_what_jobs_leave(tmp_path: Path) -> None:
    """Whoever becomes the parent of orphans must reap them, or their group never goes."""
    libc = ctypes.CDLL(None, use_errno=True)
    set_child_subreaper = 36
    assert libc.prctl(set_child_subreaper, 1, 0, 0, 0) == 0
    try:
        bench = Bench(tmp_path)
        started_s = asyncio.get_running_loop().time()
        await bench.sh("sleep 1000 & echo $!")
        assert asyncio.get_running_loop().time() - started_s < process_module.GROUP_PATIENCE_S
        assert state_of(int(bench.log.lines[0])) is None
        bench.runner.close()
    finally:
        libc.prctl(set_child_subreaper, 0, 0, 0, 0)
