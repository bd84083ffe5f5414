"""How a worker comes into being: first its Lease, then its Worker, so that nobody ever sees a worker without a lease.

The name is this process's alone, so an object that already has it was made by a try of ours whose answer got lost. An
API server that is away, that does not know the kinds yet or does not grant the rights yet is waited for; only an object
that it calls invalid ends the process, as no waiting helps.
"""

import logging
from dataclasses import dataclass
from typing import Final

from fencepost.api.names import LEASES, WORKERS
from fencepost.base.clock import Clock
from fencepost.kube.errors import AlreadyExistsError, ApiError, InvalidError
from fencepost.kube.protocol import Api, Obj
from fencepost.worker.backoff import Backoff
from fencepost.worker.objects import lease_object, owned_lease, renewed_lease, worker_object
from fencepost.worker.settings import WorkerSettings

RETRY_FIRST_S: Final = 0.5
RETRY_MAX_S: Final = 15.0

log = logging.getLogger(__name__)


class RegistrationRefusedError(Exception):
    """The API server calls our objects invalid: this worker and this cluster do not fit together."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A worker that exists."""

    lease: Obj
    """Owned by the Worker from its next renewal on: when an operator deletes the Worker of the dead, its Lease goes."""
    renewed_at_s: float
    """By the steady clock, before the newest write of the Lease was sent."""
    worker: Obj


async def register(api: Api, clock: Clock, settings: WorkerSettings) -> Registration:
    """Make both objects, however long it takes; RegistrationRefusedError if they can never be made."""
    backoff = Backoff(settings.name, RETRY_FIRST_S, RETRY_MAX_S)
    while True:
        try:
            lease, renewed_at_s = await _lease(api, clock, settings)
            worker = await _worker(api, settings)
        except InvalidError as error:
            raise RegistrationRefusedError(f"worker {settings.name} cannot be registered: {error}") from error
        except ApiError as error:
            delay_s = backoff.next_s()
            log.warning("worker %s cannot register yet: %s; again in %.1f s", settings.name, error, delay_s)
            await clock.sleep(delay_s)
        else:
            return Registration(owned_lease(lease, worker), renewed_at_s, worker)


async def _lease(api: Api, clock: Clock, settings: WorkerSettings) -> tuple[Obj, float]:
    """The Lease, fresh, and when its newest write was sent: created, or renewed if an earlier try has left it."""
    sent_at_s = clock.steady_s()
    try:
        return await api.create(LEASES, lease_object(settings, clock.now_s())), sent_at_s
    except AlreadyExistsError:
        stored = await api.get(LEASES, settings.namespace, settings.name)
    sent_at_s = clock.steady_s()
    return await api.replace(LEASES, renewed_lease(stored, "", settings.lease_duration_s, clock.now_s())), sent_at_s


async def _worker(api: Api, settings: WorkerSettings) -> Obj:
    """The Worker: created, or as an earlier try has left it."""
    try:
        return await api.create(WORKERS, worker_object(settings))
    except AlreadyExistsError:
        return await api.get(WORKERS, settings.namespace, settings.name)
