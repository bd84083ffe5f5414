"""Leases as JSON: what we store in them, and what we read back.

A Lease is known by its name, because names cannot be edited. Labels only bring it into our watch; whatever else a hand
may have changed (a missing `leaseTransitions`, a duration of zero) is read as "not known" and never raises, and our
next write of the Lease sets it right.
"""

from collections.abc import Mapping
from typing import Any

from fencepost.api.names import (
    CLOCK_ANNOTATION,
    LEASES,
    ROLE_LABEL,
    SHARD_LABEL,
    SHARDS_ANNOTATION,
    WAITING_ANNOTATION,
)
from fencepost.api.times import format_micro_time, format_time, parse_time
from fencepost.core.clock_skew import ClockState
from fencepost.core.definition import Priority
from fencepost.core.lease import LeaseTimes, MemberRecord, ShardRecord
from fencepost.core.names import member_lease_name, shard_lease_name
from fencepost.core.turns import NOBODY, Backlog
from fencepost.kube.protocol import Obj

ROLE_SHARD = "shard"
ROLE_MEMBER = "member"
SELECTOR = f"{ROLE_LABEL} in ({ROLE_SHARD},{ROLE_MEMBER})"
"""Of both sorts in one watch, so that their events come in the order in which they happened."""

_SHARD_PREFIX = shard_lease_name(0).removesuffix("0")
_MEMBER_PREFIX = member_lease_name("")


POOLS_TOLD_MAX = 20
"""A member's Lease tells of so many pools at most, of those with the best jobs."""


def member_object(
    namespace: str,
    identity: str,
    times: LeaseTimes,
    joined_s: float,
    now_s: float,
    *,
    clock_right: bool = True,
    waiting: Mapping[str, Backlog] = NOBODY.others,
) -> Obj:
    """The member Lease of a replica that joined and renews it at these Unix times, by a clock that it trusts or not."""
    return _lease(
        namespace,
        member_lease_name(identity),
        labels={ROLE_LABEL: ROLE_MEMBER},
        annotations={
            CLOCK_ANNOTATION: ClockState.RIGHT if clock_right else ClockState.WRONG,
            WAITING_ANNOTATION: _waiting_text(waiting),
        },
        spec={
            "holderIdentity": identity,
            "leaseDurationSeconds": times.duration_s,
            "acquireTime": format_micro_time(joined_s),
            "renewTime": format_micro_time(now_s),
        },
    )


def shard_object(
    namespace: str, shard: int, shards: int, epoch: int, holder: str = "", acquired_s: float | None = None
) -> Obj:
    """The Lease of one shard of so many, at this epoch; with no holder, nobody leads it."""
    spec: dict[str, Any] = {"leaseTransitions": epoch}
    if holder:
        spec["holderIdentity"] = holder
    if acquired_s is not None:
        spec["acquireTime"] = format_micro_time(acquired_s)
    return _lease(
        namespace,
        shard_lease_name(shard),
        labels={ROLE_LABEL: ROLE_SHARD, SHARD_LABEL: str(shard)},
        annotations={SHARDS_ANNOTATION: str(shards)},
        spec=spec,
    )


def over(stored: Obj, wanted: Obj) -> Obj:
    """`wanted` as a compare-and-swap on `stored`, with the labels and annotations that others put on that one."""
    metadata: dict[str, Any] = dict(stored["metadata"])
    for name in ("labels", "annotations"):
        metadata[name] = (metadata.get(name) or {}) | wanted["metadata"][name]
    return stored | {"metadata": metadata, "spec": wanted["spec"]}


def shard_of_lease(obj: Obj) -> int | None:
    """The number of the shard whose Lease this is; None if it is not a shard's."""
    name = obj["metadata"]["name"]
    number = name.removeprefix(_SHARD_PREFIX)
    return int(number) if number.isdecimal() and shard_lease_name(int(number)) == name else None


def shard_record(obj: Obj) -> ShardRecord:
    """A shard's Lease as the core reads it."""
    spec = obj.get("spec") or {}
    return ShardRecord(holder=spec.get("holderIdentity") or "", epoch=spec.get("leaseTransitions"))


def shards_recorded(obj: Obj) -> str:
    """The number of shards that the Lease was made for, as text; empty if it does not say."""
    annotations: dict[str, str] = obj["metadata"].get("annotations") or {}
    return annotations.get(SHARDS_ANNOTATION, "")


def member_of_lease(obj: Obj) -> str | None:
    """The identity of the member whose Lease this is; None if it is not a member's."""
    name: str = obj["metadata"]["name"]
    return name.removeprefix(_MEMBER_PREFIX) if name.startswith(_MEMBER_PREFIX) else None


def member_record(obj: Obj) -> MemberRecord:
    """A member's Lease as the core reads it."""
    duration_s = (obj.get("spec") or {}).get("leaseDurationSeconds") or 0
    annotations = obj["metadata"].get("annotations") or {}
    return MemberRecord(
        version=obj["metadata"]["resourceVersion"],
        duration_s=duration_s,
        clock_right=annotations.get(CLOCK_ANNOTATION) != ClockState.WRONG,
        waiting=_read_waiting(annotations.get(WAITING_ANNOTATION, "")),
    )


def counts_as_gone(member: Obj) -> bool:
    """Whether a member Lease that is there is gone for everybody, its owner too, as it cannot come back as it was.

    It has been deleted and only a finalizer keeps it, or it has lost the label by which it is watched.
    """
    metadata = member["metadata"]
    return "deletionTimestamp" in metadata or (metadata.get("labels") or {}).get(ROLE_LABEL) != ROLE_MEMBER


def _waiting_text(waiting: Mapping[str, Backlog]) -> str:
    """`default critical 2026-11-30T13:00:00Z, gpu low 2026-11-30T12:58:10Z`"""
    best_first = sorted(waiting.items(), key=lambda item: (-item[1].level, item[1].since_s))
    told = [f"{pool} {Priority(each.level)} {format_time(each.since_s)}" for pool, each in best_first]
    return ", ".join(told[:POOLS_TOLD_MAX])


def _read_waiting(text: str) -> dict[str, Backlog]:
    """The inverse; what cannot be read is not there."""
    waiting: dict[str, Backlog] = {}
    for part in text.split(", ") if text else ():
        try:
            pool, level, since = part.split(" ")
            waiting[pool] = Backlog(Priority.parse(level), parse_time(since))
        except (KeyError, ValueError):
            continue
    return waiting


def _lease(namespace: str, name: str, labels: dict[str, str], annotations: dict[str, str], spec: dict[str, Any]) -> Obj:
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations},
        "spec": spec,
    }
