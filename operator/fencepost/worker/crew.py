"""The jobs under way: at most one to run for each key, the next one of a key after the one before it has died."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from fencepost.base.clock import Clock
from fencepost.core.names import MailboxKey
from fencepost.core.run_state import Entry, Outcome, Result
from fencepost.worker.job import Job
from fencepost.worker.preparation import Preparation
from fencepost.worker.runner import Runner
from fencepost.worker.texts import result_message

ABANDON_PATIENCE_S: Final = 1.0
"""How long the worker, when it has to go, waits for killed jobs; one that hangs in the kernel does not keep it."""

log = logging.getLogger(__name__)


class Crew:
    """Runs jobs as tasks of the loop."""

    def __init__(
        self, preparation: Preparation, runner: Runner, clock: Clock, on_end: Callable[[str, Result], None]
    ) -> None:
        """`on_end` gets the key and the result of each job that was started here, killed ones too."""
        self._preparation = preparation
        self._runner = runner
        self._clock = clock
        self._on_end = on_end
        self._jobs: dict[str, Job] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def busy(self) -> bool:
        """Whether any job is under way."""
        return bool(self._tasks)

    @property
    def size(self) -> int:
        """How many jobs are under way."""
        return len(self._tasks)

    def start(self, key: str, place: MailboxKey, entry: Entry) -> None:
        """Run a job; if its key has one still, that has been killed and is waited for."""
        job = Job(place, entry, self._preparation, self._runner, self._clock)
        before = self._tasks.get(key)
        self._jobs[key] = job
        self._tasks[key] = asyncio.create_task(self._carry_out(key, job, before))

    def stop(self, key: str, message: str, grace_s: float) -> None:
        """End the job of this key, if there is one."""
        if job := self._jobs.get(key):
            job.stop(message, grace_s)

    def kill(self, key: str, message: str) -> None:
        """End the job of this key at once, if there is one."""
        if job := self._jobs.get(key):
            job.kill(message)

    def hand_back_unstarted(self, message: str) -> None:
        """Start none of those that are still being prepared."""
        for job in self._jobs.values():
            job.hand_back(message)

    def stop_all(self, message: str) -> None:
        """End each job with the grace period of its own."""
        for job in self._jobs.values():
            job.stop(message, job.entry.grace_s)

    async def finished(self) -> None:
        """Until no job is under way."""
        while self._tasks:
            await asyncio.wait(self._tasks.values())

    async def abandon(self, grace_s: float) -> None:
        """End all jobs because the worker has to go: SIGTERM, then SIGKILL after this grace period."""
        for job in self._jobs.values():
            job.stop("the worker has to go", grace_s)
        await self._finished_within(grace_s)
        for job in self._jobs.values():
            job.kill("the worker has to go")
        await self._finished_within(ABANDON_PATIENCE_S)

    async def _finished_within(self, patience_s: float) -> None:
        if self._tasks and patience_s > 0:
            await asyncio.wait(self._tasks.values(), timeout=patience_s)

    async def _carry_out(self, key: str, job: Job, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait({before})
        try:
            result = await job.run()
        except Exception as error:
            log.exception("job %s: a mistake of the worker itself", key)
            fact = result_message(f"the worker made a mistake: {error!r}")
            result = Result(job.entry.token, Outcome.FAILED, None, None, None, message=fact)
        if self._jobs.get(key) is job:
            del self._jobs[key], self._tasks[key]
        self._on_end(key, result)
