"""The laws about who may write what, kept by ValidatingAdmissionPolicies: a write that breaks one is refused with 403.

They ask who writes, where `memory.laws` asks only what is written. "The operator" is whoever may update the status of
runs, which an administrator may as well.

Not here: that a worker does not write its mailbox, as `memory.rights` refuses it before; and that a shard's Lease can
go with its namespace, as there are no namespaces here.
"""

import re

from fencepost.api.names import DAG_RUNS, DAGS, LEASES, ROLE_LABEL, SHARD_LABEL, WORKERS, Kind
from fencepost.core.names import NONCE_LENGTH, SHARDS_DEFAULT, member_lease_name, shard_lease_name
from fencepost.memory.identity import Role
from fencepost.memory.laws import BACKFILL, MANUAL, SHARDS
from fencepost.memory.rights import may
from fencepost.memory.writes import Law, Write, label_of

SHARD_LEASE_PREFIX = shard_lease_name(0).removesuffix("0")
MEMBER_LEASE_PREFIX = member_lease_name("")
WORKER_ROLE = "worker"
SCHEDULED_NAME = re.compile(r"-[0-9]{10}$")


def run_status_is_the_operators(write: Write) -> str | None:
    """Whoever writes it hands out leases."""
    if not _by_operator(write) and write.old_status != write.new_status:
        return "only the operator writes a run's status, it is the record of every lease; leave it as it is"
    return None


def triggers_are_the_operators(write: Write) -> str | None:
    """A person's run is a manual one, or one of a backfill that the person may make."""
    trigger = write.new_spec.get("trigger", MANUAL)
    if write.old is not None or _by_operator(write) or trigger == MANUAL:
        return None
    if trigger == BACKFILL and may(write.identity, "backfill", DAGS):
        return None
    return (
        "only the operator makes runs with a trigger other than Manual, and those of a backfill whoever may backfill"
        " the DAG; leave trigger out"
    )


def names_of_slots_are_for_their_runs(write: Write) -> str | None:
    """A run under a slot's name takes that slot's place, whatever DAG it names."""
    if write.old is not None or not SCHEDULED_NAME.search(write.key.name):
        return None
    if write.new_spec.get("trigger", MANUAL) == MANUAL:
        return "names that end in a dash and ten digits are those of scheduled runs; choose another name"
    return None


def shard_label_is_the_operators(write: Write) -> str | None:
    """By it a leader finds its runs, and the epoch fence its epoch."""
    old, new = label_of(write.old, SHARD_LABEL), label_of(write.new, SHARD_LABEL)
    if not _by_operator(write) and new != old:
        return f"only the operator sets the label {SHARD_LABEL}; leave it out"
    if old and new != old:
        return f"the label {SHARD_LABEL} cannot be changed or removed, it says who decides about the run"
    return None


def definition_is_the_operators(write: Write) -> str | None:
    """What a run executes is looked up, not claimed."""
    if not _by_operator(write) and any(
        (name in write.old_spec) != (name in write.new_spec) for name in ("dagUID", "revision")
    ):
        return "the operator fills in dagUID and revision; leave them out"
    return None


def overrides_name_who_made_them(write: Write) -> str | None:
    """Who marks a job answers for it."""
    before = write.old_spec.get("overrides") or {}
    for job, override in (write.new_spec.get("overrides") or {}).items():
        if before.get(job) != override and override["by"] != write.identity.user:
            return f"an override says by whom it was made, and you are {write.identity.user!r} ({job})"
    return None


def run_with_status_has_a_shard(write: Write) -> str | None:
    """A run without the label of a shard would pass every epoch."""
    if write.new_status is not None and label_of(write.new, SHARD_LABEL) not in SHARDS:
        return f"a run with a status carries the label {SHARD_LABEL} with a number below {SHARDS_DEFAULT}"
    return None


def epoch_is_the_present_one(write: Write) -> str | None:
    """The epoch fence: a leader that was deposed while its write was on the way is refused."""
    shard, status = label_of(write.new, SHARD_LABEL), write.new_status
    if shard not in SHARDS or status is None:
        return None
    epoch = write.shard_epoch(shard) or 0
    if status["epoch"] < epoch and status != write.old_status:
        return f"shard {shard} is led under epoch {epoch}: a write under epoch {status['epoch']} comes too late"
    return None


