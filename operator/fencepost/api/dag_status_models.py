"""What the operator says of a DAG: the mark, the counters, and what people look at."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from fencepost.api.schema import ATOMIC_LIST, WRITTEN_WHOLE, Conditions, Count, Part, Time, rule

EARLIER_REVISIONS_MAX = 20


class LastRun(Part):
    """The run that finished last."""

    name: str
    phase: Literal["Succeeded", "Failed", "Cancelled"]
    finish_time: Time


class DAGStatus(Part):
    """What the operator says of the DAG. Written by nobody else."""

    model_config = ConfigDict(json_schema_extra=WRITTEN_WHOLE)

    observed_generation: Count | None = None
    """The generation of the spec that the rest was derived from."""
    conditions: Conditions | None = None
    state: Literal["Ready", "Suspended", "Invalid", "Done"] | None = None
    """Done: its schedule holds no further time, and no run is under way."""
    schedule: str | None = None
    """The cron expression, and how many more there are."""
    schedule_hash: str | None = None
    """Of the schedule that was seen last; nothing fires for a time before it was first seen."""
    schedule_seen_time: Time | None = None
    last_scheduled_time: Time | None = None
    """The latest time whose run is known to exist, or that is known to be skipped or missed. Never falls."""
    next_scheduled_time: Time | None = None
    next_scheduled_times: Annotated[list[Time], Field(max_length=10, json_schema_extra=ATOMIC_LIST)] | None = None
    """The next few."""
    clock_changes: Annotated[list[str], Field(max_length=10, json_schema_extra=ATOMIC_LIST)] | None = None
    """The next changes of the zone's clocks that leave out times of the schedule or let them come twice."""
    active: Count | None = None
    """Runs that have not finished."""
    fired: Count | None = None
    """Times whose run was made within a minute."""
    late: Count | None = None
    """Times whose run was made later than that."""
    skipped: Count | None = None
    """Times that were due while too many runs were active."""
    missed: Count | None = None
    """Times whose run nobody could make in time, at least; after a long absence they are not counted one by one."""
    dead_letters_missed: Count | None = None
    """Jobs that failed for good and left no dead letter, as there was no room for it."""
    revision: str | None = None
    """The ControllerRevision that holds the definition as it is now."""
    earlier_revisions: (
        Annotated[list[str], Field(max_length=EARLIER_REVISIONS_MAX, json_schema_extra=ATOMIC_LIST)] | None
    ) = None
    """Those of earlier definitions that may still be stored, the latest ones: runs or dead letters use them, or have
    until now."""
    last_scheduled_run: str | None = None
    """The run that was made last for a scheduled time."""
    last_run: LastRun | None = None
    """The run that finished last, however it was made."""


MARK_RULE = rule(
    "!has(oldSelf.status) || !has(oldSelf.status.lastScheduledTime)"
    " || (has(self.status) && has(self.status.lastScheduledTime)"
    " && self.status.lastScheduledTime >= oldSelf.status.lastScheduledTime)",
    "status.lastScheduledTime never falls and cannot be removed; a time at or below it has been decided",
    fieldPath=".status.lastScheduledTime",
)
