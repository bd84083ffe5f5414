"""Names and keys, all derived, none drawn.

A scheduled run's name is the unique index on (DAG, scheduled time), so two replicas that both believe a slot is theirs
meet at one name. Names of runs can be used again after a deletion, so whatever must mean *this* run carries its UID:
mailbox keys hold its first eight characters, the execution id holds all of it.
"""

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

SHARDS_DEFAULT = 16
DAG_NAME_LENGTH_MAX = 52
UID_PREFIX_LENGTH = 8
NONCE_LENGTH = 5
WORKER_NAME_LENGTH_MAX = 63


@dataclass(frozen=True, slots=True, order=True)
class JobKey:
    """One job of a run: task name, and index within its fan-out (0 where there is none)."""

    task: str
    index: int

    def __str__(self) -> str:
        return f"{self.task}/{self.index}"


class RunKey(NamedTuple):
    """One DAGRun by name; not its identity, which is the UID."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class DagKey(NamedTuple):
    """One DAG by name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class MailboxKey(NamedTuple):
    """The key of a lease in a worker's mailbox and of its result; as text `ns/run.uid8/task/index`."""

    run: RunKey
    uid_prefix: str
    job: JobKey

    def __str__(self) -> str:
        return f"{self.run.namespace}/{self.run.name}.{self.uid_prefix}/{self.job.task}/{self.job.index}"


def parse_job_key(text: str) -> JobKey:
    """`task/index` back into a JobKey; ValueError when it is none."""
    task, slash, index = text.rpartition("/")
    if not slash or not task or not index.isdecimal():
        raise ValueError(f"{text!r} is not of the form task/index")
    return JobKey(task, int(index))


def mailbox_key(run: RunKey, run_uid: str, job: JobKey) -> MailboxKey:
    """The mailbox key of a job of the run with this UID."""
    return MailboxKey(run, run_uid[:UID_PREFIX_LENGTH], job)


def parse_mailbox_key(text: str) -> MailboxKey:
    """The inverse of `str(MailboxKey)`; ValueError when the text is none."""
    parts = text.split("/")
    if len(parts) != 4 or not all(parts):
        raise ValueError(f"{text!r} is not of the form namespace/run.uid/task/index")
    namespace, run, task, index = parts
    name, dot, uid_prefix = run.rpartition(".")
    if not dot or not name or len(uid_prefix) != UID_PREFIX_LENGTH or not index.isdecimal():
        raise ValueError(f"{text!r} is not of the form namespace/run.uid/task/index")
    return MailboxKey(RunKey(namespace, name), uid_prefix, JobKey(task, int(index)))


def execution_id(run_uid: str, job: JobKey) -> str:
    """The identity of a job of a run, the same over all its attempts; tokens compare only within one of them."""
    return f"{run_uid}/{job.task}/{job.index}"


def scheduled_run_name(dag: str, scheduled_s: int) -> str:
    """The name of the run of a DAG for one scheduled time (Unix seconds, ten digits)."""
    return f"{dag}-{scheduled_s:010d}"


def shard_of(dag: DagKey, shards: int) -> int:
    """The shard that owns a DAG and all its runs: blake2b (8 bytes) of `namespace/name`, modulo `shards`."""
    digest = hashlib.blake2b(str(dag).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % shards


def spread_offset_s(dag: DagKey, spread_s: float) -> int:
    """By how many whole seconds, from 0 to below the spread, this DAG's slots are moved.

    Under a hash of its own: by that of the shards, all DAGs of one shard would meet at a few of the offsets.
    """
    digest = hashlib.blake2b(str(dag).encode(), digest_size=8, person=b"spread").digest()
    return int.from_bytes(digest, "big") % max(1, int(spread_s))


def shard_lease_name(shard: int) -> str:
    """The name of a shard's Lease in the system namespace."""
    return f"fencepost-shard-{shard}"


def member_lease_name(replica: str) -> str:
    """The name of the Lease by which an operator replica says that it is alive."""
    return f"fencepost-member-{replica}"


def content_hash(canonical: bytes) -> str:
    """Ten characters that name a content: 50 bits of blake2b in base 32, few of them vowels."""
    alphabet = "0123456789abcdfghjklmnpqrstvwxyz"
    digest = int.from_bytes(hashlib.blake2b(canonical, digest_size=8).digest(), "big")
    return "".join(alphabet[(digest >> (5 * place)) & 31] for place in range(10))


def revision_name(dag: str, content: str) -> str:
    """The name of the ControllerRevision that holds a DAG's definition of this content hash."""
    return f"{dag}-{content}"


def dag_of_revision(revision: str) -> str:
    """The DAG's name within the name of one of its revisions."""
    return revision.rpartition("-")[0]


def worker_name(pod: str, nonce: str) -> str:
    """The name of one worker process: its pod's name and a nonce of fixed length, never used twice."""
    if len(nonce) != NONCE_LENGTH:
        raise ValueError(f"nonce {nonce!r} has {len(nonce)} characters; a worker's nonce has {NONCE_LENGTH}")
    return f"{pod}-{nonce}"
