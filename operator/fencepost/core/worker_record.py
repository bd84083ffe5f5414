"""One worker process as its object shows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    seen: str = ""
    """The resourceVersion of the mailbox that it acted on when it wrote this; empty before its first write."""
