"""The mailboxes of the workers: what has been delivered, what is to be, and how many slots that leaves.

A slot is busy while its entry has no result; it is counted busy from the moment it is granted, long before the entry
stands in the worker's object. Everything that is asked of a mailbox is kept as a wish (put, removal) until the stored
mailbox shows it, so a write that failed, or whose answer was lost, is simply made again from the wishes.

A removal waits for company: a settled entry takes no slot and does no harm, so it leaves with the next delivery, or
after some idle seconds. A stop does not wait.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from fencepost.api.codec import decode_entry, encode_entry
from fencepost.apply.executor import Answer
from fencepost.apply.writers import Next
from fencepost.core.intents import Authority, WriteMailbox
from fencepost.core.names import MailboxKey
from fencepost.core.plan_workers import Put, answered, busy_change, busy_slots, order_of, plan_mailbox, token_of
from fencepost.core.run_state import Entry, Order
from fencepost.core.worker_record import WorkerRecord
from fencepost.loops.agenda import Agenda
from fencepost.loops.renewals import Renewals
from fencepost.loops.reserves import Reserves
from fencepost.loops.world import World
from fencepost.observe.workers import WorkerView

log = logging.getLogger(__name__)

REMOVAL_IDLE_S = 3.0
"""How long a settled entry waits for a delivery to leave with."""
STOP_SLACK_S = 10.0
"""Beyond its grace period, what a worker gets to answer a stop before the entry is taken away."""
LIMIT_SLACK_S = 15.0
"""Beyond timeout and grace, what a worker gets to end a job by itself before it is told to stop."""
TOLD_PER_S = 50
"""Workers without jobs that are told of another interval of renewals each second."""
TELL_DELAY_S = 5.0
"""How long a new worker's first delivery is waited for, to go along with."""
LOOK_AGAIN_S = 5.0
"""After the limit of an entry has passed that is another leader's to press."""


class Room(NamedTuple):
    """A worker's slots, as far as they can be granted."""

    free: int
    """Below zero where too many were."""
    reserved: int = 0
    """Slots for critical jobs alone, taken or not."""
    kept: int = 0
    """How many of the free ones are."""
    ours: int = 0
    """Slots that stand free in the worker's object, with a job of ours on its way."""


@dataclass(slots=True)
class Mailbox:
    """What we want of one worker's mailbox besides what is stored in it."""

    name: str
    puts: dict[str, Put] = field(default_factory=dict)
    removals: dict[str, int] = field(default_factory=dict)
    """Key to the token up to which an entry is to go."""
    granted: int = 0
    """Slots granted to jobs whose lease is not stored yet."""
    granted_critical: int = 0
    """Of those, to critical jobs."""
    withdrawn: dict[str, int] = field(default_factory=dict)
    """Entries that were taken away unanswered, by token; the run has not settled them yet."""
    refused: dict[str, int] = field(default_factory=dict)
    """Puts that found no slot, by token; the run has not taken them back yet."""
    authorities: dict[str, Authority] = field(default_factory=dict)
    """Under which leadership a key's wishes were made; they are dropped when it ends."""
    pressed: dict[str, int] = field(default_factory=dict)
    """Removals, by token, of entries that were told to stop and did not: what has gone so counts as withdrawn."""


_NOTHING = Mailbox("")
"""What is wished of a worker of which nothing is."""


