"""Promises about mailboxes: what is delivered, what is taken away, and whose word counts."""

from collections.abc import Iterator
from typing import Final

from fencepost.api.codec import decode_entry
from fencepost.api.names import CONTROLLER_REVISIONS, DAG_RUNS, WORKERS
from fencepost.core.names import parse_mailbox_key
from fencepost.core.plan_workers import answered, busy_slots, token_of
from fencepost.core.run_state import Order
from tests.unit.sim.checker import Checker
from tests.unit.sim.history import Stored, Written
from tests.unit.sim.scene import Scene

ENTRIES_MAX: Final = 64
BYTES_MAX: Final = 64 * 1024 + 8 * 1024
CLOCKS_DIFFER: Final = 0.9
SETTLED_S: Final = 60.0


class RecordFirst(Checker):
    """A lease stands in its run before a worker hears of it, and an entry stands as long as its run records it.

    Of a run whose definition was deleted the entries go first, and then it fails with `DefinitionMissing`.
    """

    promise = "the record comes first, the mailbox second"
    kinds = (WORKERS,)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._stopping_since_s: dict[tuple[str, str], float] = {}

    def see(self, written: Written) -> Iterator[str]:
        worker, old = written.after, written.before
        if worker is None:
            return
        before = old.entries if old is not None else {}
        for key, text in worker.entries.items():
            if before.get(key) == text:
                continue
            if decode_entry(text).order is Order.STOP:
                self._stopping_since_s[worker.name, key] = written.at_s
            if key not in before or token_of(before[key]) != token_of(text):
                yield from self._put(worker, key, text)
        if old is not None and not worker.fenced:
            for key, text in before.items():
                if key not in worker.entries:
                    yield from self._taken(written.at_s, worker, old, key, text)

    def _put(self, worker: Stored, key: str, text: str) -> Iterator[str]:
        run, token = self._run_of(key), token_of(text)
        self.scene.coverage["entry put"] += 1
        if run is None:
            return
        lease = run.run.leases.get(parse_mailbox_key(key).job)
        if token > run.run.lease_counter:
            yield f"{key} is delivered to {worker.name} under token {token}, which its run has not given out yet"
        elif lease is not None and (lease.worker, lease.token) != (worker.name, token):
            yield f"{key} is delivered to {worker.name} under {token}; {lease.worker} has it under {lease.token}"

    def _taken(self, at_s: float, worker: Stored, old: Stored, key: str, text: str) -> Iterator[str]:
        self.scene.coverage["entry taken away"] += 1
        run, token = self._run_of(key), token_of(text)
        lease = run.run.leases.get(parse_mailbox_key(key).job) if run is not None else None
        since_s = self._stopping_since_s.pop((worker.name, key), at_s)
        if lease is None or (lease.worker, lease.token) != (worker.name, token):
            return
        assert run is not None
        entry = decode_entry(text)
        if run.spec.get("revision", "") not in self.scene.history.objects[CONTROLLER_REVISIONS]:
            self.scene.coverage["entry taken, as its run cannot go on"] += 1
        elif answered(key, text, old.results):
            yield f"{key} is taken from {worker.name} with its answer, which its run has not recorded yet"
        elif entry.order is not Order.STOP:
            yield f"{key} is taken from {worker.name} while its run records it"
        elif at_s - since_s < entry.grace_s * CLOCKS_DIFFER:
            yield f"{key} is taken from {worker.name} {at_s - since_s:.1f} s after it was told to stop"
        else:
            self.scene.coverage["entry withdrawn, as its worker did not stop"] += 1

    def _run_of(self, key: str) -> Stored | None:
        place = parse_mailbox_key(key)
        run = self.scene.history.objects[DAG_RUNS].get(place.run.name)
        return run if run is not None and run.uid.startswith(place.uid_prefix) else None


class KeysHoldTheRunsUid(Checker):
    promise = "a mailbox key means one run, whoever bears its name later"
    kinds = (WORKERS,)

    def see(self, written: Written) -> Iterator[str]:
        if written.after is None:
            return
        before = written.before.entries if written.before is not None else {}
        for key, text in written.after.entries.items():
            if before.get(key) != text and decode_entry(text).run_uid[:8] != parse_mailbox_key(key).uid_prefix:
                yield f"{key} on {written.name} is of the run {decode_entry(text).run_uid}"


class LateWordsDoNotCount(Checker):
    """Also of whoever has a worker's rights and does not mind what is true."""

    promise = "a worker's word counts for what it has been given, and not once it is shut out"
    kinds = (WORKERS,)

    def see(self, written: Written) -> Iterator[str]:
        worker, old = written.after, written.before
        if worker is None or old is None:
            return
        if worker.fenced and not old.fenced:
            self.scene.coverage["worker fenced"] += 1
        if old.fenced and worker.status != old.status:
            yield f"{worker.name} is fenced and has its status changed"
        for key, text in worker.results.items():
            if old.results.get(key) != text:
                entry = worker.entries.get(key)
                if entry is None or token_of(entry) != token_of(text):
                    yield f"{worker.name} answers {key} under token {token_of(text)}, its entry is {entry!r}"


class TheLivingAreSpared(Checker):
    promise = "in a well cluster nobody who renews is shut out"
    kinds = (WORKERS,)

    def see(self, written: Written) -> Iterator[str]:
        worker, old = written.after, written.before
        if worker is None or old is None or not worker.fenced or old.fenced:
            return
        alive = any(each.alive and each.name == worker.name for each in self.scene.workers.values())
        if alive and written.at_s > self.scene.plan.calm_from_s + SETTLED_S:
            yield f"{worker.name} is fenced, and alive"


class MailboxesAreSmall(Checker):
    promise = "no worker has more than it can hold"
    kinds = (WORKERS,)

    def see(self, written: Written) -> Iterator[str]:
        worker = written.after
        if worker is None:
            return
        busy = busy_slots(worker.entries, worker.results)
        if busy > worker.spec["slots"] and not worker.fenced:
            yield f"{worker.name} has {busy} jobs on {worker.spec['slots']} slots"
        if len(worker.entries) > ENTRIES_MAX or worker.size_bytes > BYTES_MAX:
            yield f"{worker.name} has {len(worker.entries)} entries and {worker.size_bytes} bytes"


MAILBOX_CHECKERS = (RecordFirst, KeysHoldTheRunsUid, LateWordsDoNotCount, TheLivingAreSpared, MailboxesAreSmall)
