"""This replica's own member Lease: joining, renewing, learning that it was fenced, leaving.

Its rule: every renewal is a compare-and-swap on the very object that we created. Whoever thinks us dead deletes that
object, so a renewal that succeeds proves that nobody has, however long we have been away; and one that finds it gone
says that all we led may be led by others by now. Then we are another member: new identity, new Lease, no shards.

A lost answer is not a refusal. We read what is stored, and if it is still our object we renew it again; the trust
window opens only by a renewal whose answer we have, and from the moment before that one was sent.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from fencepost.api.names import LEASES
from fencepost.api.times import format_micro_time
from fencepost.base.alarm import Alarm
from fencepost.base.clock import Clock
from fencepost.core.definition import Priority
from fencepost.core.lease import CLOSED, NO_CONTACT, LeaseTimes, trust_window
from fencepost.core.names import member_lease_name
from fencepost.core.turns import Backlog
from fencepost.kube.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError
from fencepost.kube.protocol import Api, Obj
from fencepost.loops.lease_objects import counts_as_gone, member_object, over

log = logging.getLogger(__name__)

RETRY_S = 0.5
HURRY_S = 1.0
"""Between renewals, if something is worth telling at once."""


class Membership:
    """One replica as a member; `run` it, and ask `holds` before acting."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        times: LeaseTimes,
        namespace: str,
        *,
        replica: str,
        nonce: Callable[[], str],
        progress: Callable[[], bool],
        clock_right: Callable[[], bool],
        waiting: Callable[[], Mapping[str, Backlog]],
        on_renewed: Callable[[], None],
        on_fenced: Callable[[], Awaitable[None]],
    ) -> None:
        self._api = api
        self._clock = clock
        self._times = times
        self._namespace = namespace
        self._replica = replica
        self._nonce = nonce
        self._progress = progress
        self._clock_right = clock_right
        self._waiting = waiting
        self._told: Mapping[str, Backlog] = {}
        self._sent_s = clock.steady_s()
        self._on_renewed = on_renewed
        self._on_fenced = on_fenced
        self._due = Alarm(clock)
        self._leaving = False
        self._progressing = True
        self.contact = NO_CONTACT
        self._start_over()

    def _start_over(self) -> None:
        self.identity = f"{self._replica}-{self._nonce()}"
        self._joined_s = self._clock.now_s()
        self._lease: Obj | None = None
        self._trust = CLOSED

    @property
    def lease_version(self) -> int | None:
        """resourceVersion of our member Lease as last stored; None while there is none."""
        return None if self._lease is None else int(self._lease["metadata"]["resourceVersion"])

    def holds(self) -> bool:
        """Whether we may act now for what we lead."""
        return self._trust.holds(self._clock.steady_s())

    def doubt(self) -> None:
        """Our Lease seems to be gone: act no more until a renewal has succeeded, and try one now."""
        self._trust = CLOSED
        self._due.ring()

    def hurry(self) -> None:
        """Renew now, if a critical job waits of which the others have not been told. A renewal that comes early takes
        the place of the next one."""
        if self._clock.steady_s() - self._sent_s < HURRY_S:
            return
        if _critical(self._waiting()) - _critical(self._told):
            self._due.ring()

    async def run(self) -> None:
        """Join, renew, and join again once fenced; until `leave`, or cancelled."""
        while not self._leaving:
            started_s = self._clock.steady_s()
            renewed = self._makes_progress() and await self._renew_or_log(started_s)
            pause_s = self._times.renewal_s if renewed else RETRY_S
            await self._due.wait(max(0.0, started_s + pause_s - self._clock.steady_s()))

    async def leave(self) -> None:
        """Give up everything at once, by deleting our Lease. The caller acts no more. Raises ApiError."""
        self._leaving = True
        self._due.ring()
        uid = self._lease["metadata"]["uid"] if self._lease else ""
        try:
            await self._api.delete(LEASES, self._namespace, member_lease_name(self.identity), uid=uid)
        except (NotFoundError, ConflictError):
            log.info("member %s was gone before it left", self.identity)

    def _makes_progress(self) -> bool:
        before, self._progressing = self._progressing, self._progress()
        if before and not self._progressing:
            log.error("the scheduler makes no progress: member %s is not renewed until it does", self.identity)
        return self._progressing

    async def _renew_or_log(self, sent_s: float) -> bool:
        """Whether the trust window reaches further now."""
        try:
            async with asyncio.timeout(self._times.renewal_s):
                stored = await self._write()
                if stored is None and await self._read_ours():
                    self._due.ring()
                    return False
        except (ApiError, TimeoutError) as error:
            log.warning("member %s could not be renewed, trying again: %r", self.identity, error)
            return False
        if stored is None:
            log.warning("member %s was fenced: it leads nothing any more, and joins under a new name", self.identity)
            self._start_over()
            await self._on_fenced()
            self._due.ring()
            return False
        self._lease = stored
        self._trust = trust_window(sent_s, self._times)
        self.contact = self.contact.answered(self._clock.steady_s(), self._times)
        self._on_renewed()
        return True

    async def _write(self) -> Obj | None:
        """The Lease as stored by a write of ours; None if what is stored is not what we believed."""
        self._sent_s, self._told = self._clock.steady_s(), self._waiting()
        wanted = member_object(
            self._namespace,
            self.identity,
            self._times,
            self._joined_s,
            self._clock.now_s(),
            clock_right=self._clock_right(),
            waiting=self._told,
        )
        try:
            if self._lease is None:
                return await self._api.create(LEASES, wanted)
            # It carries the UID: a PUT of a Lease that is gone would otherwise create another one.
            return await self._api.replace(LEASES, over(self._lease, wanted))
        except (ConflictError, NotFoundError, AlreadyExistsError):
            return None

    async def _read_ours(self) -> bool:
        """Whether what is stored under our name is what we created; then the next renewal builds on it."""
        try:
            stored = await self._api.get(LEASES, self._namespace, member_lease_name(self.identity))
        except NotFoundError:
            return False
        if counts_as_gone(stored):
            return False
        if self._lease is None:  # an answer to our create was lost, or somebody else has drawn our name
            ours = bool(stored["spec"].get("acquireTime") == format_micro_time(self._joined_s))
        else:
            ours = stored["metadata"]["uid"] == self._lease["metadata"]["uid"]
        if ours:
            self._lease = stored
        return ours


def _critical(waiting: Mapping[str, Backlog]) -> set[str]:
    """The pools for which a critical job waits."""
    return {pool for pool, backlog in waiting.items() if backlog.level == Priority.CRITICAL}
