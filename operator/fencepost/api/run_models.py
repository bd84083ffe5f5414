"""The kind DAGRun: one run of a DAG, and the record of every lease.

It has no status subresource, so that one create can carry the first leases; who may touch the status is decided by a
policy. The laws below are of constant cost. They are the belt: what keeps two leaders from leasing one job is the
compare-and-swap on the whole object.

Where a law stands decides what it costs, as each step from `self` into the object makes the server build that part's
schema anew: a law stands as low as it can, and what can be decided at creation is not asked again. But a law is skipped
when its part has been removed, so parts that carry laws are required, or a law above them says that they stay.

The strings in `leases`, `waiting` and `tasks` are those of `api.codec`.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from fencepost.api.codec import RUN_MESSAGE_LENGTH_MAX
from fencepost.api.dag_models import Params
from fencepost.api.schema import (
    ATOMIC_MAP,
    Conditions,
    Count,
    LaterFlag,
    LaterObject,
    Name,
    OnlyNow,
    Part,
    Time,
    rule,
    rules,
)
from fencepost.core.names import DAG_NAME_LENGTH_MAX

ENTRIES_MAX = 20_000
"""Of one map in a status. What binds is the size of the whole object; this only bounds what the server estimates."""

Label = Annotated[str, StringConstraints(max_length=63)]
Leases = Annotated[
    dict[str, Annotated[str, StringConstraints(max_length=256)]],
    Field(max_length=ENTRIES_MAX, json_schema_extra=ATOMIC_MAP),
]
Texts = Annotated[dict[str, str], Field(max_length=ENTRIES_MAX, json_schema_extra=ATOMIC_MAP)]


FINISHED = "['Succeeded', 'Failed', 'Cancelled']"
CREATED_EARLIER = "oldSelf.hasValue()"

NEVER_DECREASES = rules(
    rule("self >= oldSelf", "never decreases: this write was planned on a state that has been left behind; read again")
)
FIXED = rules(rule("self == oldSelf", "cannot be changed; make another run"))
FIXED_ONCE_SET = rules(rule("self == oldSelf", "cannot be changed once it is set; make another run"))


class DAGRunSpec(Part):
    """Which DAG, for which time, with which params. Fixed once set, apart from cancel."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("has(self.params) == has(oldSelf.params)", "params cannot be added or removed; make another run"),
            rule(
                "(!has(oldSelf.dagUID) || has(self.dagUID)) && (!has(oldSelf.revision) || has(self.revision))"
                " && (!has(oldSelf.scheduledTime) || has(self.scheduledTime))",
                "dagUID, revision and scheduledTime cannot be removed once they are set; make another run",
            ),
            rule(
                f"{CREATED_EARLIER} || self.trigger == 'Manual'"
                " || (has(self.scheduledTime) && has(self.dagUID) && has(self.revision))",
                "a run that nobody made by hand names its scheduledTime, dagUID and revision",
                optionalOldSelf=True,
            ),
        )
    )

    dag: Annotated[Name, StringConstraints(max_length=DAG_NAME_LENGTH_MAX), Field(json_schema_extra=FIXED)]
    """Name of a DAG in the same namespace."""
    dag_uid: Annotated[Label | None, Field(alias="dagUID", json_schema_extra=FIXED_ONCE_SET)] = None
    """That DAG's UID. The operator fills it in."""
    revision: Annotated[Label | None, Field(json_schema_extra=FIXED_ONCE_SET)] = None
    """The ControllerRevision that holds what the run executes. The operator fills it in."""
    trigger: Annotated[Literal["Schedule", "Manual", "Backfill"], Field(json_schema_extra=FIXED)] = "Manual"
    """Only the operator makes runs with a trigger other than Manual."""
    scheduled_time: Annotated[Time | None, Field(json_schema_extra=FIXED_ONCE_SET)] = None
    """What `$(run.scheduledTime)` stands for; the time of creation if left out."""
    params: Annotated[Params | None, Field(json_schema_extra=FIXED)] = None
    """Over the DAG's own."""
    cancel: bool | None = None
    """Stop every job and end the run as Cancelled."""
    suspend: LaterFlag | None = None
    round: Annotated[int, OnlyNow((0,))] | None = None
    overrides: LaterObject | None = None


class DAGRunStatus(Part):
    """The record of the run: written whole by the operator, and by nobody else."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"!(oldSelf.phase in {FINISHED}) || self.round > oldSelf.round || self == oldSelf",
                "a finished run's status changes only in the write that raises status.round to spec.round",
            ),
            rule(
                f"!(self.phase in {FINISHED}) || !has(self.leases) || size(self.leases) == 0",
                "a run cannot finish while a lease is outstanding; settle or take back status.leases first",
            ),
        )
    )

    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Cancelled"]
    epoch: Annotated[Count, Field(json_schema_extra=NEVER_DECREASES)]
    """Of the shard at the last write; a write under an older one is refused."""
    lease_counter: Annotated[Count, Field(json_schema_extra=NEVER_DECREASES)]
    """One higher at each write that leases something: the token of those leases."""
    round: Annotated[Count, Field(json_schema_extra=NEVER_DECREASES)]
    """How often the run has been taken up again after it had finished."""
    done: Label
    """Ended jobs of all jobs, such as `3/102`."""
    reason: Annotated[str, StringConstraints(max_length=128)] | None = None
    """Why it is not further, or how it ended: a PascalCase code."""
    message: Annotated[str, StringConstraints(max_length=RUN_MESSAGE_LENGTH_MAX)] | None = None
    """The same as a sentence."""
    start_time: Time | None = None
    finish_time: Time | None = None
    duration: Label | None = None
    """From start to finish, such as `1h0m5s`."""
    leases: Leases | None = None
    """By `task/index`: token, worker, attempt, time. This is the lease; all else follows from it."""
    waiting: Leases | None = None
    """By `task/index`: the next attempt's number, and the time before which it does not start."""
    tasks: Texts | None = None
    """By task: the indices of its ended jobs by how they ended, first start and last end."""
    failures: Texts | None = None
    """By `task/index`, the first few: why the last attempt failed."""
    conditions: Conditions | None = None
    """Complete or Failed, and Finished for both."""


class DAGRun(Part):
    """One run of a DAG."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(oldSelf.status) || has(self.status)",
                "status cannot be removed, it is the record of every lease; to be rid of the run, delete it",
                fieldPath=".status",
            ),
            rule(
                "!has(self.status) || self.status.round == 0"
                " || (has(self.spec.round) && self.status.round <= self.spec.round)",
                "status.round goes no further than spec.round",
                fieldPath=".status.round",
            ),
            rule(
                f"{CREATED_EARLIER} || self.spec.trigger == 'Manual' || has(self.status)",
                "a run that nobody made by hand is created with its status: the epoch in it is what is fenced",
                fieldPath=".status",
                optionalOldSelf=True,
            ),
            rule(
                f"{CREATED_EARLIER} || self.spec.trigger == 'Manual' || !has(self.spec.scheduledTime)"
                " || (self.metadata.name.startsWith(self.spec.dag + '-')"
                " && size(self.metadata.name) == size(self.spec.dag) + 11"
                " && int(self.metadata.name.substring(size(self.spec.dag) + 1)) == int(self.spec.scheduledTime))",
                "a scheduled run is named <dag>-<Unix seconds of its scheduledTime, ten digits>",
                fieldPath=".metadata.name",
                optionalOldSelf=True,
            ),
        )
    )

    spec: DAGRunSpec
    status: DAGRunStatus | None = None
