"""What the operator says of a DAG: the mark, the counters, and what people look at."""

from typing import Literal

from pydantic import ConfigDict

from fencepost.api.schema import WRITTEN_WHOLE, Conditions, Count, Part, Time, rule


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
    state: Literal["Ready", "Suspended", "Invalid"] | None = None
    schedule: str | None = None
    """The cron expression, and how many more there are."""
    schedule_hash: str | None = None
    """Of the schedule that was seen last; nothing fires for a time before it was first seen."""
    schedule_seen_time: Time | None = None
    last_scheduled_time: Time | None = None
    """The latest time whose run is known to exist, or that is known to be skipped or missed. Never falls."""
    next_scheduled_time: Time | None = None
    active: Count | None = None
    """Runs that have not finished."""
    skipped: Count | None = None
    """Times that were due while too many runs were active."""
    missed: Count | None = None
    """Times that were due while nobody could make the run."""
    revision: str | None = None
    """The ControllerRevision that holds the definition as it is now."""
    last_run: LastRun | None = None


MARK_RULE = rule(
    "!has(oldSelf.status) || !has(oldSelf.status.lastScheduledTime)"
    " || (has(self.status) && has(self.status.lastScheduledTime)"
    " && self.status.lastScheduledTime >= oldSelf.status.lastScheduledTime)",
    "status.lastScheduledTime never falls and cannot be removed; a time at or below it has been decided",
    fieldPath=".status.lastScheduledTime",
)
