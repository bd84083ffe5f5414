"""The worker's own Lease, and how long it may trust itself.

Think of a parking meter: the time bought counts from when the coin went in, not from when the receipt came out. A
renewal that succeeds gives trust from the moment *before* it was sent; the leader, who counts from when it sees the
renewal, cannot have given the worker up earlier. The clock goes on in a suspend, and is looked at once a second, so a
machine that wakes up too late stops its jobs before it does anything else.

The operator may ask for renewals that are further apart, and later for closer ones again. The Lease says how long it
lasts, and the two sides must not disagree about that: a longer trust is believed only once the renewal that says so is
known to be stored, a shorter one from the moment at which such a renewal is sent.

Can a job of this worker still run when its lease has been given to another? Only if the machine is so slow that
KILL_MARGIN_S are not enough to kill it, or if this process stands still while its jobs do not. For these there are
tokens.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from fencepost.api.names import LEASES
from fencepost.base.clock import Clock
from fencepost.kube.errors import ApiError, ConflictError, NotFoundError
from fencepost.kube.protocol import Api, Obj
from fencepost.worker.backoff import Backoff
from fencepost.worker.objects import renewed_lease, uid_of
from fencepost.worker.own import WorkerLostError
from fencepost.worker.settings import LOST_GRACE_S, WorkerSettings

RENEWAL_TIMEOUT_S: Final = 5.0
"""Of one request; an answer that takes longer is taken as lost."""
RETRY_FIRST_S: Final = 1.0
RETRY_MAX_S: Final = 2.0
TRUST_LOOK_S: Final = 1.0

log = logging.getLogger(__name__)


class LeaseKeeper:
    """Renews one Lease, and tells when trust has ended."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        settings: WorkerSettings,
        lease: Obj,
        renewed_at_s: float,
        mailbox_seen: Callable[[], str],
        interval_told_s: Callable[[], float],
    ) -> None:
        """`renewed_at_s`: by the steady clock, before the write of `lease` was sent. `mailbox_seen`: the version of the
        mailbox that has been acted on. `interval_told_s`: how often the operator asks for a renewal; 0: it does not."""
        self._api = api
        self._clock = clock
        self._settings = settings
        self._lease = lease
        self._renewed_at_s = renewed_at_s
        self._pace = settings.pace(0.0)
        """Of the newest renewal that is known to be stored."""
        self._trusted_until_s = renewed_at_s + self._pace.trust_s
        self._mailbox_seen = mailbox_seen
        self._interval_told_s = interval_told_s
        self.looked_at_s = clock.steady_s()
        """When trust was looked at last: the pulse of the worker's loop."""

    @property
    def trust_left_s(self) -> float:
        """Until jobs have to be stopped; not above zero: now."""
        return self._trusted_until_s - self._clock.steady_s()

    async def renew_forever(self) -> None:
        """Renew at each heartbeat, sooner after a failure. WorkerLostError if the Lease is gone."""
        backoff = Backoff(self._settings.name, RETRY_FIRST_S, RETRY_MAX_S)
        while True:
            next_s = self._renewed_at_s + self._pace.heartbeat_s - self._clock.steady_s()
            await self._clock.sleep(next_s)
            while not await self._renew():
                await self._clock.sleep(backoff.next_s())
            backoff.reset()

    async def watch_trust(self) -> None:
        """Returns never; WorkerLostError when trust has ended."""
        while (left_s := self.trust_left_s) > 0:
            self.looked_at_s = self._clock.steady_s()
            await self._clock.sleep(min(left_s, TRUST_LOOK_S))
        raise WorkerLostError(
            f"Lease {self._settings.name} could not be renewed for {self._clock.steady_s() - self._renewed_at_s:.1f} s:"
            " others may soon count this worker as lost",
            grace_s=max(0.0, LOST_GRACE_S + left_s),
        )

    async def _renew(self) -> bool:
        """One try; False if it has to be made again."""
        pace = self._settings.pace(self._interval_told_s())
        sent_at_s = self._clock.steady_s()
        trusted_until_s = sent_at_s + pace.trust_s
        self._trusted_until_s = min(self._trusted_until_s, trusted_until_s)
        wanted = renewed_lease(self._lease, self._mailbox_seen(), pace.lease_duration_s, self._clock.now_s())
        try:
            async with asyncio.timeout(RENEWAL_TIMEOUT_S):
                self._lease = await self._api.replace(LEASES, wanted)
        except ConflictError:
            await self._read_again()
            return False
        except NotFoundError as error:
            raise WorkerLostError(f"Lease {self._settings.name} is gone: somebody has deleted it") from error
        except (ApiError, TimeoutError) as error:
            # If it is stored all the same, the next try meets a conflict and reads.
            log.warning("Lease %s could not be renewed: %s", self._settings.name, str(error) or "no answer in time")
            return False
        self._renewed_at_s, self._pace, self._trusted_until_s = sent_at_s, pace, trusted_until_s
        return True

    async def _read_again(self) -> None:
        """After a conflict: an own write whose answer was lost, or somebody's edit. Trust comes from writes alone."""
        try:
            async with asyncio.timeout(RENEWAL_TIMEOUT_S):
                stored = await self._api.get(LEASES, self._settings.namespace, self._settings.name)
        except (ApiError, TimeoutError):
            return
        if uid_of(stored) != uid_of(self._lease):
            raise WorkerLostError(f"Lease {self._settings.name} has been deleted and made again by somebody else")
        self._lease = stored
