"""What a worker's mailbox becomes: one compare-and-swap that carries whatever has come up since the last one.

A mailbox maps keys to strings whose first word is the token. Taking away comes before putting in, so that a slot freed
by this write can be used by this write. What finds no slot is refused: it goes back to its run, which leases the job
again under the next token. The write is idempotent: what already stands there is not put again.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass

from fencepost.core.worker_record import MAILBOX_ENTRIES_MAX


@dataclass(frozen=True, slots=True)
class Put:
    """An entry to be delivered, or to be changed from Run to Stop under the same token."""

    token: int
    text: str
    critical: bool = False
    """Its job may take a slot of the reserve."""


@dataclass(frozen=True, slots=True)
class MailboxPlan:
    """The mailbox as it should be stored."""

    leases: Mapping[str, str]
    changed: bool
    critical: frozenset[str] = frozenset()
    """Keys of the entries whose jobs may take slots of the reserve."""
    refused: tuple[str, ...] = ()
    """Keys of puts that found no slot."""


def plan_mailbox(
    leases: Mapping[str, str],
    results: Mapping[str, str],
    slots: int,
    puts: Mapping[str, Put],
    removals: Mapping[str, int],
    *,
    critical: frozenset[str] = frozenset(),
    reserved: int = 0,
) -> MailboxPlan:
    """`leases`, `results` and `critical` are stored as they are; removals name the token up to which an entry is taken
    away. `slots` that the worker offers: none when it takes nothing new, and then only stops and removals get through.
    `reserved` of them are for critical jobs alone: so many fewer may be taken by others together."""
    kept = {key: text for key, text in leases.items() if token_of(text) > removals.get(key, -1)}
    free = slots - busy_slots(kept, results)
    open_ = slots - reserved - busy_slots(kept, results, critical)
    refused: list[str] = []
    for key, put in sorted(puts.items(), key=lambda item: not item[1].critical):
        stored, present = leases.get(key), kept.get(key)
        if stored is not None and token_of(stored) > put.token:
            continue  # outdone, even where the entry goes with this write: a key's token never falls
        if present is not None and token_of(present) == put.token:
            kept[key] = put.text
            continue
        # an entry that has its result holds no slot any more, so whoever replaces it needs one
        needs_slot = present is None or answered(key, present, results)
        room = free if put.critical else min(free, open_)
        if (needs_slot and room <= 0) or (present is None and len(kept) >= MAILBOX_ENTRIES_MAX):
            refused.append(key)
            continue
        free -= needs_slot
        open_ -= needs_slot and not put.critical
        kept[key] = put.text
    marked = critical | {key for key, put in puts.items() if put.critical}
    return MailboxPlan(kept, kept != leases, marked & kept.keys(), tuple(refused))


def busy_slots(leases: Mapping[str, str], results: Mapping[str, str], but: Set[str] = frozenset()) -> int:
    """Entries without a result under their token: each takes a slot, whatever it asks for. `but`: keys not counted."""
    return sum(key not in but and not answered(key, text, results) for key, text in leases.items())


def busy_change(
    leases: Mapping[str, str],
    results: Mapping[str, str],
    puts: Mapping[str, Put],
    removals: Mapping[str, int],
    but: Set[str] = frozenset(),
) -> int:
    """How many more slots are busy once these wishes are fulfilled. Costs what is wished, not what stands there."""
    change = 0
    for key in (puts.keys() | removals.keys()) - but:
        stored, put = leases.get(key), puts.get(key)
        busy = stored is not None and not answered(key, stored, results)
        if put is not None:
            change += not answered(key, put.text, results)
        elif busy and stored is not None:
            change += token_of(stored) > removals[key]
        change -= busy
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
