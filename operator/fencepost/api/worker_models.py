"""The kind Worker: one worker process. Its spec is the mailbox, written by the operator; its status is what it answers.

The laws below make a late answer harmless: once a worker is fenced its status stands still, and a result is taken only
under the token of the entry that asks for it. They look at entries one by one, which is dear for the server; a mailbox
has 64 of them at most, and only those that changed are split.
"""

from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from fencepost.api.schema import ATOMIC_LIST, ATOMIC_MAP, WRITTEN_WHOLE, Name, Part, rule, rules
from fencepost.core.worker_record import MAILBOX_ENTRIES_MAX, WORKER_SLOTS_MAX

ENTRY_LENGTH_MAX = 1024
RENEWAL_INTERVAL_MAX_S = 3600
MAILBOX_KEY_LENGTH_MAX = 512
RESULT_LENGTH_MAX = 140_000
"""A message at its limit, and an output of 64 KiB that is a JSON list: as a text in JSON it takes twice as much."""
TOKEN_FIRST_PATTERN = "^[0-9]{1,18} "

Entries = Annotated[
    dict[str, Annotated[str, StringConstraints(pattern=TOKEN_FIRST_PATTERN, max_length=ENTRY_LENGTH_MAX)]],
    Field(max_length=MAILBOX_ENTRIES_MAX, json_schema_extra=ATOMIC_MAP),
]
CriticalKeys = Annotated[
    list[Annotated[str, StringConstraints(max_length=MAILBOX_KEY_LENGTH_MAX)]],
    Field(max_length=MAILBOX_ENTRIES_MAX, json_schema_extra=ATOMIC_LIST),
]
Results = Annotated[
    dict[str, Annotated[str, StringConstraints(pattern=TOKEN_FIRST_PATTERN, max_length=RESULT_LENGTH_MAX)]],
    Field(max_length=MAILBOX_ENTRIES_MAX, json_schema_extra=ATOMIC_MAP),
]


class WorkerSpec(Part):
    """What the worker is, and the mailbox. Only the operator writes it after the worker has registered."""

    model_config = ConfigDict(json_schema_extra=WRITTEN_WHOLE)

    pool: Name
    slots: Annotated[int, Field(ge=1, le=WORKER_SLOTS_MAX)]
    """Jobs that it runs at once."""
    leases: Entries | None = None
    """By `namespace/run.uid/task/index`: token, what to do, and what is needed for it."""
    critical: CriticalKeys | None = None
    """Keys of the entries whose jobs are critical: they may take the slots that are kept for such."""
    reserved_slots: Annotated[int, Field(ge=0, le=WORKER_SLOTS_MAX)] | None = None
    """How many of its slots it keeps for critical jobs, if its pool has a reserve. Left out: its share, rounded up."""
    fenced: bool | None = None
    """Given up: nothing that it says from now on counts. Stays true."""
    renewal_interval_seconds: Annotated[int, Field(ge=1, le=RENEWAL_INTERVAL_MAX_S)] | None = None
    """How often it is to renew its Lease, where that is more seldom than its own settings say."""


class WorkerStatus(Part):
    """What the worker answers. Written by nobody else."""

    model_config = ConfigDict(json_schema_extra=WRITTEN_WHOLE)

    results: Results | None = None
    """By the key of the entry: token, outcome, exit code, times, texts."""
    draining: bool | None = None
    """It takes nothing new and ends."""
    left: bool | None = None
    """It has answered for every entry, and ends now. Once its mailbox is empty its object can go."""
    seen: Annotated[str, StringConstraints(max_length=64)] | None = None
    """The resourceVersion of the mailbox that it acted on."""


FENCED = "has(self.spec.fenced) && self.spec.fenced"


def _bound(body: str, **names: str) -> str:
    """`body` with names for what would be looked up again for each entry: `[x].all(name, body)` is CEL's `let`."""
    for name, part in reversed(names.items()):
        body = f"[{part}].all({name}, {body})"
    return body


def _or_empty(owner: str, field: str) -> str:
    return f"has({owner}) && has({owner}.{field}) ? {owner}.{field} : {{}}"


def _token(entry: str) -> str:
    return f"{entry}.split(' ', 2)[0]"


RESULTS_ANSWER_ENTRIES = _bound(
    "results.all(key, (key in old && old[key] == results[key])"
    f" || (key in entries && {_token('entries[key]')} == {_token('results[key]')}))",
    results=_or_empty("self.status", "results"),
    old=_or_empty("oldSelf.status", "results"),
    entries=_or_empty("self.spec", "leases"),
)
TOKENS_NEVER_DECREASE = _bound(
    "entries.all(key, !(key in old) || entries[key] == old[key]"
    f" || int({_token('entries[key]')}) >= int({_token('old[key]')}))",
    entries=_or_empty("self.spec", "leases"),
    old=_or_empty("oldSelf.spec", "leases"),
)


class Worker(Part):
    """One worker process: its mailbox, and its results."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "oldSelf.hasValue()"
                " || ((!has(self.spec.leases) || size(self.spec.leases) == 0)"
                " && (!has(self.spec.fenced) || !self.spec.fenced))",
                "a worker registers with an empty mailbox and unfenced; leave out spec.leases and spec.fenced",
                fieldPath=".spec",
                optionalOldSelf=True,
            ),
            rule(
                "self.spec.pool == oldSelf.spec.pool && self.spec.slots == oldSelf.spec.slots",
                "spec.pool and spec.slots are fixed when a worker registers; start another one",
                fieldPath=".spec",
            ),
            rule(
                "!has(self.spec.reservedSlots) || self.spec.reservedSlots <= self.spec.slots",
                "a worker keeps no more slots than it has; lower spec.reservedSlots",
                fieldPath=".spec.reservedSlots",
            ),
            rule(
                f"!has(oldSelf.spec.fenced) || !oldSelf.spec.fenced || ({FENCED})",
                "spec.fenced stays true once it is; a process that was given up comes back under another name",
                fieldPath=".spec.fenced",
            ),
            rule(
                f"!({FENCED}) || (has(self.status) == has(oldSelf.status)"
                " && (!has(self.status) || self.status == oldSelf.status))",
                "this worker is fenced: its jobs may have been given to others, and nothing it says counts any more",
                fieldPath=".status",
            ),
            rule(
                RESULTS_ANSWER_ENTRIES,
                "a new or changed result must carry the token of the entry with its key in spec.leases;"
                " the lease it answers has been taken back",
                fieldPath=".status.results",
            ),
            rule(
                TOKENS_NEVER_DECREASE,
                "the token of an entry never decreases; this delivery comes too late",
                fieldPath=".spec.leases",
            ),
        )
    )

    spec: WorkerSpec
    status: WorkerStatus | None = None
