"""The keeper of the workers: who is alive, who is shut out, and what the dead leave behind.

A worker is alive as long as its Lease changes, as seen from here and on our own clock; what time the worker wrote into
it is never compared. Silence counts only while we ourselves are in contact with the API server. A worker that has been
silent for its lease's duration is read live once more, and then fenced by a compare-and-swap: what it reported before
counts, what it reports later is refused, and only then are its jobs leased again.
"""

import heapq
import logging
from dataclasses import dataclass
from typing import Any

from fencepost.api import names as wire
from fencepost.api.codec import decode_entry
from fencepost.apply.executor import Answer
from fencepost.apply.writers import Next
from fencepost.core.intents import Authority, DeleteLease, DeleteWorker, FenceWorker
from fencepost.core.names import DagKey, parse_mailbox_key, shard_lease_name, shard_of
from fencepost.core.plan_workers import token_of
from fencepost.kube.errors import ApiError, NotFoundError
from fencepost.kube.protocol import Obj
from fencepost.loops.mailboxes import Mailboxes
from fencepost.loops.world import World
from fencepost.observe.reflector import ObjectName, version_of
from fencepost.observe.workers import WorkerView

log = logging.getLogger(__name__)

LEASE_DURATION_S = 30.0
"""Where a worker's Lease does not say."""
CONTACT_GAP_MAX_S = 15.0
"""Longer than this without a word from the API server, and all workers get a full lease duration anew."""
PROBE_AFTER_S = 10.0
"""Without a word from the API server; well below the gap that counts as an outage."""
PROBE_RETRY_S = 1.0
LOOK_AGAIN_S = 5.0
"""After a worker was found silent: it is another leader's to fence, who may die of it, or the fence has gone wrong."""

DELETE_AFTER_S = 2.0
"""Of quiet, for the object of a worker that is over: who has just leased something to it finds that it offers no slot
and takes it back, where one that is gone would count as lost under the job."""
ORPHAN_S = 600.0
"""A Lease whose Worker has not come within so long never gets one: its process died while it registered."""


@dataclass(slots=True)
class _Heard:
    """What we know of one worker's renewals."""

    version: int
    at_s: float
    """On our steady clock: when we saw its Lease change, or the worker appear."""
    duration_s: float


