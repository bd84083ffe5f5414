"""Reads that wait for an API server which is away, slow or overloaded, but not for ever."""

from typing import Final

from fencepost.api.names import Kind
from fencepost.base.clock import Clock
from fencepost.kube.errors import ApiError, ForbiddenError, NotFoundError
from fencepost.kube.protocol import Api, Obj
from fencepost.worker.backoff import Backoff

READ_PATIENCE_S: Final = 60.0
"""How long a job waits for an API server that does not give what it needs; then it is handed back."""
READ_RETRY_FIRST_S: Final = 0.5
READ_RETRY_MAX_S: Final = 10.0


class UnavailableError(Exception):
    """What the job needs cannot be read now; another worker may be luckier."""


class PatientReads:
    """The reads of one worker."""

    def __init__(self, api: Api, clock: Clock, worker: str) -> None:
        self._api = api
        self._clock = clock
        self._worker = worker

    async def get(self, kind: Kind, namespace: str | None, name: str, *, refusal_is_final: bool = False) -> Obj:
        """The object; NotFoundError at once, UnavailableError when patience has ended. `refusal_is_final`: rights are
        not waited for, and a ForbiddenError comes at once too."""
        backoff = Backoff(self._worker, READ_RETRY_FIRST_S, READ_RETRY_MAX_S)
        give_up_s = self._clock.steady_s() + READ_PATIENCE_S
        while True:
            try:
                return await self._api.get(kind, namespace, name)
            except NotFoundError:
                raise
            except ApiError as error:
                if refusal_is_final and isinstance(error, ForbiddenError):
                    raise
                if self._clock.steady_s() >= give_up_s:
                    where = f"{namespace}/{name}" if namespace else name
                    fact = f"{kind.kind} {where} could not be read for {READ_PATIENCE_S:g} s"
                    raise UnavailableError(f"{fact}: {error}") from error
            await self._clock.sleep(backoff.next_s())
