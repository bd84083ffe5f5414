"""Jobs as processes: each in a session of its own, with a folder of its own, and nothing left of it when it has ended.

A job has ended when its main process has, whoever still holds its pipe. The rest of its process group is killed while
the main process is still a zombie, so that its number cannot belong to anybody else. A process that has left the group
(`setsid`) lives on until the worker ends; then the guardian finds it.

Needs Linux 5.3 (`pidfd_open`): a file descriptor tells of each job's end, instead of a thread or a signal handler.
"""

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fencepost.worker.environment import inherited_environment
from fencepost.worker.groups import anyone_lives_in, reap_adopted, signal_group
from fencepost.worker.guardian import Guardian
from fencepost.worker.output import JobLog, Pump
from fencepost.worker.runner import (
    COMMAND_NOT_FOUND,
    COMMAND_NOT_RUNNABLE,
    CannotStartError,
    Ending,
    Launch,
    RunnerBusyError,
)
from fencepost.worker.scratch import Scratch

OUTPUT_NAME: Final = "fencepost-output"
"""The file in a job's folder whose content becomes its output."""
GROUP_PATIENCE_S: Final = 2.0
"""How long killed processes of a group may take to go before the job counts as ended all the same."""
GROUP_LOOK_S: Final = 0.005
EXHAUSTED: Final = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT})
"""What the machine is out of, not what is wrong with a command."""


