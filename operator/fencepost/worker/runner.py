"""How a worker starts a job: one protocol, so that the same code carries out processes, fakes and simulated jobs.

A runner knows nothing of leases. It starts, it signals, and it tells how it ended; when to do what is decided by
`worker.job`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fencepost.core.names import JobKey, RunKey
from fencepost.core.outputs import OUTPUT_BYTES_MAX

COMMAND_NOT_RUNNABLE = 126
COMMAND_NOT_FOUND = 127
"""Exit codes as a shell gives them for a command that cannot be started."""


@dataclass(frozen=True, slots=True)
class JobSource:
    """Whose output it is: the labels of a log line."""

    run: RunKey
    job: JobKey
    attempt: int


@dataclass(frozen=True, slots=True)
class Launch:
    """All that is needed to start one attempt."""

    source: JobSource
    command: tuple[str, ...]
    env: Mapping[str, str]
    """On top of what the runner gives to each job."""
    output_bytes_max: int = OUTPUT_BYTES_MAX
    """Of FENCEPOST_OUTPUT."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended."""

    exit_code: int
    """Minus the signal's number where one ended it."""
    tail: str = ""
    """The last of what it printed."""
    output: str = ""
    """The content of FENCEPOST_OUTPUT."""
    fault: str = ""
    """Why the output cannot be taken, with the remedy; the job has failed then whatever its exit code."""


class CannotStartError(Exception):
    """The command itself cannot be started, here or elsewhere: the attempt has failed. `str()` says why."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class RunnerBusyError(Exception):
    """This machine is out of something (processes, files, space): the job was not started and is not to blame."""


class RunningJob(Protocol):
    """One attempt under way."""

    async def wait(self) -> Ending:
        """Until it has ended and nothing of it is left. To be called once."""
        ...

    def signal(self, number: int) -> bool:
        """Send a signal to all its processes; False if it had already ended by itself."""
        ...


class Runner(Protocol):
    """Starts jobs."""

    async def start(self, launch: Launch) -> RunningJob:
        """CannotStartError or RunnerBusyError if it does not come to run."""
        ...
