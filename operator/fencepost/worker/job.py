"""One attempt of one job, from its entry to its result.

The order in which things happen decides the outcome: whoever is first of the end of the process, the time limit and a
request to stop. A signal is sent only to a job that has not ended by itself, so a job that succeeded a moment before it
was to be stopped has succeeded.
"""

import asyncio
import signal
from dataclasses import dataclass
from typing import Any

from fencepost.api.times import format_duration
from fencepost.base.clock import Clock
from fencepost.core.names import MailboxKey
from fencepost.core.run_state import Entry, Outcome, Result
from fencepost.worker.patient import UnavailableError
from fencepost.worker.preparation import DefinitionGoneError, InvalidJobError, Preparation
from fencepost.worker.runner import CannotStartError, Ending, Launch, Runner, RunnerBusyError, RunningJob
from fencepost.worker.texts import result_message


@dataclass(frozen=True, slots=True)
class Cut:
    """Why a job does not end by itself."""

    outcome: Outcome
    message: str
    grace_s: float


class Job:
    """Made, run once, and told to stop at most a few times."""

    def __init__(self, place: MailboxKey, entry: Entry, preparation: Preparation, runner: Runner, clock: Clock) -> None:
        self.entry = entry
        self._place = place
        self._preparation = preparation
        self._runner = runner
        self._clock = clock
        self._started_at_s: float | None = None
        loop = asyncio.get_running_loop()
        self._stopped: asyncio.Future[Cut] = loop.create_future()
        self._killed: asyncio.Future[None] = loop.create_future()

    def stop(self, message: str, grace_s: float) -> None:
        """End it: SIGTERM, and SIGKILL after the grace period. The first request counts."""
        self._cut(Cut(Outcome.STOPPED, message, grace_s))

    def hand_back(self, message: str) -> None:
        """Do not start it, if it has not been started."""
        if self._started_at_s is None:
            self._cut(Cut(Outcome.HANDED_BACK, message, 0.0))

    def kill(self, message: str) -> None:
        """End it at once, also when it is in its grace period."""
        self.stop(message, 0.0)
        if not self._killed.done():
            self._killed.set_result(None)

    async def run(self) -> Result:
        """Start it, wait for its end, and say how it went."""
        try:
            launch = await self._prepare()
            if launch is None:
                cut = self._stopped.result()
                return self._result(cut.outcome, cut.message)
            self._started_at_s = self._clock.now_s()
            process = await self._runner.start(launch)
        except InvalidJobError as error:
            return self._result(Outcome.INVALID, str(error))
        except DefinitionGoneError as error:
            return self._result(Outcome.MISSING, str(error))
        except (UnavailableError, RunnerBusyError) as error:
            self._started_at_s = None
            return self._result(Outcome.HANDED_BACK, str(error))
        except CannotStartError as error:
            return self._result(Outcome.FAILED, str(error), exit_code=error.exit_code)
        return self._judge(*await self._follow(process))

    async def _prepare(self) -> Launch | None:
        """What to start; None if it is not to be started any more."""
        preparing = asyncio.ensure_future(self._preparation.launch(self._place, self.entry))
        try:
            await _first_of(preparing, self._stopped)
            return None if self._stopped.done() else preparing.result()
        finally:
            preparing.cancel()
            preparing.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _follow(self, process: RunningJob) -> tuple[Ending, Cut | None]:
        """How it ended, and why if not by itself."""
        ended = asyncio.ensure_future(process.wait())
        # 1. It ends, is to be stopped, or runs out of time.
        await _first_of(ended, self._stopped, timeout_s=self.entry.timeout_s)
        cut = self._stopped.result() if self._stopped.done() else self._time_limit()
        if ended.done() or not process.signal(signal.SIGTERM):
            return await ended, None
        # 2. It gets its grace period, unless somebody is in a hurry.
        await _first_of(ended, self._killed, timeout_s=cut.grace_s)
        if not ended.done():
            process.signal(signal.SIGKILL)
        return await ended, cut

    def _time_limit(self) -> Cut:
        limit = format_duration(self.entry.timeout_s or 0.0)
        return Cut(Outcome.TIMED_OUT, f"stopped at its time limit of {limit}", self.entry.grace_s)

    def _judge(self, ending: Ending, cut: Cut | None) -> Result:
        """The result of a job that was started."""
        if cut is not None:
            return self._result(cut.outcome, cut.message, ending.tail, exit_code=ending.exit_code)
        if ending.fault:
            return self._result(Outcome.FAILED, ending.fault, exit_code=ending.exit_code)
        if ending.exit_code != 0:
            return self._result(Outcome.FAILED, "", ending.tail, exit_code=ending.exit_code)
        return self._result(Outcome.SUCCEEDED, "", exit_code=0, output=ending.output)

    def _result(
        self, outcome: Outcome, message: str, tail: str = "", *, exit_code: int | None = None, output: str = ""
    ) -> Result:
        return Result(
            token=self.entry.token,
            outcome=outcome,
            exit_code=exit_code,
            started_at_s=self._started_at_s,
            ended_at_s=None if self._started_at_s is None else self._clock.now_s(),
            message=result_message(message, tail),
            output=output,
        )

    def _cut(self, cut: Cut) -> None:
        if not self._stopped.done():
            self._stopped.set_result(cut)


async def _first_of(*futures: asyncio.Future[Any], timeout_s: float | None = None) -> None:
    await asyncio.wait(futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
