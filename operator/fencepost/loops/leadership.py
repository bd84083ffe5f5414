"""Which shards this replica leads: taking them, handing them over, losing them.

What is right is decided in `core.lease` and `core.ring`; here it is carried out. Three loops run side by side: the
membership (our renewals), the watch (what others do), and this one, which looks at each shard again whenever one of
them has news, and starts at most one step for it. Steps of different shards run at the same time: a slow answer delays
one shard.

Its rule: what a step believes is the object on which it compares and swaps, and after a write of ours a shard is left
alone until the watch has shown that write. So a step that is built on old news fails and changes nothing.

Giving up everything is one write: a member that deletes its own Lease leads nothing, whatever the shards' Leases say.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import assert_never

from fencepost.api.names import LEASES
from fencepost.base.alarm import Alarm
from fencepost.base.clock import Clock
from fencepost.core.lease import LeaseTimes, Step, is_led, next_epoch, next_step, silent_at_s, stray_at_s
from fencepost.core.names import member_lease_name
from fencepost.core.ring import assign, eligible
from fencepost.core.turns import Backlog, Rivals
from fencepost.kube.errors import ApiError, ConflictError, NotFoundError
from fencepost.kube.protocol import Api
from fencepost.loops.lease_store import WRITE_S_MAX, LeaseStore
from fencepost.loops.lease_watch import LeaseWatch, SeenMember, SeenShard
from fencepost.loops.membership import Membership

log = logging.getLogger(__name__)

NEVER = float("inf")
RETRY_S = 0.5
DRAIN_S_MAX = 1.0
"""How long the scheduler may take to stop acting for a shard; after that `holds` says no in any case."""
LEAVE_S_MAX = 1.0
"""How long we try to tell the others that we leave; else they find out by our silence."""


class Leadership:
    """The shards that one replica leads.

    `on_acquired(shard, epoch)` is called when a shard has become ours; `await on_released(shard)` when it is to be ours
    no longer, before anyone else hears of it: on return nothing acts for the shard any more. `progress()` says whether
    the scheduler's loop is alive; while it is not, this replica does not renew. `clock_right()` says whether its wall
    clock can be trusted; while it cannot, the shards are for those members that trust theirs, if there are any.
    """

    def __init__(
        self,
        api: Api,
        clock: Clock,
        *,
        namespace: str,
        replica: str,
        shards: int,
        times: LeaseTimes,
        nonce: Callable[[], str],
        progress: Callable[[], bool],
        clock_right: Callable[[], bool],
        on_acquired: Callable[[int, int], None],
        on_released: Callable[[int], Awaitable[None]],
        waiting: Callable[[], Mapping[str, Backlog]] = dict,
    ) -> None:
        """`waiting`: by pool, the best of our jobs that waits for a slot; the others are told with each renewal."""
        self._api = api
        self._clock = clock
        self._namespace = namespace
        self._shards = shards
        self._times = times
        self._clock_right = clock_right
        self._on_acquired = on_acquired
        self._on_released = on_released
        self._alarm = Alarm(clock)
        self._store = LeaseStore(api, clock, namespace, shards)
        self._watch = LeaseWatch(api, clock, times, namespace, self._alarm.ring)
        self._membership = Membership(
            api,
            clock,
            times,
            namespace,
            replica=replica,
            nonce=nonce,
            progress=progress,
            clock_right=clock_right,
            waiting=waiting,
            on_renewed=self._alarm.ring,
            on_fenced=self._lose_all,
        )
        self._held: dict[int, int] = {}
        """Shard to epoch: what is ours while the trust window holds."""
        self._steps: dict[int | str, asyncio.Task[None]] = {}
        """Under way, by shard, or by the identity of a member to be fenced."""
        self._written: dict[int, int] = {}
        """Shard to the resource version of our last write of its Lease."""
        self._members: frozenset[str] = frozenset()
        """All whose member Lease is there: they may act for what they hold."""
        self._ring: frozenset[str] = frozenset()
        """Those of them that should lead."""
        self._leaders: Mapping[int, str] = {}
        """Shard to the member of the ring that should lead it."""
        self.clock_right_somewhere = True
        """Whether any member trusts its wall clock; if none does, nothing scheduled fires."""
        self._astray: set[int] = set()
        """Taken though another should lead it, because nobody did; ours until a member comes or goes."""
        self._unled_since_s: dict[int, float] = {}
        self._fenced: set[str] = set()
        """UIDs of the member Leases that we have deleted and that the watch still shows."""
        self._stopping = False

    @property
    def identity(self) -> str:
        """Of this replica as a member; another one each time it has been fenced."""
        return self._membership.identity

    @property
    def held(self) -> Mapping[int, int]:
        """Shard to epoch, of all shards for which we may act now."""
        return dict(self._held) if self._membership.holds() else {}

    def holds(self, shard: int) -> int | None:
        """The epoch under which we may act for the shard now; None: we may not. Ask before each write."""
        return self._held.get(shard) if self._membership.holds() else None

    def rivals(self, pool: str) -> Rivals:
        """What the other members have told of a pool. One whose Lease has run out tells nothing any more."""
        now_s, members = self._clock.steady_s(), self._watch.members.items()
        told = {name: seen for name, seen in members if name != self.identity and pool in seen.record.waiting}
        live = {name: seen for name, seen in told.items() if now_s - seen.seen_s < seen.record.duration_s}
        return Rivals(self.identity, {name: seen.record.waiting[pool] for name, seen in live.items()})

    def hurry(self) -> None:
        """A critical job waits for a slot: let the others know."""
        self._membership.hurry()

    async def run(self) -> None:
        """Lead what is ours, until cancelled. ShardCountError if the cluster has another number of shards."""
        while not await self._settle_count():
            await self._clock.sleep(RETRY_S)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch.run(), name="lease watch")
            group.create_task(self._membership.run(), name="membership")
            while True:
                await self._alarm.wait(self._start_steps(group))

    async def step_down(self) -> None:
        """Lead nothing any more, within two seconds whatever happens; `run` may be cancelled afterwards."""
        self._stopping = True
        ends = [self._steps.get(shard) or asyncio.ensure_future(self._drain(shard)) for shard in self._held]
        if ends:
            await asyncio.wait(ends, timeout=DRAIN_S_MAX)
        self._held.clear()
        try:
            async with asyncio.timeout(LEAVE_S_MAX):
                await self._membership.leave()
        except (ApiError, TimeoutError) as error:
            log.warning(
                "member %s could not say that it leaves, its shards are free in %d s: %r",
                self.identity,
                self._times.duration_s,
                error,
            )

    async def _settle_count(self) -> bool:
        try:
            await self._store.settle_count()
        except (ApiError, TimeoutError) as error:
            log.warning("the number of shards in %s cannot be read, trying again: %r", self._namespace, error)
            return False
        return True

    def _start_steps(self, group: asyncio.TaskGroup) -> float | None:
        """Look at everything once; for how many seconds nothing will change by the mere passing of time."""
        now_s = self._clock.steady_s()
        in_touch = self._membership.holds() and self._membership.contact.holds(now_s, self._times)
        if self._stopping or not self._watch.version or not in_touch:
            return None  # the next renewal, or the watch, wakes us
        if self._own_lease_vanished():
            self._membership.doubt()
            return None
        self._know_members()
        wake_at_s = [
            self._start_fence(group, identity, seen, now_s)
            for identity, seen in self._watch.members.items()
            if identity != self.identity
        ]
        wake_at_s += [self._start_step(group, shard, self._leaders[shard], now_s) for shard in range(self._shards)]
        wake_s = min(wake_at_s) - now_s
        return None if wake_s == NEVER else wake_s

    def _know_members(self) -> None:
        """Who is there, and who of them should lead."""
        clocks = {identity: seen.record.clock_right for identity, seen in self._watch.members.items()}
        clocks[self.identity] = self._clock_right()
        members, ring = frozenset(clocks), eligible(clocks)
        if (members, ring) != (self._members, self._ring):
            told = {"members": sorted(members), "sharing": sorted(ring)}
            log.info("%d of %d replicas share %d shards", len(ring), len(members), self._shards, extra=told)
            self._members, self._ring, self._leaders = members, ring, assign(self._shards, ring)
            self._astray.clear()
            self._fenced.clear()
        right_somewhere, before = any(clocks.values()), self.clock_right_somewhere
        self.clock_right_somewhere = right_somewhere
        if before and not right_somewhere:
            log.error(
                "no replica's clock agrees with the API server's (replicas: %d): NOTHING SCHEDULED FIRES until one "
                "does; check their nodes, and the API server's own clock",
                len(members),
            )

    def _own_lease_vanished(self) -> bool:
        version = self._membership.lease_version
        shown = version is not None and self._watch.version >= version
        return shown and self.identity not in self._watch.members

    def _start_fence(self, group: asyncio.TaskGroup, identity: str, seen: SeenMember, now_s: float) -> float:
        """Delete the Lease of a member that has been silent for long enough; when to look at it again."""
        if identity in self._steps or seen.uid in self._fenced:
            return NEVER  # the end of the step, or the watch, wakes us
        at_s = silent_at_s(seen.record, seen.seen_s, self._membership.contact, self._times)
        if now_s >= at_s:
            self._start(group, identity, self._fence(identity, seen))
            return NEVER
        return at_s

    def _start_step(self, group: asyncio.TaskGroup, shard: int, leader: str, now_s: float) -> float:
        """Start what is to be done for one shard; when to look at it again."""
        seen = self._watch.shards.get(shard)
        if shard in self._steps or self._watch.version < self._written.get(shard, 0):
            return NEVER  # the end of the step, or the watch, wakes us
        record = None if seen is None else seen.record
        holder_exists = record is not None and record.holder in self._members
        stray_at_s = self._stray_at_s(shard, is_led(record, holder_exists), now_s)
        if now_s >= stray_at_s and leader != self.identity and self.identity in self._ring:
            log.warning("shard %d is led by nobody, %s should: taking it", shard, leader, extra={"shard": shard})
            self._astray.add(shard)
        mine = leader == self.identity or shard in self._astray
        step = next_step(record, self.identity, self._held.get(shard), holder_exists, mine)
        action = self._action(step, shard, seen)
        if action is not None:
            self._start(group, shard, action)
        return stray_at_s if now_s < stray_at_s else NEVER

    def _stray_at_s(self, shard: int, led: bool, now_s: float) -> float:
        """When anyone may take the shard if nobody leads it until then."""
        if led or shard in self._astray:
            self._unled_since_s.pop(shard, None)
            return NEVER
        since_s = self._unled_since_s.setdefault(shard, now_s)
        return stray_at_s(since_s, self._membership.contact, self._times)

    def _action(self, step: Step, shard: int, seen: SeenShard | None) -> Coroutine[None, None, None] | None:
        match step:
            case Step.KEEP | Step.WAIT:
                return None
            case Step.MEND:
                return self._mend(shard, seen)
            case Step.LOSE:
                return self._lose(shard)
        assert seen is not None, "every other step is one on a Lease that is there"
        match step:
            case Step.ACQUIRE:
                return self._acquire(shard, seen, self.identity)
            case Step.HAND_OVER | Step.RELEASE:
                return self._release(shard, seen)
            case _:
                assert_never(step)

    def _start(self, group: asyncio.TaskGroup, key: int | str, action: Coroutine[None, None, None]) -> None:
        self._steps[key] = group.create_task(self._carry_out(key, action), name=f"lease step {key}")

    async def _carry_out(self, key: int | str, action: Coroutine[None, None, None]) -> None:
        """One step. Whatever the API server answers, the next look at the stored Leases decides what follows."""
        try:
            await action
        except (ConflictError, NotFoundError):
            log.debug("the Lease of %s has changed meanwhile", key)
            await self._clock.sleep(RETRY_S)
        except (ApiError, TimeoutError) as error:
            log.warning("the Lease of %s could not be written, trying again: %r", key, error)
            await self._clock.sleep(RETRY_S)
        finally:
            del self._steps[key]
            self._alarm.ring()

    async def _fence(self, identity: str, seen: SeenMember) -> None:
        """From here on no renewal of that member can succeed; `core.lease` says why it does not act any more."""
        log.warning("member %s has been silent for its whole lease and is fenced", identity)
        name, version = member_lease_name(identity), seen.record.version
        async with asyncio.timeout(WRITE_S_MAX):
            await self._api.delete(LEASES, self._namespace, name, uid=seen.uid, resource_version=version)
        self._fenced.add(seen.uid)

    async def _mend(self, shard: int, seen: SeenShard | None) -> None:
        stored = None if seen is None else seen.obj
        self._written[shard] = await self._store.mend(shard, stored, self._watch.epochs.get(shard, 0))

    async def _acquire(self, shard: int, seen: SeenShard, identity: str) -> None:
        """`identity` is the one that decided: it has a member Lease, which a later one may not have yet."""
        epoch = next_epoch(seen.record)
        self._written[shard] = await self._store.acquire(shard, seen.obj, identity, epoch)
        if identity != self.identity or self._stopping:
            return  # we were fenced or are leaving: that name is nobody's now
        log.info("leading shard %d at epoch %d", shard, epoch, extra={"shard": shard, "epoch": epoch})
        self._held[shard] = epoch
        self._on_acquired(shard, epoch)

    async def _release(self, shard: int, seen: SeenShard) -> None:
        assert seen.record.epoch is not None, "a Lease without an epoch is mended first"
        if shard in self._held:
            await self._drain(shard)
        self._written[shard] = await self._store.release(shard, seen.obj, seen.record.epoch)

    async def _lose(self, shard: int) -> None:
        log.warning("shard %d was taken from us", shard, extra={"shard": shard})
        self._held.pop(shard, None)
        await self._stop_acting(shard)

    async def _lose_all(self) -> None:
        """We were fenced: others may lead all of it by now."""
        shards = list(self._held)
        self._held.clear()
        await asyncio.gather(*(self._stop_acting(shard) for shard in shards if shard not in self._steps))

    async def _drain(self, shard: int) -> None:
        """Until it returns we may still act for the shard, to bring to an end what is under way; then no more."""
        await self._stop_acting(shard)
        self._held.pop(shard, None)
        log.info("no longer leading shard %d", shard, extra={"shard": shard})

    async def _stop_acting(self, shard: int) -> None:
        try:
            async with asyncio.timeout(DRAIN_S_MAX):
                await self._on_released(shard)
        except TimeoutError:
            log.warning("shard %d: writes under way are left to the fences", shard, extra={"shard": shard})
