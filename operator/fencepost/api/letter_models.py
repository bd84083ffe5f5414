"""The kind DeadLetter: a job that failed for good, and the wish to have it run again.

What it tells stands in `spec.job`, written once by the operator; a person writes `spec.replay` and nothing else. The
status, a subresource, says what became of that wish.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from fencepost.api.dag_models import Params
from fencepost.api.run_models import Label
from fencepost.api.schema import ATOMIC_LIST, WRITTEN_WHOLE, Count, Name, Part, Time, rule, rules

MESSAGE_LENGTH_MAX = 2048
ATTEMPTS_TOLD_MAX = 10
"""Of one job, the latest ones."""
REPLAYS_MAX = 1_000_000

Text = Annotated[str, StringConstraints(max_length=MESSAGE_LENGTH_MAX)]
Word = Annotated[str, StringConstraints(max_length=64)]


class Attempt(Part):
    """One attempt, by the clock of the worker that had it."""

    attempt: Count
    outcome: Word
    exit_code: int | None = None
    """Minus the signal's number where one ended it."""
    start_time: Time | None = None
    end_time: Time | None = None


class DeadJob(Part):
    """The job, and how it failed."""

    dag: Name
    dag_uid: Annotated[Label, Field(alias="dagUID")]
    run: Name
    run_uid: Annotated[Label, Field(alias="runUID")]
    revision: Label
    """The ControllerRevision that holds the job's definition."""
    round: Count
    """Of the run, in which it failed."""
    task: Name
    index: Count = 0
    scheduled_time: Time
    params: Params | None = None
    """Over the DAG's own."""
    reason: Word
    """How its last attempt ended: Failed, TimedOut, Invalid or Missing; WorkerLost or NotStarted where no worker has
    said."""
    exit_code: int | None = None
    """Of the last attempt; minus the signal's number where one ended it."""
    attempt: Count
    """How many attempts it has had."""
    losses: Count = 0
    """How many workers were lost under it."""
    time: Time
    """When it was given up."""
    message: Text | None = None
    """The end of its last output, or why it could not be run."""
    attempts: Annotated[list[Attempt] | None, Field(max_length=ATTEMPTS_TOLD_MAX, json_schema_extra=ATOMIC_LIST)] = None
    """The latest attempts, as far as the operator has seen them itself."""


class DeadLetterSpec(Part):
    """What happened, and whether it is to be tried again."""

    job: Annotated[
        DeadJob,
        Field(
            json_schema_extra=WRITTEN_WHOLE
            | rules(rule("self == oldSelf", "is what has happened: write only spec.replay"))
        ),
    ]
    replay: Annotated[
        int,
        Field(
            ge=0,
            le=REPLAYS_MAX,
            json_schema_extra=rules(rule("self >= oldSelf", "only grows: each step has the job run once more")),
        ),
    ] = 0
    """Raised by one, the job is run again: in its own run, in another round, or in a new run where that is gone."""


class DeadLetterStatus(Part):
    """What became of the last replay."""

    model_config = ConfigDict(json_schema_extra=WRITTEN_WHOLE)

    phase: Literal["Replaying", "Succeeded", "Failed", "Refused"]
    """Replaying: it has begun. Succeeded, Failed: how the job ended. Refused: it cannot be run, `message` says why."""
    replay: Count
    """The `spec.replay` that this is about."""
    run: Name | None = None
    """Where the job was run again."""
    run_uid: Annotated[Label | None, Field(alias="runUID")] = None
    round: Count | None = None
    """Of that run."""
    message: Text | None = None
    time: Time | None = None
    """Of the last change."""


class DeadLetter(Part):
    """A job that failed for good."""

    spec: DeadLetterSpec
    status: DeadLetterStatus | None = None
