"""One worker: registers, follows its mailbox, runs jobs, answers, renews, and ends well or at once.

Everything that comes from the API server goes through `_observe`, whoever brought it; everything that ends it comes as
WorkerLostError out of one of its few loops. What to do about an entry is decided by `worker.mailbox`, what becomes of a
job by `worker.job`; here is only the wiring.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import aclosing
from enum import IntEnum
from typing import Any, Final, assert_never

from fencepost.api.names import WORKERS
from fencepost.base.clock import Clock
from fencepost.core.run_state import Result
from fencepost.kube.errors import ApiError, NotFoundError
from fencepost.kube.protocol import Api, EventType, Obj
from fencepost.worker.backoff import Backoff
from fencepost.worker.crew import Crew
from fencepost.worker.lease import LeaseKeeper
from fencepost.worker.mailbox import Action, Kill, Mailbox, Start, Stop, Unreadable
from fencepost.worker.metrics import WorkerMetrics
from fencepost.worker.objects import entries_of, left_of, renewal_interval_of
from fencepost.worker.own import OwnObject, WorkerLostError
from fencepost.worker.preparation import Preparation
from fencepost.worker.registration import Registration, register
from fencepost.worker.reporter import Reporter
from fencepost.worker.runner import Runner
from fencepost.worker.settings import WorkerSettings

WATCH_RETRY_FIRST_S: Final = 0.2
WATCH_RETRY_MAX_S: Final = 10.0
STUCK_S: Final = 10.0
"""Longer than this without a look at its own trust, and the worker's loop is taken for stuck."""

log = logging.getLogger(__name__)


class WorkerEnd(IntEnum):
    """How a worker came to its end; the exit code of its process."""

    DRAINED = 0
    """It was asked to end, and has answered for every job, or waited long enough."""
    LOST = 1
    """It could not renew, was fenced, or its objects are gone: its jobs were killed and nothing was said of them."""


