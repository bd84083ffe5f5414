"""What a run's object records, as values: the single source of truth for each of its jobs.

Nothing here says "ready" or "waiting": that follows from the graph. What is recorded is what cannot be derived: which
jobs have ended and how, which are leased to whom under which token, and which wait for another attempt.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from fencepost.core.intervals import EMPTY, IntervalSet
from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase, RunPhase


class Trigger(StrEnum):
    """Why a run exists; `DAGRun.spec.trigger`."""

    SCHEDULE = "Schedule"
    """The operator made it for a scheduled time."""
    MANUAL = "Manual"
    """A person made it."""
    BACKFILL = "Backfill"
    """A person made it for a scheduled time in the past; it stands under the slot's own name."""


@dataclass(frozen=True, slots=True)
class Lease:
    """One job given to one worker; written in the run before the worker hears of it."""

    token: int
    """The run's lease counter at the commit: higher than every token given out in this run before that commit."""
    worker: str
    attempt: int
    """1 for the first; counts starts that were the job's own, not losses of a worker."""
    losses: int
    """How often a worker was lost under this job so far."""
    leased_at_s: float
    """Unix seconds, by the clock of the leader that leased it; for people, never compared with another clock."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that has been leased before and is to be leased again."""

    attempt: int
    """The number that its next attempt will carry."""
    losses: int
    not_before_s: float
    """Unix seconds; the end of its back-off."""


@dataclass(frozen=True, slots=True)
class TaskState:
    """How the jobs of one task ended."""

    ended: Mapping[JobPhase, IntervalSet] = field(default_factory=dict)
    first_start_s: float | None = None
    """Unix seconds, by the workers' clocks, of the first attempt that a result tells of."""
    last_end_s: float | None = None
    queued_s: float | None = None
    """Unix seconds, by a leader's clock: since when its jobs that have never been leased wait for a slot. Kept only
    where a `queueTimeout` counts from it."""
    size: int | None = None
    """How many jobs it has, once an output has decided; None where the definition says so."""

    @property
    def ended_count(self) -> int:
        """How many of its jobs have ended, however."""
        return sum(map(len, self.ended.values()))

    def count(self, phase: JobPhase) -> int:
        """How many of its jobs ended in this phase."""
        return len(self.ended.get(phase, EMPTY))

    def phase_of(self, index: int) -> JobPhase | None:
        """The phase in which this job ended; None while it has not."""
        for phase, indices in self.ended.items():
            if index in indices:
                return phase
        return None


@dataclass(frozen=True, slots=True)
class Death:
    """How a job failed for good: what its dead letter is to tell, as far as a run keeps it."""

    round: int
    """Of the run, in which it did."""
    attempt: int
    """How many attempts it has had; 0 if it was never started."""
    losses: int
    outcome: str
    """Of the last attempt, as its worker put it; WorkerLost or NotStarted where none did."""
    exit_code: int | None = None
    started_at_s: float | None = None
    """Unix seconds, by the worker's clock."""
    ended_at_s: float | None = None


class LetterSet(NamedTuple):
    """Dead letters of one run: those of jobs of one task that died in one round."""

    task: str
    round: int


@dataclass(frozen=True, slots=True)
class RunState:
    """A run's status. Immutable; a plan makes a new one and the executor writes it whole."""

    phase: RunPhase = RunPhase.PENDING
    epoch: int = 0
    """Of the shard, at the last write; never decreases."""
    lease_counter: int = 0
    """Raised by one at each commit that leases something; never decreases."""
    round: int = 0
    start_s: float | None = None
    """Unix seconds; when the operator took the run up."""
    finish_s: float | None = None
    suspended_s: float | None = None
    """Since when nothing more is started at a person's wish; None: it is."""
    leases: Mapping[JobKey, Lease] = field(default_factory=dict)
    waiting: Mapping[JobKey, Waiting] = field(default_factory=dict)
    tasks: Mapping[str, TaskState] = field(default_factory=dict)
    failures: Mapping[JobKey, str] = field(default_factory=dict)
    """The first few jobs that failed for good, with the last attempt's exit code and the end of its output."""
    outputs: Mapping[JobKey, str] = field(default_factory=dict)
    """What jobs have put out, of those that somebody refers to."""
    dying: Mapping[JobKey, Death] = field(default_factory=dict)
    """Failed jobs whose dead letter may not be written yet; the run does not finish before it is."""
    replays: Mapping[LetterSet, IntervalSet] = field(default_factory=dict)
    """Indices of jobs that this round runs again for the sake of their dead letters, which may not tell of it yet."""
    done: int = 0
    """Jobs that have ended."""
    total: int = 0
    """Jobs, as many as are known by now."""
    reason: str = ""
    """Why it is not further, or how it ended: PascalCase code."""
    message: str = ""
    """The same as a sentence that names the object, the fact and the remedy."""


class Outcome(StrEnum):
    """What a worker says of an attempt; the second word of a result."""

    SUCCEEDED = "Succeeded"
    """Exit code 0."""
    FAILED = "Failed"
    """Another exit code, or a signal that nobody here sent; counts as an attempt."""
    TIMED_OUT = "TimedOut"
    """The worker stopped it at its time limit; counts as an attempt."""
    STOPPED = "Stopped"
    """The worker ended it because its entry says so, or because it had started this token before and knows no more."""
    HANDED_BACK = "HandedBack"
    """The worker never started it (it is draining); does not count as an attempt."""
    INVALID = "Invalid"
    """It cannot be started anywhere, as when the definition does not match its hash; no retry helps."""
    MISSING = "Missing"
    """It was not started, as its definition is gone: handed back if that can be stored again, else as Invalid."""


@dataclass(frozen=True, slots=True)
class Result:
    """A worker's word on one lease."""

    token: int
    outcome: Outcome
    exit_code: int | None
    """None where no process ended by itself; minus the signal's number where one ended it."""
    started_at_s: float | None
    """Unix seconds by the worker's clock; None if it never started."""
    ended_at_s: float | None
    message: str = ""
    """The end of the job's output, or why it could not start; at most 1 KiB."""
    output: str = ""
    """The content of FENCEPOST_OUTPUT, within the limits of `core.outputs`."""


class Order(StrEnum):
    """What an entry in a mailbox asks of the worker; the second word of an entry."""

    RUN = "Run"
    STOP = "Stop"


@dataclass(frozen=True, slots=True)
class Entry:
    """One lease as a worker reads it in its mailbox."""

    token: int
    order: Order
    attempt: int
    timeout_s: float | None
    """A duration, never a deadline: the worker's clock may differ."""
    grace_s: float
    revision: str
    """Name of the ControllerRevision in the run's namespace; ends in the content's hash."""
    run_uid: str
    scheduled_s: int
    """Unix seconds."""
    params: Mapping[str, str] | None = None
    """The run's params over the DAG's; None: read them and the inputs from the run, as they are too large for a
    mailbox."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """What else the job needs of its run, by reference (see `core.inputs`)."""
    round: int = 0
    """Of the run when the lease was given: what is read from a run does not change within a round."""
