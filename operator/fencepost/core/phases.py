"""Phases of runs and jobs, and the moves between them.

Both machines are tables: what a table does not hold is illegal, raises, and changes nothing. Two exceptions stand under
the tables, because they are decided by a person and not by the machine.
"""

from enum import StrEnum


class RunPhase(StrEnum):
    """Where a run stands; `DAGRun.status.phase`."""

    PENDING = "Pending"
    """Created or accepted; no job has been leased yet."""
    RUNNING = "Running"
    """At least one job has been leased, and not every job has ended."""
    SUCCEEDED = "Succeeded"
    """Every job has ended, and none of them Failed or Cancelled, or no more than successThreshold allows."""
    FAILED = "Failed"
    """Every job has ended, at least one of them Failed; or the run could not be carried out at all."""
    CANCELLED = "Cancelled"
    """A person asked for it, no lease is outstanding, and what had not ended has been cancelled."""

    @property
    def finished(self) -> bool:
        """True for the three phases that a run does not leave by itself."""
        return self in _FINISHED


_FINISHED = frozenset({RunPhase.SUCCEEDED, RunPhase.FAILED, RunPhase.CANCELLED})

RUN_MOVES: dict[RunPhase, frozenset[RunPhase]] = {
    RunPhase.PENDING: frozenset({RunPhase.RUNNING, RunPhase.SUCCEEDED, RunPhase.FAILED, RunPhase.CANCELLED}),
    RunPhase.RUNNING: frozenset({RunPhase.SUCCEEDED, RunPhase.FAILED, RunPhase.CANCELLED}),
    RunPhase.SUCCEEDED: frozenset(),
    RunPhase.FAILED: frozenset(),
    RunPhase.CANCELLED: frozenset(),
}
"""Exception: a person raises `spec.round`; then `again` takes a finished run up once more, in one write."""


class JobPhase(StrEnum):
    """Where a job stands. Only the ended phases are stored; the others follow from what else the run records."""

    PENDING = "Pending"
    """Waits for its parents."""
    QUEUED = "Queued"
    """Its parents have ended and its rule is met; waits for a slot, or for the end of its back-off."""
    RUNNING = "Running"
    """A lease of it is recorded."""
    SUCCEEDED = "Succeeded"
    """An attempt ended with exit code 0."""
    FAILED = "Failed"
    """It could not be started at all, or its last attempt failed with no retry left."""
    SKIPPED = "Skipped"
    """Its rule can no longer be met by how its parents ended; of a job that has been tried, as a person has marked one
    of them since."""
    CANCELLED = "Cancelled"
    """Before it ended, the run was cancelled or ran out of time, or its fan-out could not succeed any more."""

    @property
    def ended(self) -> bool:
        """True for the phases that are stored, as the job will not run again."""
        return self in ENDED_PHASES


ENDED_PHASES = (
    JobPhase.SUCCEEDED,
    JobPhase.FAILED,
    JobPhase.SKIPPED,
    JobPhase.CANCELLED,
)
"""In the order in which they are written."""

JOB_MOVES: dict[JobPhase, frozenset[JobPhase]] = {
    JobPhase.PENDING: frozenset({JobPhase.QUEUED, JobPhase.SKIPPED, JobPhase.CANCELLED}),
    JobPhase.QUEUED: frozenset({JobPhase.RUNNING, JobPhase.FAILED, JobPhase.SKIPPED, JobPhase.CANCELLED}),
    JobPhase.RUNNING: frozenset({JobPhase.QUEUED, JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED}),
    JobPhase.SUCCEEDED: frozenset(),
    JobPhase.FAILED: frozenset(),
    JobPhase.SKIPPED: frozenset(),
    JobPhase.CANCELLED: frozenset(),
}
"""Two exceptions, both a person's wish: another round opens jobs that had ended, and a job that is marked by hand
(`spec.overrides`) goes from any phase to one of `MARKS`."""

MARKS = (JobPhase.SUCCEEDED, JobPhase.FAILED)
"""What a job can be marked as by hand."""


class IllegalMoveError(Exception):
    """Our own mistake: a plan tried a move that the table does not hold."""


def move_run(old: RunPhase, new: RunPhase) -> RunPhase:
    """`new` if a run may go there from `old` (staying is allowed); IllegalMoveError otherwise."""
    if new is not old and new not in RUN_MOVES[old]:
        raise IllegalMoveError(f"a run cannot go from {old} to {new}")
    return new


def again(old: RunPhase, leased_before: bool) -> RunPhase:
    """Where a run goes on that a person runs again; IllegalMoveError while it has not finished."""
    if not old.finished:
        raise IllegalMoveError(f"a run that is {old} cannot begin another round")
    return RunPhase.RUNNING if leased_before else RunPhase.PENDING


def move_job(old: JobPhase, new: JobPhase) -> JobPhase:
    """`new` if a job may go there from `old` (staying is not a move); IllegalMoveError otherwise."""
    if new not in JOB_MOVES[old]:
        raise IllegalMoveError(f"a job cannot go from {old} to {new}")
    return new