class Worker:
    """To be run once. `drain` and `hurry` may be called at any time, from the loop's own thread."""

    def __init__(
        self, api: Api, clock: Clock, settings: WorkerSettings, runner: Runner, metrics: WorkerMetrics
    ) -> None:
        self._api = api
        self._clock = clock
        self._settings = settings
        self._metrics = metrics
        self._own = OwnObject()
        self._mailbox = Mailbox(settings.name, settings.slots)
        self._reporter = Reporter(api, clock, settings, self._mailbox, self._own, self._observe, metrics)
        self._preparation = Preparation(api, clock, settings.name, settings.pool)
        self._crew = Crew(self._preparation, runner, clock, self._on_end)
        self._changed = asyncio.Event()
        self._drain_asked = asyncio.Event()
        self._hurried = False
        self._keeper: LeaseKeeper | None = None
        """From the registration on."""
        self._end = ""
        """Why it is a worker no more."""

    def drain(self) -> None:
        """Take nothing new, let running jobs end, answer for all, and end."""
        self._drain_asked.set()

    def hurry(self) -> None:
        """Drain, but stop running jobs now."""
        self._hurried = True
        self._changed.set()
        self.drain()

    def unready(self) -> str:
        """Why it takes no jobs, for a readiness probe; empty when it does."""
        if self._end:
            return self._end
        if self._keeper is None:
            return f"worker {self._settings.name} has not registered yet"
        return f"worker {self._settings.name} is draining" if self._drain_asked.is_set() else ""

    def stuck(self) -> str:
        """Why it should be restarted, for a liveness probe; empty while its loop makes progress."""
        if self._keeper is None:
            return ""
        silent_s = self._clock.steady_s() - self._keeper.looked_at_s
        return f"the worker has made no progress for {silent_s:.0f} s" if silent_s > STUCK_S else ""

    async def run(self) -> WorkerEnd:
        """From registration to the end. RegistrationRefusedError if the two do not fit together."""
        registration = await self._register()
        if registration is None:
            return WorkerEnd.DRAINED
        name = self._settings.name
        log.info("worker %s is ready: %d slots of pool %s", name, self._settings.slots, self._settings.pool)
        self._own.adopt(registration.worker)
        # It may have entries already: an earlier try may have made it, and its answer been lost.
        for action in self._mailbox.read(entries_of(registration.worker)):
            self._act(action)
        self._keeper = keeper = LeaseKeeper(
            self._api,
            self._clock,
            self._settings,
            registration.lease,
            registration.renewed_at_s,
            mailbox_seen=lambda: self._own.version,
            interval_told_s=lambda: renewal_interval_of(self._own.latest),
        )
        loops = [
            asyncio.create_task(keeper.watch_trust()),
            asyncio.create_task(keeper.renew_forever()),
            asyncio.create_task(self._follow_mailbox()),
            asyncio.create_task(self._reporter.run()),
            asyncio.create_task(self._see_off()),
        ]
        grace_s = 0.0
        try:
            done, _ = await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
            for loop in done:
                loop.result()
        except WorkerLostError as lost:
            if self._mailbox.leaving:
                # Its object may go as soon as its farewell is stored, which may be before the answer to that is here.
                return WorkerEnd.DRAINED
            log.error("worker %s is lost and ends its jobs: %s", name, lost)
            self._end = f"worker {name} is lost: {lost}"
            grace_s = lost.grace_s
            return WorkerEnd.LOST
        finally:
            # Nothing is said any more of what is ended here.
            await _cancel(loops)
            await self._crew.abandon(grace_s)
            await self._preparation.close()
        return WorkerEnd.DRAINED

    async def _register(self) -> Registration | None:
        """The worker as it exists from now on; None if it is asked to end before."""
        registering = asyncio.create_task(register(self._api, self._clock, self._settings))
        asked = asyncio.create_task(self._drain_asked.wait())
        try:
            await asyncio.wait({registering, asked}, return_when=asyncio.FIRST_COMPLETED)
            return registering.result() if registering.done() else None
        finally:
            await _cancel([registering, asked])

    async def _follow_mailbox(self) -> None:
        """Read, watch from there, and read again whenever the watch ends, however it ends."""
        name, namespace = self._settings.name, self._settings.namespace
        backoff = Backoff(name, WATCH_RETRY_FIRST_S, WATCH_RETRY_MAX_S)
        while True:
            try:
                self._observe(await self._api.get(WORKERS, namespace, name))
                watch = self._api.watch(WORKERS, namespace, name=name, resource_version=self._own.version)
                async with aclosing(watch) as events:
                    async for event in events:
                        backoff.reset()
                        if event.type is EventType.DELETED:
                            raise WorkerLostError(f"Worker {name} is gone: somebody has deleted it")
                        if event.type is not EventType.BOOKMARK:
                            self._observe(event.object)
            except NotFoundError as error:
                raise WorkerLostError(f"Worker {name} is gone: somebody has deleted it") from error
            except ApiError as error:
                log.warning("the watch of Worker %s broke: %s", name, error)
            await self._clock.sleep(backoff.next_s())

    def _observe(self, worker: Obj) -> None:
        """A version of the Worker, from wherever."""
        if not self._own.learn(worker):
            return
        for action in self._mailbox.read(entries_of(worker)):
            self._act(action)
        if self._reporter.behind:
            self._reporter.touch()
        self._changed.set()

    def _act(self, action: Action) -> None:
        match action:
            case Start(key, place, entry):
                self._crew.start(key, place, entry)
                self._metrics.jobs_running(self._crew.size)
            case Stop(key, grace_s):
                self._crew.stop(key, "stopped on request", grace_s)
            case Kill(key):
                self._crew.kill(key, "its lease was taken away")
            case Unreadable(key, text):
                log.error("the entry %s of Worker %s cannot be read: %.200r", key, self._settings.name, text)
            case _:
                assert_never(action)

    def _on_end(self, key: str, result: Result) -> None:
        log.info("job %s under token %d: %s", key, result.token, result.outcome)
        self._metrics.job_answered(result.outcome)
        self._metrics.jobs_running(self._crew.size)
        self._mailbox.end(key, result)
        self._reporter.touch()
        self._changed.set()

    async def _see_off(self) -> None:
        """Wait for the request to drain, then drain. Its return is the worker's good end."""
        await self._drain_asked.wait()
        log.info("worker %s is draining", self._settings.name)
        # 1. Nothing new: said in the status by compare-and-swap, so whoever delivers later has seen it.
        self._mailbox.draining = True
        self._crew.hand_back_unstarted(f"worker {self._settings.name} is draining")
        self._reporter.touch()
        # 2. What runs may end in its own time, as far as there is any.
        await self._wait_until(lambda: self._hurried or not self._crew.busy, self._settings.drain_timeout_s)
        self._crew.stop_all("the worker is draining")
        await self._crew.finished()
        # 3. Every answer is stored, and in the same write that there is nobody here any more.
        self._mailbox.leaving = True
        self._reporter.touch()
        await self._wait_until(lambda: left_of(self._own.latest), self._settings.farewell_s)

    async def _wait_until(self, condition: Callable[[], bool], patience_s: float) -> None:
        """Until the condition holds or patience ends."""
        try:
            async with asyncio.timeout(patience_s):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            log.warning("worker %s has waited %g s and goes on", self._settings.name, patience_s)


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