class Mailboxes:
    """All mailboxes, and their writers."""

    def __init__(
        self, world: World, reserves: Reserves, on_slots: Callable[[str], None], on_entry: Callable[[str], None]
    ) -> None:
        """`on_slots`: this worker's free slots may be others. `on_entry`: something happened to this key's lease."""
        self._world = world
        self._workers = world.workers
        self._on_slots = on_slots
        self._on_entry = on_entry
        self._renewals = Renewals(world.workers, world.shards)
        self._reserves = reserves
        self._boxes: dict[str, Mailbox] = {}
        self._clocks = Agenda[tuple[str, str, str]](lambda _, limit: self._is_unanswered(*limit))
        """Worker, key, entry: when that should have ended by itself, on the steady clock."""

    def room(self, view: WorkerView) -> Room:
        """What can be granted now; nothing on a worker that takes nothing new."""
        worker, box = view.worker, self._boxes.get(view.name, _NOTHING)
        if not worker.slots_offered:
            return Room(0)
        ours = busy_change(worker.leases, worker.results, box.puts, box.removals) + box.granted
        free = worker.slots - view.busy - ours
        reserved = self._reserves.kept(view)
        if not reserved:
            return Room(free, ours=max(0, ours))
        critical = worker.critical | {key for key, put in box.puts.items() if put.critical}
        others = busy_slots(worker.leases, worker.results, critical)
        others += busy_change(worker.leases, worker.results, box.puts, box.removals, critical)
        others += box.granted - box.granted_critical
        kept = max(0, free - max(0, worker.slots - reserved - others))
        return Room(free, reserved, kept, max(0, ours))

    def grant(self, worker: str, *, critical: bool) -> None:
        """Count a slot as taken for a job on its way into a lease."""
        box = self._box(worker)
        box.granted += 1
        box.granted_critical += critical

    def close(self, worker: str, *, critical: bool) -> None:
        """The job of a grant has its lease, or never will."""
        if worker in self._boxes:
            box = self._boxes[worker]
            box.granted -= 1
            box.granted_critical -= critical
            self._on_slots(worker)

    def ensure(
        self,
        authority: Authority,
        worker: str,
        key: MailboxKey,
        token: int,
        order: Order,
        entry: Callable[[], Entry],
        *,
        critical: bool = False,
    ) -> None:
        """See to it that this lease stands in the worker's mailbox under this order; no-op if it does. `critical`: its
        job may take a slot of the reserve."""
        name = str(key)
        view = self._workers.get(worker)
        if view is None or view.worker.fenced:
            self._on_entry(name)  # lost since the lease was planned: the run is to see it
            return
        box = self._box(worker)
        if token in (box.withdrawn.get(name), box.refused.get(name)):
            return
        stored = view.worker.leases.get(name)
        put = box.puts.get(name)
        if put is not None:
            box.authorities[name] = authority  # the wish may be one of an earlier leadership, and is renewed
        for text in (stored, None if put is None else put.text):
            if text is not None and token_of(text) == token and order_of(text) in (order, Order.STOP):
                return
        if stored is not None and token_of(stored) == token and answered(name, stored, view.worker.results):
            return
        box.puts[name] = Put(token, encode_entry(entry()), critical)
        box.authorities[name] = authority
        self._on_slots(worker)
        self._touch(worker, urgent=order is Order.STOP)

    def settle(self, authority: Authority, worker: str, key: MailboxKey, token: int) -> None:
        """The run records that this lease has ended: its entry may go."""
        name = str(key)
        box = self._boxes.get(worker)
        if box is not None:
            for wishes in (box.withdrawn, box.refused):
                if wishes.get(name) == token:
                    del wishes[name]
            box.pressed.pop(name, None)
            put = box.puts.get(name)
            if put is not None and put.token <= token:
                del box.puts[name]
        view = self._workers.get(worker)
        if view is not None and name in view.worker.leases:
            self.remove(authority, worker, name, token)

    def remove(self, authority: Authority, worker: str, key: str, token: int, *, soon: bool = False) -> None:
        """Take an entry away, with the next write or after some idle seconds; `soon`: with a write of its own."""
        box, view = self._box(worker), self._workers.get(worker)
        put = box.puts.get(key)
        undelivered = put is not None and put.token <= token
        if undelivered:
            del box.puts[key]
        box.removals[key] = max(token, box.removals.get(key, -1))
        box.authorities[key] = authority
        entry = None if view is None else view.worker.leases.get(key)
        if undelivered or (view and entry and not answered(key, entry, view.worker.results)):  # else its slot is free
            self._on_slots(worker)
        self._touch(worker, after_s=0.0 if soon else REMOVAL_IDLE_S)

    def withdrawn(self, worker: str, key: MailboxKey) -> int | None:
        """The token of an entry that was taken away because the worker did not obey a stop."""
        box = self._boxes.get(worker)
        return box.withdrawn.get(str(key)) if box else None

    def refused(self, worker: str, key: MailboxKey) -> int | None:
        """The token of a put that found no slot."""
        box = self._boxes.get(worker)
        return box.refused.get(str(key)) if box else None

    def changed(self, view: WorkerView, old: WorkerView | None) -> None:
        """A worker's object has changed: drop the wishes that it fulfils, and start clocks for new entries."""
        box = self._boxes.get(view.name)
        if box is not None:
            for key, put in list(box.puts.items()):
                stored = view.worker.leases.get(key)
                if stored is not None and (token_of(stored) > put.token or stored == put.text):
                    del box.puts[key]
            for key, token in list(box.removals.items()):
                stored = view.worker.leases.get(key)
                if stored is None or token_of(stored) > token:
                    del box.removals[key]
            _note_withdrawn(box, view.worker)
            for undelivered in (box.refused, box.withdrawn):
                for key in undelivered.keys() & view.worker.leases.keys():
                    if token_of(view.worker.leases[key]) >= undelivered[key]:
                        del undelivered[key]  # another leader has delivered it since
        self._start_clocks(view, old)
        self.tell_interval(view)

    def gone(self, name: str) -> None:
        """A worker's object is gone; nothing more can be asked of it."""
        box = self._boxes.pop(name, None)
        if box is not None:
            self._lose_puts(box)

    def _lose_puts(self, box: Mailbox) -> None:
        """The worker is lost: no mailbox holds the leases on their way to it, so nothing else tells their runs."""
        puts = list(box.puts)
        box.puts.clear()
        for key in puts:
            self._on_entry(key)

    def mark(self, worker: str) -> None:
        """The worker is to keep another number of slots for critical jobs."""
        self._touch(worker)

    def tell_interval(self, view: WorkerView) -> None:
        """See to it that a worker of ours knows how often to renew."""
        if self._renewals.untold(view):
            self._touch(view.name, after_s=TELL_DELAY_S)

    def pace_renewals(self) -> None:
        """Tell the workers how often to renew, if that has changed with their number; not all of them at once."""
        for place, worker in enumerate(self._renewals.count_workers()):
            self._touch(worker, after_s=place / TOLD_PER_S)

    def press_overdue(self) -> None:
        """Tell workers to stop the jobs that are over their limit, and take away what has not obeyed a stop."""
        now_s = self._world.clock.steady_s()
        for _, (worker, key, text) in self._clocks.take(now_s):
            entry = decode_entry(text)
            authority = self._world.shards.authority(self._world.shards.of_entry(key, entry.revision))
            if authority is None:
                # Not ours to press, but it may be by the next time: its leader may die of not doing it.
                self._clocks.add(now_s + LOOK_AGAIN_S, (worker, key, text))
            else:
                self._press(authority, worker, key, entry, text)

    def _press(self, authority: Authority, worker: str, key: str, entry: Entry, text: str) -> None:
        box = self._box(worker)
        box.authorities[key] = authority
        if entry.order is Order.RUN:
            log.warning("job %s on worker %s is over its limit: stopping it", key, worker)
            box.puts[key] = Put(entry.token, text.replace(f" {Order.RUN} ", f" {Order.STOP} ", 1))
            self._touch(worker, urgent=True)
        else:
            log.warning("worker %s has not stopped job %s in time: taking it away", worker, key)
            box.pressed[key] = entry.token
            self.remove(authority, worker, key, entry.token, soon=True)

    def _start_clocks(self, view: WorkerView, old: WorkerView | None) -> None:
        """One deadline for each entry that has come or changed; those of entries that went are found void later."""
        before = old.worker.leases if old is not None else {}
        for key, text in view.worker.leases.items():
            if before.get(key) == text:
                continue
            try:
                entry = decode_entry(text)
            except ValueError as error:
                log.error("entry %s of worker %s cannot be read: %s", key, view.name, error)
                continue
            if entry.order is Order.STOP:
                limit_s = entry.grace_s + STOP_SLACK_S
            elif entry.timeout_s is not None:
                limit_s = entry.timeout_s + entry.grace_s + LIMIT_SLACK_S
            else:
                continue
            self._clocks.add(self._world.clock.steady_s() + limit_s, (view.name, key, text))

    def _is_unanswered(self, worker: str, key: str, text: str) -> bool:
        """Whether this very entry stands in the worker's mailbox, without a result."""
        view = self._workers.get(worker)
        return view is not None and view.worker.leases.get(key) == text and not answered(key, text, view.worker.results)

    def _drop_unled(self, box: Mailbox) -> None:
        """Forget what was wished for shards that are led here no more: their next leader wishes for itself."""
        for key in [key for key, authority in box.authorities.items() if not self._world.shards.leads(authority)]:
            del box.authorities[key]
            for wishes in (box.puts, box.removals, box.pressed):
                wishes.pop(key, None)
        for key in [key for key in box.authorities if key not in box.puts and key not in box.removals]:
            del box.authorities[key]

    def _box(self, worker: str) -> Mailbox:
        return self._boxes.setdefault(worker, Mailbox(worker))

    def _touch(self, worker: str, *, urgent: bool = False, after_s: float | None = None) -> None:
        self._world.writers.touch(("mailbox", worker), lambda: self._turn(worker), urgent=urgent, after_s=after_s)

    async def _turn(self, worker: str) -> Next:
        view, box = self._workers.get(worker), self._box(worker)
        if view is None:
            self.gone(worker)
            return Next.REST
        record = view.worker
        self._drop_unled(box)
        _spare_answered(box, record)
        if record.fenced:
            self._lose_puts(box)
        plan = plan_mailbox(
            record.leases,
            record.results,
            record.slots_offered,
            box.puts,
            box.removals,
            critical=record.critical,
            reserved=self._reserves.kept(view),
        )
        for key in plan.refused:
            box.refused[key] = box.puts.pop(key).token
            self._on_entry(key)
        interval_s, mark = self._renewals.wanted_s(view), self._reserves.wanted(view)
        if not plan.changed and (interval_s, mark) == (record.renewal_interval_s, record.reserved_slots):
            box.removals.clear()
            self._on_slots(worker)
            return Next.REST
        intent = WriteMailbox(view.record, plan.leases, interval_s, plan.critical, mark)
        written = await self._world.executor.execute(intent)
        match written.answer:
            case Answer.DONE:
                assert written.object is not None
                self._workers.upsert(written.object)
                return Next.AGAIN if box.puts else Next.REST
            case Answer.CONFLICT | Answer.GONE:
                return Next.AGAIN if await self._world.refresh_worker(worker) else Next.RETRY
            case Answer.UNKNOWN:
                await self._world.refresh_worker(worker)
                return Next.RETRY
            case _:
                return Next.RETRY


def _spare_answered(box: Mailbox, record: WorkerRecord) -> None:
    """Who answers a request to stop, however late, is heard: the entry goes when the run has folded the answer."""
    held = box.pressed.keys() & record.leases.keys()
    for key in [key for key in held if answered(key, record.leases[key], record.results)]:
        del box.pressed[key]
        box.removals.pop(key, None)


def _note_withdrawn(box: Mailbox, record: WorkerRecord) -> None:
    """What was to be taken away unanswered has gone. Told by what is stored, and not by the answer to the write that
    took it, which may have been lost."""
    for key, token in list(box.pressed.items()):
        stored = record.leases.get(key)
        if stored is None or token_of(stored) > token:
            del box.pressed[key]
        if stored is None:
            box.withdrawn[key] = token
