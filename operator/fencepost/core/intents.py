"""Every write there is, as values. The core and the loops ask; `apply/executor.py` alone carries out.

Each intent says what must already be stored before it may be carried out: the order of writes is part of its contract.
`record` is the object as last read, passed through untouched: it carries the resourceVersion that makes the write a
compare-and-swap, and whatever labels and owners others have put on it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.core.names import DagKey, RunKey
from fencepost.core.run_state import RunState, Trigger

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Authority:
    """Under which leadership a write is made. The executor refuses it once the trust window is over."""

    shard: int
    epoch: int


@dataclass(frozen=True, slots=True)
class CreateRevision:
    """Keep a DAG's definition. Nothing must be stored before; a run that names it may be created only after."""

    authority: Authority
    dag: DagKey
    dag_uid: str
    name: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CreateRun:
    """Create the run of a slot, its first leases included.

    Before: its revision is stored, no slot of the DAG below it is undecided, and under a new epoch the DAG has been
    read live. After: the mark may pass the slot, and the leases may be delivered.
    """

    authority: Authority
    run: RunKey
    dag: DagKey
    dag_uid: str
    revision: str
    trigger: Trigger
    scheduled_s: int
    state: RunState
    params: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WriteRun:
    """Store a run's state: results folded, leases given, in one write.

    Before: the entries of leases that end without a result are out of their worker's mailbox, or the worker is fenced.
    After: new leases may be delivered, settled entries may be taken away.
    """

    authority: Authority
    record: Record
    dag: DagKey
    dag_uid: str
    revision: str
    state: RunState
    asked: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the spec that this write changes: the round that a replay asks for, or the `cancel` of
    a run that makes room for another."""


@dataclass(frozen=True, slots=True)
class CreateLetter:
    """Keep a job that failed for good as a dead letter. Before: the run records the job as dying. After: the run may
    forget that, and finish."""

    authority: Authority
    dag: DagKey
    dag_uid: str
    name: str
    job: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WriteLetterStatus:
    """Store what became of a replay. Before: the round, or the run, that replays the letter is stored."""

    authority: Authority
    record: Record
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeleteLetter:
    """Delete a dead letter by UID: it has expired, or makes room for another."""

    authority: Authority
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DeleteDag:
    """Delete a DAG in this version, and by owner reference its runs. Before: its schedule is over, its runs have
    finished, and the time to keep it has passed."""

    authority: Authority
    record: Record


@dataclass(frozen=True, slots=True)
class DeleteRun:
    """Delete a run by UID. Before: the DAG's stored mark is at or above its slot, and it has finished; or it is a
    run that should never have been (a write of a leader long deposed)."""

    authority: Authority
    run: RunKey
    uid: str
    version: str = ""
    """The resourceVersion that was judged: whoever has asked for another round since keeps the run. Empty: any."""


@dataclass(frozen=True, slots=True)
class DeleteRevision:
    """Delete a revision that neither the DAG nor any of its runs uses. One deleted too early is made again."""

    authority: Authority
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class WriteDagStatus:
    """Store what people see of a DAG, and the mark. Before: the fate of every slot up to the mark is known."""

    authority: Authority
    record: Record
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WriteMailbox:
    """Deliver, stop and take away entries of one worker, mark its part of the reserve, tell it how often to renew.

    Before: every entry that is put is a lease stored in its run; every entry that is taken away is settled in its run,
    or belongs to no run, or has not obeyed a stop for its whole grace period.
    """

    record: Record
    leases: Mapping[str, str]
    renewal_interval_s: int
    """How often the worker is to renew its Lease."""
    critical: Collection[str] = ()
    """Keys of the entries whose jobs may take slots of the reserve."""
    reserved_slots: int | None = None
    """How many slots it is to keep for them; None: no mark."""


@dataclass(frozen=True, slots=True)
class FenceWorker:
    """Shut a worker out for good. Before: it has not renewed for its lease's duration, as seen here and by one live
    read just now. After: jobs leased to it without a result may be leased again."""

    record: Record


@dataclass(frozen=True, slots=True)
class DeleteWorker:
    """Delete the Lease of a fenced or departed worker, then its Worker. Before: its mailbox is empty. A crash between
    the two leaves the Worker, which tells the next leader that it can go; a Lease alone would tell nobody."""

    record: Record


@dataclass(frozen=True, slots=True)
class DeleteLease:
    """Delete the Lease of a process that died before it had made its Worker. Before: it has been silent for long."""

    namespace: str
    name: str
    version: str
    """The resourceVersion at which it was silent: a renewal on its way saves it."""


@dataclass(frozen=True, slots=True)
class WritePoolStatus:
    """Store what people see of a pool."""

    record: Record
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Announce:
    """Tell people of something by an Event. Before: what it tells is stored."""

    involved: Record
    """The object it is about: kind, namespace, name and uid are used."""
    reason: str
    message: str
    warning: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)


Intent = (
    CreateRevision
    | CreateRun
    | WriteRun
    | DeleteDag
    | CreateLetter
    | WriteLetterStatus
    | DeleteLetter
    | DeleteRun
    | DeleteRevision
    | WriteDagStatus
    | WriteMailbox
    | FenceWorker
    | DeleteWorker
    | DeleteLease
    | WritePoolStatus
    | Announce
)
