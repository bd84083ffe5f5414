"""What a worker's mailbox becomes: one compare-and-swap that carries whatever has come up since the last one.

A mailbox maps keys to strings whose first word is the token. Taking away comes before putting in, so that a slot freed
by this write can be used by this write. What finds no slot is refused: it goes back to its run, which leases the job
again under the next token. The write is idempotent: what already stands there is not put again.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.core.worker_record import MAILBOX_ENTRIES_MAX


@dataclass(frozen=True, slots=True)
class Put:
    """An entry to be delivered, or to be changed from Run to Stop under the same token."""

    token: int
    text: str


@dataclass(frozen=True, slots=True)
class MailboxPlan:
    """The mailbox as it should be stored."""

    leases: Mapping[str, str]
    changed: bool
    refused: tuple[str, ...] = ()
    """Keys of puts that found no slot."""


def plan_mailbox(
    leases: Mapping[str, str],
    results: Mapping[str, str],
    slots: int,
    puts: Mapping[str, Put],
    removals: Mapping[str, int],
) -> MailboxPlan:
    """`leases` and `results` are stored as they are; removals name the token up to which an entry is taken away.
    `slots` that the worker offers: none when it takes nothing new, and then only stops and removals get through."""
    kept = {key: text for key, text in leases.items() if token_of(text) > removals.get(key, -1)}
    free = slots - busy_slots(kept, results)
    refused: list[str] = []
    for key, put in puts.items():
        stored, present = leases.get(key), kept.get(key)
        if stored is not None and token_of(stored) > put.token:
            continue  # outdone, even where the entry goes with this write: a key's token never falls
        if present is not None and token_of(present) == put.token:
            kept[key] = put.text
            continue
        # an entry that has its result holds no slot any more, so whoever replaces it needs one
        needs_slot = present is None or answered(key, present, results)
        if (needs_slot and free <= 0) or (present is None and len(kept) >= MAILBOX_ENTRIES_MAX):
            refused.append(key)
            continue
        free -= needs_slot
        kept[key] = put.text
    return MailboxPlan(kept, kept != leases, tuple(refused))


def busy_slots(leases: Mapping[str, str], results: Mapping[str, str]) -> int:
    """Entries without a result under their token: each takes a slot, whatever it asks for."""
    return sum(not answered(key, text, results) for key, text in leases.items())


def busy_change(
    leases: Mapping[str, str], results: Mapping[str, str], puts: Mapping[str, Put], removals: Mapping[str, int]
) -> int:
    """How many more slots are busy once these wishes are fulfilled. Costs what is wished, not what stands there."""
    change = 0
    for key in puts.keys() | removals.keys():
        stored, put = leases.get(key), puts.get(key)
        if stored is not None:
            change -= not answered(key, stored, results)
            stored = stored if token_of(stored) > removals.get(key, -1) else None
        wished = put.text if put is not None else stored
        change += wished is not None and not answered(key, wished, results)
    return change


def answered(key: str, entry: str, results: Mapping[str, str]) -> bool:
    """Whether the worker has given its result for this entry."""
    result = results.get(key)
    return result is not None and token_of(result) == token_of(entry)


def token_of(text: str) -> int:
    """The first word of an entry or a result."""
    return int(text.partition(" ")[0])


def order_of(entry: str) -> str:
    """The second word of an entry, which tells Run or Stop; empty where there is none."""
    return entry.partition(" ")[2].partition(" ")[0]
