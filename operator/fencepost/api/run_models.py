"""The kind DAGRun: one run of a DAG, and the record of every lease.

It has no status subresource, so that one create can carry the first leases; who may touch the status is decided by a
policy. The laws below are of constant cost. They are the belt: what keeps two leaders from leasing one job is the
compare-and-swap on the whole object.

Where a law stands decides what it costs, as each step from `self` into the object makes the server build that part's
schema anew. So here are only laws that a single field can keep; whatever looks at several stands in the policy on runs
(`charts/fencepost/files/policies.yaml`), where such a step costs next to nothing.

The strings in `leases`, `waiting` and `tasks` are those of `api.codec`.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from fencepost.api.codec import RUN_MESSAGE_LENGTH_MAX
from fencepost.api.dag_models import Params
from fencepost.api.schema import (
    ATOMIC_MAP,
    WRITTEN_WHOLE,
    Conditions,
    Count,
    Name,
    Part,
    Time,
    rule,
    rules,
)
from fencepost.core.names import DAG_NAME_LENGTH_MAX

ENTRIES_MAX = 20_000
"""Of one map in a status. What binds is the size of the whole object; this only bounds what the server estimates."""

ROUND_MAX = 1_000_000
OVERRIDES_MAX = 64
RERUN_TASKS_MAX = 64
INDICES_LENGTH_MAX = 1024

Label = Annotated[str, StringConstraints(max_length=63)]
Leases = Annotated[
    dict[str, Annotated[str, StringConstraints(max_length=256)]],
    Field(max_length=ENTRIES_MAX, json_schema_extra=ATOMIC_MAP),
]
Texts = Annotated[dict[str, str], Field(max_length=ENTRIES_MAX, json_schema_extra=ATOMIC_MAP)]


NEVER_DECREASES = rules(
    rule("self >= oldSelf", "never decreases: this write was planned on a state that has been left behind; read again")
)
FIXED = rules(rule("self == oldSelf", "cannot be changed; make another run"))
FIXED_ONCE_SET = rules(rule("self == oldSelf", "cannot be changed once it is set; make another run"))
NEVER_TAKEN_BACK = rules(rule("self >= oldSelf", "only grows; what has been asked for is not taken back"))
OVERRIDES = {
    **ATOMIC_MAP,
    **rules(
        rule(
            "self.all(job, job.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(/(0|[1-9][0-9]{0,4}))?$'))",
            "the key of an override is <task>/<index>, or <task> for all its jobs",
        )
    ),
}


class Rerun(Part):
    """What a round runs again. All else keeps its end and its output."""

    round: Annotated[int, Field(ge=1, le=ROUND_MAX)]
    """The round that this is said of; it is that of spec.round when it is written."""
    source: Annotated[Literal["Failed", "All", "Jobs"], Field(alias="from")] = "Failed"
    """Failed: every job that has not succeeded. Jobs: those in `jobs`, and what was skipped below them."""
    jobs: Annotated[
        dict[str, Annotated[str, StringConstraints(max_length=INDICES_LENGTH_MAX)]] | None,
        Field(max_length=RERUN_TASKS_MAX, json_schema_extra=ATOMIC_MAP),
    ] = None
    """By task: `*`, or indices such as `0-99,105`."""
    downstream: bool = False
    """Run again what depends on those jobs too, though it may have ended well."""


class Override(Part):
    """A job marked by hand: how it ended, whatever it did."""

    phase: Literal["Succeeded", "Failed"]
    by: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    """Who says so: the name under which the request is made, and a policy holds it to that."""
    at: Time | None = None
    """When, by the clock of whoever says so."""
    round: Annotated[int, Field(ge=0, le=ROUND_MAX)] = 0
    """In which round of the run it holds; in later ones it means nothing."""


class DAGRunSpec(Part):
    """Which DAG, for which time, with which params: fixed once set. The rest is what a person may ask of it later."""

    dag: Annotated[Name, StringConstraints(max_length=DAG_NAME_LENGTH_MAX), Field(json_schema_extra=FIXED)]
    """Name of a DAG in the same namespace."""
    dag_uid: Annotated[Label | None, Field(alias="dagUID", json_schema_extra=FIXED_ONCE_SET)] = None
    """That DAG's UID. The operator fills it in."""
    revision: Annotated[Label | None, Field(json_schema_extra=FIXED_ONCE_SET)] = None
    """The ControllerRevision that holds what the run executes. The operator fills it in."""
    trigger: Annotated[Literal["Schedule", "Manual", "Backfill"], Field(json_schema_extra=FIXED)] = "Manual"
    """Schedule is for the operator alone; Backfill for whoever has the verb `backfill` on the DAG."""
    scheduled_time: Annotated[Time | None, Field(json_schema_extra=FIXED_ONCE_SET)] = None
    """What `$(run.scheduledTime)` stands for; the time of creation if left out."""
    params: Annotated[Params | None, Field(json_schema_extra=FIXED)] = None
    """Over the DAG's own."""
    cancel: bool = False
    """Stop every job and end the run as Cancelled. Taken back only where a cancelled run is run again."""
    suspend: bool | None = None
    """Start no more jobs while it is true; those that run go on, and so do the time limits."""
    round: Annotated[int, Field(ge=0, le=ROUND_MAX, json_schema_extra=NEVER_TAKEN_BACK)] = 0
    """Raised by one, it runs a finished run again: the jobs that have not succeeded, unless `rerun` says otherwise."""
    rerun: Rerun | None = None
    """What the round runs again."""
    overrides: Annotated[dict[str, Override] | None, Field(max_length=OVERRIDES_MAX, json_schema_extra=OVERRIDES)] = (
        None
    )
    """Jobs marked by hand, by `task/index`, or by task for all its jobs."""


class DAGRunStatus(Part):
    """The record of the run: written whole by the operator, and by nobody else."""

    model_config = ConfigDict(json_schema_extra=WRITTEN_WHOLE)

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
    outputs: Texts | None = None
    """By `task/index`: what jobs have put out, of those tasks whose output another one refers to."""
    dying: Leases | None = None
    """By `task/index`: jobs that failed for good and whose DeadLetter is still to be written; the run waits for it."""
    replays: Texts | None = None
    """By task: `round=indices` of the dead letters that this round replays, and that do not tell of it yet."""
    conditions: Conditions | None = None
    """Complete, or Failed and Stalled; Finished for both; Suspended while it is."""


class DAGRun(Part):
    """One run of a DAG."""

    spec: DAGRunSpec
    status: DAGRunStatus | None = None
