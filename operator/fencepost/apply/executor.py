"""The only writer of the operator. Guard, call, count, log; no policy.

A write is guarded by the trust window of the shard in whose name it is made, asked at the last moment. Its answer comes
back as a value: a conflict is not an error, and a lost answer is neither success nor failure but a reason to read.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, assert_never

from fencepost.api import names as wire
from fencepost.api.objects import (
    event_object,
    fenced_object,
    letter_object,
    mailbox_object,
    revision_object,
    run_object,
    status_object,
)
from fencepost.apply.writers import WINDOW_MAX_S
from fencepost.base.clock import Clock
from fencepost.core.intents import (
    Announce,
    Authority,
    CreateLetter,
    CreateRevision,
    CreateRun,
    DeleteDag,
    DeleteLease,
    DeleteLetter,
    DeleteRevision,
    DeleteRun,
    DeleteWorker,
    FenceWorker,
    Intent,
    WriteDagStatus,
    WriteLetterStatus,
    WriteMailbox,
    WritePoolStatus,
    WriteRun,
)
from fencepost.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    NotReadyError,
    OverloadedError,
)
from fencepost.kube.protocol import Api, Obj

log = logging.getLogger(__name__)


class Answer(StrEnum):
    """What became of a write."""

    DONE = "Done"
    """Stored; `object` is the object as stored (None after a deletion)."""
    CONFLICT = "Conflict"
    """The object has changed since it was read: read it again and plan again."""
    EXISTS = "Exists"
    """The name is taken: read what stands there."""
    GONE = "Gone"
    """There is no such object any more."""
    REFUSED = "Refused"
    """A fence, a rule or a missing right (403, 422): as it is, the API server will not have it. Read before planning
    again, as what was refused was planned on something that does not hold any more."""
    UNKNOWN = "Unknown"
    """No answer, or a server error: it may be stored or not. Read before planning again."""
    BUSY = "Busy"
    """The server is overloaded, or has just started, and has not carried it out: later."""
    NOT_LEADING = "NotLeading"
    """Not sent: the shard's trust window is over."""


@dataclass(frozen=True, slots=True)
class Written:
    """The answer to one intent."""

    answer: Answer
    object: Obj | None = None
    error: str = ""


class WriteObserver(Protocol):
    """Counts refusals by fence; implemented by the metrics."""

    def refused(self, kind: str, status: int) -> None: ...


class Executor:
    """Carries out intents on one API server."""

    def __init__(
        self,
        api: Api,
        leads: Callable[[Authority], bool],
        observer: WriteObserver,
        clock: Clock,
        note_latency: Callable[[float], None],
    ) -> None:
        """`leads`: whether a write may still be made under this authority. `note_latency`: told how long each took."""
        self._api = api
        self._leads = leads
        self._observer = observer
        self._clock = clock
        self._note_latency = note_latency

    async def execute(self, intent: Intent) -> Written:
        """Carry out one intent; never raises for what an API server can answer."""
        authority = getattr(intent, "authority", None)
        if authority is not None and not self._leads(authority):
            return Written(Answer.NOT_LEADING, error=f"shard {authority.shard} is not led here under {authority.epoch}")
        sent_s = self._clock.steady_s()
        try:
            return Written(Answer.DONE, await self._send(intent))
        except AlreadyExistsError as error:
            return Written(Answer.EXISTS, error=str(error))
        except ConflictError as error:
            self._observer.refused(type(intent).__name__, error.status)
            return Written(Answer.CONFLICT, error=str(error))
        except NotFoundError as error:
            return Written(Answer.GONE, error=str(error))
        except (ForbiddenError, InvalidError) as error:
            self._observer.refused(type(intent).__name__, error.status)
            log.warning("refused: %s", error, extra={"intent": type(intent).__name__, "status": error.status})
            return Written(Answer.REFUSED, error=str(error))
        except NotReadyError as error:
            log.warning("not judged yet, trying again: %s", error, extra={"intent": type(intent).__name__})
            return Written(Answer.BUSY, error=str(error))
        except OverloadedError as error:
            self._note_latency(WINDOW_MAX_S)
            return Written(Answer.BUSY, error=str(error))
        except ApiError as error:
            log.warning("no clear answer: %s", error, extra={"intent": type(intent).__name__})
            return Written(Answer.UNKNOWN, error=str(error))
        finally:
            self._note_latency(self._clock.steady_s() - sent_s)

    async def _send(self, intent: Intent) -> Obj | None:
        api = self._api
        match intent:
            case CreateRun():
                return await api.create(wire.DAG_RUNS, run_object(intent))
            case WriteRun():
                return await api.replace(wire.DAG_RUNS, run_object(intent))
            case WriteMailbox():
                return await api.replace(wire.WORKERS, mailbox_object(intent))
            case WriteDagStatus():
                body = status_object(wire.DAGS, intent.record, intent.status)
                return await api.replace(wire.DAGS, body, subresource="status")
            case CreateLetter() | WriteLetterStatus() | DeleteLetter():
                return await self._send_letter(intent)
            case CreateRevision():
                return await api.create(wire.CONTROLLER_REVISIONS, revision_object(intent))
            case FenceWorker():
                return await api.replace(wire.WORKERS, fenced_object(intent.record))
            case DeleteDag() | DeleteRun() | DeleteRevision() | DeleteWorker() | DeleteLease():
                await self._delete(intent)
            case WritePoolStatus():
                body = status_object(wire.WORKER_POOLS, intent.record, intent.status)
                return await api.replace(wire.WORKER_POOLS, body, subresource="status")
            case Announce():
                return await api.create(wire.EVENTS, event_object(intent, self._clock.now_s()))
            case _:
                assert_never(intent)
        return None

    async def _delete(self, intent: DeleteDag | DeleteRun | DeleteRevision | DeleteWorker | DeleteLease) -> None:
        api = self._api
        match intent:
            case DeleteDag():
                meta = intent.record["metadata"]
                namespace, name, version = meta["namespace"], meta["name"], meta["resourceVersion"]
                await api.delete(wire.DAGS, namespace, name, uid=meta["uid"], resource_version=version)
            case DeleteRun():
                namespace, name = intent.run
                await api.delete(wire.DAG_RUNS, namespace, name, uid=intent.uid, resource_version=intent.version)
            case DeleteRevision():
                await api.delete(wire.CONTROLLER_REVISIONS, intent.namespace, intent.name)
            case DeleteLease():
                await api.delete(wire.LEASES, intent.namespace, intent.name, resource_version=intent.version)
            case DeleteWorker():
                meta = intent.record["metadata"]
                namespace, name, version = meta["namespace"], meta["name"], meta["resourceVersion"]
                with suppress(NotFoundError):
                    await api.delete(wire.LEASES, namespace, name)
                await api.delete(wire.WORKERS, namespace, name, uid=meta["uid"], resource_version=version)
            case _:
                assert_never(intent)

    async def _send_letter(self, intent: CreateLetter | WriteLetterStatus | DeleteLetter) -> Obj | None:
        api = self._api
        match intent:
            case CreateLetter():
                return await api.create(wire.DEAD_LETTERS, letter_object(intent))
            case WriteLetterStatus():
                body = status_object(wire.DEAD_LETTERS, intent.record, intent.status)
                return await api.replace(wire.DEAD_LETTERS, body, subresource="status")
            case DeleteLetter():
                await api.delete(wire.DEAD_LETTERS, intent.namespace, intent.name, uid=intent.uid)
            case _:
                assert_never(intent)
        return None
