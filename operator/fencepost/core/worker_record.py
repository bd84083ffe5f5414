"""One worker process as its object shows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fencepost.core.renewals import INTERVAL_STEP_S

WORKER_SLOTS_MAX = 32
MAILBOX_ENTRIES_MAX = 64


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """A Worker's spec and status. Entries and results stay the strings they are stored as: whoever needs one decodes
    it alone, so nothing is decoded twice and one that is garbled spoils no other."""

    pool: str
    slots: int
    fenced: bool = False
    leases: Mapping[str, str] = field(default_factory=dict)
    """Mailbox key to entry."""
    results: Mapping[str, str] = field(default_factory=dict)
    """Mailbox key to result."""
    draining: bool = False
    """It takes nothing new and ends."""
    left: bool = False
    """It was draining, has answered for every entry that it saw, and has ended: nothing runs there."""
    seen: str = ""
    """The resourceVersion of the mailbox that it acted on when it wrote this; empty before its first write."""
    renewal_interval_s: int = INTERVAL_STEP_S
    """How often it was told to renew its Lease."""
    critical: frozenset[str] = frozenset()
    """Mailbox keys of critical jobs: they may take the slots that are kept for such."""
    reserved_slots: int | None = None
    """How many of its slots it is marked to keep for them (`core.reserve`)."""

    @property
    def slots_offered(self) -> int:
        """How many of its slots may be filled: none when nothing new is to be given to it."""
        return 0 if self.fenced or self.draining else self.slots

    @property
    def over(self) -> bool:
        """It has been shut out, or has taken its leave: with its mailbox empty, its object is of no use any more."""
        return self.fenced or self.left