def worker_registers_as_itself(write: Write) -> str | None:
    """A name is a pod's and a nonce of fixed length, so no pod can speak for another."""
    if write.verb == "create" and not _by_operator(write) and not _own(write):
        return f"the worker of pod {write.identity.pod!r} may register only as <pod>-<five characters>"
    return None


def worker_serves_its_pool(write: Write) -> str | None:
    """By its pool a worker is given jobs and params, which are not for everybody."""
    pools, pool = write.identity.pools, write.new_spec.get("pool", "")
    if write.verb == "create" and not _by_operator(write) and pools is not None and pool not in pools:
        return (
            f"this account may not run workers of pool {pool}; grant it the verb serve on the WorkerPool of that name"
        )
    return None


def results_are_the_workers(write: Write) -> str | None:
    """Not even the operator answers for a worker."""
    if write.verb == "update" and not _own(write) and write.old_status != write.new_status:
        return "only a worker itself, under the name of its own pod, writes its status"
    return None


def shard_and_member_leases_stay(write: Write) -> str | None:
    """A shard's Lease made anew would start its epochs again; a member's that is gone loses it its shards."""
    if _is_shard(write):
        return "the Lease of a shard cannot be deleted, it is the record of the shard's epoch"
    if _is_member(write) and not _by_operator(write):
        return "only the operator deletes the Lease of a member, as whoever does takes its shards away from it"
    return None


def leases_with_a_role_are_ours(write: Write) -> str | None:
    """Other Leases in the namespace are anybody's."""
    if _by_operator(write):
        return None
    role, old_role = label_of(write.new, ROLE_LABEL), label_of(write.old, ROLE_LABEL)
    if write.identity.role is Role.WORKER:
        own = _own(write) and not _is_shard(write) and not _is_member(write)
        if not own or role != WORKER_ROLE or old_role not in ("", WORKER_ROLE):
            pod = write.identity.pod
            return f"the worker of pod {pod!r} may write only the Lease <pod>-<five characters>, {ROLE_LABEL}: worker"
    elif role or old_role or _is_shard(write) or _is_member(write):
        return "only the operator writes the Leases of shards and members, and only a worker its own"
    return None


def epoch_of_a_lease_rises(write: Write) -> str | None:
    """A new holder under the old epoch would not be told apart from the old one."""
    if write.verb != "update" or not _is_shard(write):
        return None
    old, new = write.old_spec.get("leaseTransitions"), write.new_spec.get("leaseTransitions")
    old_holder, new_holder = write.old_spec.get("holderIdentity", ""), write.new_spec.get("holderIdentity", "")
    if new is None or (old is not None and (new < old or (new == old and new_holder not in ("", old_holder)))):
        return "the epoch of a shard (leaseTransitions) never falls, and rises whenever the shard gets another holder"
    return None


POLICIES: dict[Kind, tuple[Law, ...]] = {
    DAG_RUNS: (
        run_status_is_the_operators,
        triggers_are_the_operators,
        names_of_slots_are_for_their_runs,
        shard_label_is_the_operators,
        definition_is_the_operators,
        overrides_name_who_made_them,
        run_with_status_has_a_shard,
        epoch_is_the_present_one,
    ),
    WORKERS: (worker_registers_as_itself, worker_serves_its_pool, results_are_the_workers),
    LEASES: (leases_with_a_role_are_ours, epoch_of_a_lease_rises),
}
"""Asked about every create and update of the kind; those of Leases in the system namespace only."""

DELETION_POLICIES: dict[Kind, tuple[Law, ...]] = {LEASES: (shard_and_member_leases_stay,)}
"""Asked about every deletion of the kind; in the system namespace only."""


def _by_operator(write: Write) -> bool:
    return write.identity.role in (Role.OPERATOR, Role.ADMIN)


def _own(write: Write) -> bool:
    name, pod = write.key.name, write.identity.pod
    return bool(pod) and name.startswith(f"{pod}-") and len(name) == len(pod) + 1 + NONCE_LENGTH


def _is_shard(write: Write) -> bool:
    return write.key.name.startswith(SHARD_LEASE_PREFIX)


def _is_member(write: Write) -> bool:
    return write.key.name.startswith(MEMBER_LEASE_PREFIX)