class ProcessRunner:
    """Starts jobs as processes. `close` leaves nothing of them behind."""

    def __init__(
        self,
        worker: str,
        log: JobLog,
        environment: Mapping[str, str],
        *,
        scratch_root: Path | None = None,
        working_directory: Path | None = None,
    ) -> None:
        """`environment` is the worker's own, of which jobs get a little. `scratch_root`: where the folders of jobs are
        made; None: the system's place for temporary files. `working_directory`: None: each job in its own folder."""
        self._log = log
        self._scratch = Scratch(worker, scratch_root)
        self.guardian = Guardian(worker, self._scratch)
        self._environment = inherited_environment(environment)
        self._working_directory = working_directory

    async def start(self, launch: Launch) -> "ProcessJob":
        """Start a job; it sees its output file in FENCEPOST_OUTPUT."""
        try:
            self.guardian.ensure()
            folder = self._scratch.folder()
            read_end, write_end = os.pipe()
        except OSError as error:
            raise RunnerBusyError(f"the worker has no means to start a job: {error}") from error
        os.set_blocking(read_end, False)
        try:
            process = self._spawn(launch, folder, write_end)
        except (OSError, ValueError) as error:
            os.close(read_end)
            os.rmdir(folder)
            raise _start_error(launch, error) from error
        finally:
            os.close(write_end)
        pump = Pump(read_end, launch.source, self._log)
        try:
            return ProcessJob(process, folder, pump, launch.output_bytes_max)
        except OSError as error:
            signal_group(process.pid, signal.SIGKILL)
            process.wait()
            pump.finish()
            await _remove(folder)
            fact = f"the job was killed, as the worker has no file descriptor left to follow it: {error}"
            raise CannotStartError(
                f"{fact}; give the worker fewer slots, or more descriptors", -signal.SIGKILL
            ) from error

    def close(self) -> None:
        """Kill what jobs have left behind, and remove their folders."""
        self.guardian.close()
        self._scratch.close()

    def _spawn(self, launch: Launch, folder: str, output: int) -> subprocess.Popen[bytes]:
        # Ours come last: a task cannot take the marker off its own processes.
        ours = self.guardian.marker | {"FENCEPOST_OUTPUT": _output_path(folder)}
        return subprocess.Popen(
            launch.command,
            env={**self._environment, **launch.env, **ours},
            cwd=self._working_directory or folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


class ProcessJob:
    """One job under way."""

    def __init__(self, process: subprocess.Popen[bytes], folder: str, pump: Pump, output_bytes_max: int) -> None:
        self.pid = process.pid
        self._process = process
        self._folder = folder
        self._pump = pump
        self._output_bytes_max = output_bytes_max
        self._loop = asyncio.get_running_loop()
        self._exit_code: asyncio.Future[int] = self._loop.create_future()
        self._descriptor = os.pidfd_open(process.pid)
        self._loop.add_reader(self._descriptor, self._on_exit)

    async def wait(self) -> Ending:
        """Until the main process has ended, its group is gone and its folder removed."""
        exit_code = await self._exit_code
        await self._group_gone()
        tail = self._pump.finish()
        output, fault = _read_output(_output_path(self._folder), self._output_bytes_max)
        await _remove(self._folder)
        return Ending(exit_code, tail, output, fault)

    def signal(self, number: int) -> bool:
        """To the whole group; False if the main process has ended by itself."""
        if self._exit_code.done() or self._is_zombie():
            return False
        signal_group(self.pid, number)
        return True

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        signal_group(self.pid, signal.SIGKILL)
        self._exit_code.set_result(self._process.wait())

    def _is_zombie(self) -> bool:
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return ended is not None

    async def _group_gone(self) -> None:
        """The killed rest of the group takes a moment to die; mostly there is none."""
        if not signal_group(self.pid, 0):
            return
        give_up_s = self._loop.time() + GROUP_PATIENCE_S
        while anyone_lives_in(self.pid) and self._loop.time() < give_up_s:  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(GROUP_LOOK_S)
        reap_adopted(self.pid)


def _start_error(launch: Launch, error: OSError | ValueError) -> CannotStartError | RunnerBusyError:
    """Why a command did not start: the machine's trouble, or its own."""
    command = launch.command[0] if launch.command else ""
    if isinstance(error, ValueError) or not command:
        fact = f"command {command!r} cannot be started: {error}"
        return CannotStartError(f"{fact}; correct it in the DAG", COMMAND_NOT_RUNNABLE)
    if error.errno in EXHAUSTED:
        return RunnerBusyError(
            f"command {command!r} was not started, as the worker has no room for it: {error.strerror}"
        )
    if error.errno == errno.ENOENT:
        fact = f"command {command!r}, or its interpreter, was not found on the worker"
        return CannotStartError(f"{fact}; correct it in the DAG, or install it in the pool's image", COMMAND_NOT_FOUND)
    fact = f"command {command!r} cannot be started: {error.strerror}"
    return CannotStartError(f"{fact}; correct it in the DAG, or in the pool's image", COMMAND_NOT_RUNNABLE)


def _output_path(folder: str) -> str:
    return f"{folder}/{OUTPUT_NAME}"


def _read_output(path: str, bytes_max: int) -> tuple[str, str]:
    """The output that a job has left, and what is wrong with it; both empty if it has left none.

    Whatever stands at the path was made by the job: it is opened without waiting for anybody and without following it
    elsewhere.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return "", ""
    except OSError as error:
        return "", f"FENCEPOST_OUTPUT cannot be read: {error.strerror}; write a plain file there"
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return "", "FENCEPOST_OUTPUT is no plain file; write one there"
        content = os.read(descriptor, bytes_max + 1)
    finally:
        os.close(descriptor)
    if len(content) > bytes_max:
        fact = f"FENCEPOST_OUTPUT holds more than {bytes_max} bytes"
        return "", f"{fact}; keep what is larger elsewhere, and write where it is"
    try:
        return content.decode(), ""
    except UnicodeDecodeError as error:
        return "", f"FENCEPOST_OUTPUT is not UTF-8: {error}; encode it, for instance as base64"


async def _remove(folder: str) -> None:
    """A job's folder; one that is full of files must not stop the loop."""
    with contextlib.suppress(OSError):
        os.unlink(_output_path(folder))
    try:
        os.rmdir(folder)
    except OSError:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
