"""Results on their way into `Worker.status`: one write in flight, and whatever ends meanwhile goes into the next.

A write is a compare-and-swap on the newest version known, and carries the whole map: what is stored and still wanted,
and what is new, as far as there is room. So a conflict costs a read and nothing else, and a write whose answer got lost
meets itself as a conflict. What the mailbox no longer wants is left out; that alone is not worth a write.

A worker that leaves says so in the very write that leaves no entry of that version unanswered: what is delivered after
it finds a worker that offers no slot, so nothing is ever given to one that has gone.

An API server that refuses the map (422) refuses all of it. If reading again does not explain it, the results that are
new are sent one by one: the one that is refused alone loses its texts, then is given up, and the others get through.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import orjson

from fencepost.api.names import WORKERS
from fencepost.base.clock import Clock
from fencepost.kube.errors import ApiError, ConflictError, InvalidError, NotFoundError, OverloadedError
from fencepost.kube.protocol import Api, Obj
from fencepost.worker.backoff import Backoff
from fencepost.worker.mailbox import Mailbox
from fencepost.worker.metrics import WorkerMetrics
from fencepost.worker.objects import answered_worker, draining_of, left_of, results_of
from fencepost.worker.own import OwnObject, WorkerLostError
from fencepost.worker.settings import WorkerSettings

RESULTS_BYTES_MAX: Final = 60 * 1024
"""Of all results in one status, as JSON; what does not fit waits until others have been taken."""
RETRY_FIRST_S: Final = 0.2
RETRY_MAX_S: Final = 10.0

log = logging.getLogger(__name__)


class Reporter:
    """Writes the status of one Worker."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        settings: WorkerSettings,
        mailbox: Mailbox,
        own: OwnObject,
        observe: Callable[[Obj], None],
        metrics: WorkerMetrics,
    ) -> None:
        """`observe` is told each version of the Worker that an answer brings."""
        self._api = api
        self._clock = clock
        self._settings = settings
        self._mailbox = mailbox
        self._own = own
        self._observe = observe
        self._metrics = metrics
        self._backoff = Backoff(settings.name, RETRY_FIRST_S, RETRY_MAX_S)
        self._touched = asyncio.Event()
        self._one_by_one = False

    @property
    def behind(self) -> bool:
        """Whether something that should be stored is not, as far as we know."""
        return bool(self._fresh()) or self._farewell_unsaid

    def touch(self) -> None:
        """Something may have to be written."""
        self._touched.set()

    async def run(self) -> None:
        """Write until cancelled; WorkerLostError if the Worker is gone."""
        while True:
            await self._touched.wait()
            await self._clock.sleep(self._settings.coalesce_s)
            self._touched.clear()
            while (fresh := self._choose()) or self._farewell_unsaid:
                await self._write(fresh)

    @property
    def _farewell_unsaid(self) -> bool:
        """Whether the status does not tell yet that the worker is draining, or, though it could, that it has left."""
        mailbox, stored = self._mailbox, self._own.latest
        if mailbox.leaving and not left_of(stored):
            return mailbox.answers_for_all(self._kept() | self._choose())
        return mailbox.draining and not draining_of(stored)

    def _fresh(self) -> dict[str, str]:
        """The results that are not stored yet, in the order in which they came."""
        stored = results_of(self._own.latest)
        return {key: text for key, text in self._mailbox.results().items() if stored.get(key) != text}

    def _kept(self) -> dict[str, str]:
        """The results that are stored and have not been taken yet."""
        stored = results_of(self._own.latest)
        return {key: text for key, text in self._mailbox.results().items() if stored.get(key) == text}

    def _choose(self) -> dict[str, str]:
        """The fresh results that the next write is to carry."""
        kept = self._kept()
        room = RESULTS_BYTES_MAX - _bytes_of(kept)
        chosen: dict[str, str] = {}
        for key, text in self._fresh().items():
            room -= _bytes_of({key: text})
            # One that is larger than all the room there is goes by itself, once nothing else is left.
            if (room < 0 and (kept or chosen)) or (chosen and self._one_by_one):
                break
            chosen[key] = text
        return chosen

    async def _write(self, fresh: dict[str, str]) -> None:
        """One try."""
        mailbox, results = self._mailbox, self._kept() | fresh
        left = mailbox.leaving and mailbox.answers_for_all(results)
        wanted = answered_worker(self._own.latest, results, draining=mailbox.draining, left=left)
        try:
            stored = await self._api.replace(WORKERS, wanted, subresource="status")
        except ConflictError:
            await self._read_again()
        except NotFoundError as error:
            raise WorkerLostError(f"Worker {self._settings.name} is gone: somebody has deleted it") from error
        except InvalidError as error:
            log.warning("Worker %s: the API server refused %d results: %s", self._settings.name, len(fresh), error)
            if await self._read_again():
                self._sort_out(fresh, error)
        except ApiError as error:
            log.warning("Worker %s: %d results could not be written: %s", self._settings.name, len(fresh), error)
            await self._clock.sleep(
                error.retry_after_s if isinstance(error, OverloadedError) else self._backoff.next_s()
            )
        else:
            self._backoff.reset()
            self._observe(stored)
            self._one_by_one = self._one_by_one and bool(self._fresh())

    async def _read_again(self) -> bool:
        """Learn the Worker as it is now; False, after a pause, if it cannot be read."""
        try:
            self._observe(await self._api.get(WORKERS, self._settings.namespace, self._settings.name))
        except NotFoundError as error:
            raise WorkerLostError(f"Worker {self._settings.name} is gone: somebody has deleted it") from error
        except ApiError as error:
            log.warning("Worker %s could not be read: %s", self._settings.name, error)
            await self._clock.sleep(self._backoff.next_s())
            return False
        return True

    def _sort_out(self, refused: dict[str, str], error: InvalidError) -> None:
        """Which results of a refused write are to blame, now that the newest mailbox is known?"""
        fresh = self._fresh()
        for key in refused.keys() - fresh.keys():
            log.warning("the result of %s is dropped: its lease has been taken back", key)
            self._metrics.result_refused()
        if refused.keys() - fresh.keys():
            return
        if len(refused) > 1:
            self._one_by_one = True
            return
        for key in refused:
            log.error("the result of %s is refused by itself; its texts are dropped: %s", key, error)
            if not self._mailbox.spoil(key, "the API server refused the texts of this job's result"):
                log.error("the result of %s is refused without its texts too, and given up", key)
                self._metrics.result_refused()


def _bytes_of(results: dict[str, str]) -> int:
    return len(orjson.dumps(results))