class Keeper:
    """Watches over the workers and sweeps up after them. Also the cache of their Leases."""

    def __init__(self, world: World, mailboxes: Mailboxes) -> None:
        self._world = world
        self._mailboxes = mailboxes
        self._heard: dict[str, _Heard] = {}
        self._leases: dict[ObjectName, int] = {}
        self._expiries: list[tuple[float, str]] = []
        self._contact_s = world.clock.steady_s()
        self._trusted_from_s = self._contact_s
        """Silence counts from here at the earliest: we were cut off, or have just begun."""

    def contact(self) -> None:
        """The API server has answered us."""
        now_s = self._world.clock.steady_s()
        if now_s - self._contact_s > CONTACT_GAP_MAX_S:
            log.warning(
                "no contact with the API server for %.0f s: every worker's lease starts anew", now_s - self._contact_s
            )
            self._trusted_from_s = now_s
        self._contact_s = now_s

    async def stay_in_contact(self) -> None:
        """Ask the API server for a sign of life when it has not given one by itself for a while: a quiet cluster is not
        an outage, and the last worker must not be taken for alive because nobody is left to be heard."""
        clock = self._world.clock
        while True:
            await clock.sleep(max(PROBE_RETRY_S, self._contact_s + PROBE_AFTER_S - clock.steady_s()))
            if clock.steady_s() - self._contact_s < PROBE_AFTER_S:
                continue
            try:
                await self._world.api.get(wire.LEASES, self._world.system_namespace, shard_lease_name(0))
            except NotFoundError:
                self.contact()
            except ApiError as error:
                log.warning("the API server has been silent for a while, and does not answer: %s", error)
            else:
                self.contact()

    def upsert(self, lease: Obj) -> None:
        """A worker's Lease as it stands."""
        meta = lease["metadata"]
        name, version = meta["name"], version_of(lease)
        if version <= self._leases.get((meta.get("namespace", ""), name), -1):
            return
        self._leases[(meta.get("namespace", ""), name)] = version
        self._hear(name, version, _duration_s(lease))

    def remove(self, name: ObjectName, version: int) -> None:
        """A worker's Lease was gone at this version; its silence runs on from when it was last heard."""
        if self._leases.get(name, version + 1) <= version:
            del self._leases[name]
            if self._world.workers.get(name[1]) is None:
                self._heard.pop(name[1], None)

    def known(self) -> list[tuple[ObjectName, int]]:
        """Names and versions, for the reflector."""
        return list(self._leases.items())

    def worker_changed(self, view: WorkerView, old: WorkerView | None) -> None:
        """A worker has appeared, been fenced, or its mailbox emptied."""
        if old is None and view.name not in self._heard:
            self._hear(view.name, 0, LEASE_DURATION_S)
        if view.worker.over and not view.worker.leases and self._is_ours(view):
            delete = ("worker-delete", view.name)
            self._world.writers.touch(delete, lambda: self._delete_turn(view.name), after_s=DELETE_AFTER_S)
        if view.worker.fenced and (old is None or not old.worker.fenced):
            self.sweep(view)

    def worker_gone(self, view: WorkerView) -> None:
        """A worker's object is gone, or cannot be read any more."""
        if (self._world.system_namespace, view.name) not in self._leases:
            self._heard.pop(view.name, None)

    def check(self) -> None:
        """Fence every worker that has been silent for too long. Costs what has expired, not what exists."""
        now_s = self._world.clock.steady_s()
        if now_s - self._contact_s > CONTACT_GAP_MAX_S:
            return
        while self._expiries and self._expiries[0][0] <= now_s:
            _, name = heapq.heappop(self._expiries)
            heard, view = self._heard.get(name), self._world.workers.get(name)
            if heard is None or (view is not None and view.worker.fenced):
                continue
            due_s = max(heard.at_s, self._trusted_from_s) + heard.duration_s
            if due_s > now_s:
                heapq.heappush(self._expiries, (due_s, name))
                continue
            if view is None:
                self._await_worker(name, heard, now_s)
                continue
            heapq.heappush(self._expiries, (now_s + LOOK_AGAIN_S, name))
            if self._is_ours(view):
                self._world.writers.touch(("fence", name), lambda name=name: self._fence_turn(name), urgent=True)  # type: ignore[misc]

    def _await_worker(self, name: str, heard: _Heard, now_s: float) -> None:
        """A silent Lease without a Worker: that comes after it, and may come yet. Its process renews the Lease at each
        try to register; when it has not for long, the Lease goes."""
        heapq.heappush(self._expiries, (now_s + max(LOOK_AGAIN_S, heard.duration_s), name))
        silent_s = now_s - max(heard.at_s, self._trusted_from_s)
        own = self._world.shards.authority(shard_of(DagKey("", name), self._world.shards.count))
        if own is not None and silent_s > ORPHAN_S:
            self._world.writers.touch(("lease-delete", name), lambda: self._orphan_turn(name))

    def sweep(self, view: WorkerView) -> None:
        """Take away entries of our shards that no run records: left by a leader before, or by a run that is gone."""
        for key, text in view.worker.leases.items():
            authority = self._authority_over(key, text)
            if authority is not None and not self.is_recorded(view.name, key, token_of(text)):
                log.info("entry %s of worker %s belongs to no lease on record: taking it away", key, view.name)
                self._mailboxes.remove(authority, view.name, key, token_of(text))

    def is_recorded(self, worker: str, key: str, token: int) -> bool:
        """Whether a run records that this worker holds this lease."""
        parsed = parse_mailbox_key(key)
        run = self._world.runs.get(parsed.run)
        if run is None or not run.uid.startswith(parsed.uid_prefix) or run.state is None:
            return False
        lease = run.state.leases.get(parsed.job)
        return lease is not None and (lease.worker, lease.token) == (worker, token)

    def _authority_over(self, key: str, text: str) -> Authority | None:
        """Under which to act on an entry; None when it is another's, or cannot be read."""
        try:
            return self._world.shards.authority(self._world.shards.of_entry(key, decode_entry(text).revision))
        except ValueError:
            return None

    def _is_ours(self, view: WorkerView) -> bool:
        """Whether this replica is to act on a worker: one of its shards has an entry there, or is the worker's own."""
        shards = self._world.shards
        own = shard_of(DagKey("", view.name), shards.count)
        if shards.authority(own) is not None:
            return True
        return any(self._authority_over(key, text) is not None for key, text in view.worker.leases.items())

    def _hear(self, name: str, version: int, duration_s: float) -> None:
        now_s = self._world.clock.steady_s()
        if name not in self._heard:
            heapq.heappush(self._expiries, (now_s + duration_s, name))
        self._heard[name] = _Heard(version, now_s, duration_s)

    async def _fence_turn(self, name: str) -> Next:
        heard = self._heard.get(name)
        if heard is None:
            return Next.REST
        try:
            lease = await self._world.api.get(wire.LEASES, self._world.system_namespace, name)
            if version_of(lease) > heard.version:
                self.upsert(lease)
                return Next.REST
        except NotFoundError:
            pass
        except ApiError:
            return Next.REST
        if not await self._world.refresh_worker(name):
            return Next.REST
        view = self._world.workers.get(name)
        if view is None or view.worker.fenced:
            return Next.REST
        log.warning("worker %s has been silent for %.0f s: fencing it", name, heard.duration_s, extra={"worker": name})
        written = await self._world.executor.execute(FenceWorker(view.record))
        if written.object is not None:
            self._world.workers.upsert(written.object)
            self._world.metrics.worker_fenced()
            return Next.REST
        return Next.AGAIN if written.answer is Answer.CONFLICT else Next.RETRY

    async def _delete_turn(self, name: str) -> Next:
        view = self._world.workers.get(name)
        if view is None or not view.worker.over or view.worker.leases:
            return Next.REST
        written = await self._world.executor.execute(DeleteWorker(view.record))
        if written.answer is Answer.CONFLICT:
            return Next.AGAIN if await self._world.refresh_worker(name) else Next.RETRY
        return Next.REST if written.answer in (Answer.DONE, Answer.GONE) else Next.RETRY

    async def _orphan_turn(self, name: str) -> Next:
        version = self._leases.get((self._world.system_namespace, name))
        if version is None or self._world.workers.get(name) is not None:
            return Next.REST
        intent = DeleteLease(self._world.system_namespace, name, str(version))
        written = await self._world.executor.execute(intent)
        return Next.REST if written.answer in (Answer.DONE, Answer.GONE, Answer.CONFLICT) else Next.RETRY


def _duration_s(lease: dict[str, Any]) -> float:
    seconds = lease.get("spec", {}).get("leaseDurationSeconds")
    return float(seconds) if isinstance(seconds, int) and seconds > 0 else LEASE_DURATION_S
