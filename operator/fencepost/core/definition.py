"""What a run executes: the part of a DAG's spec that a ControllerRevision keeps.

A run names its revision, so an edit of the DAG never changes a run in flight. Suspending a DAG or moving its schedule
is no part of the definition and makes no new revision.
"""

from dataclasses import dataclass
from enum import IntEnum

from fencepost.core.rules import Rule

COMMAND_BYTES_MAX = 8 * 1024
"""Of one job: command, args and env together, before substitution."""
FAN_OUT_MAX = 10_000
ITEMS_BYTES_MAX = 64 * 1024
"""Of all items of a task together."""
TASKS_MAX = 5_000
RUN_BYTES_MAX = 384 * 1024
"""Of a run's object: what five thousand tasks need; an API server stores four times as much."""
LOSS_LIMIT_DEFAULT = 5
"""How many workers a job may lose before it is given up; counted apart from its own failures."""


class Priority(IntEnum):
    """Order of leasing within a pool, highest first; written in lower case in a spec."""

    CRITICAL = 3
    """May take reserved slots; ageing never promotes into it."""
    HIGH = 2
    NORMAL = 1
    LOW = 0

    @staticmethod
    def parse(text: str) -> "Priority":
        """`critical`, `high`, `normal` or `low`; KeyError for anything else."""
        return Priority[text.upper()]

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a failed job is started again, and after how long."""

    limit: int = 0
    """Retries after the first attempt."""
    base_s: float = 10.0
    factor: float = 2.0
    cap_s: float = 600.0
    jitter: float = 0.1
    """Share of the delay, 0 to 1, by which it is moved up or down, hashed from the execution id and the attempt."""
    retry_on: tuple[int, ...] = ()
    """If not empty, only an attempt that failed with one of these exit codes is followed by another."""
    fail_on: tuple[int, ...] = ()
    """An attempt that failed with one of these exit codes is the last."""
    loss_limit: int = LOSS_LIMIT_DEFAULT


@dataclass(frozen=True, slots=True)
class SuccessThreshold:
    """How many jobs of a fan-out must succeed: a number of them, or a share of all."""

    number: int
    is_percent: bool = False


@dataclass(frozen=True, slots=True)
class EnvSource:
    """Where the value of an environment variable comes from, in the namespace of the DAG."""

    name: str
    """Of the variable."""
    secret: bool
    """A Secret's; else a ConfigMap's."""
    object: str
    key: str
    optional: bool = False
    """The variable is left out where the object or the key is not there; else the attempt fails."""


@dataclass(frozen=True, slots=True)
class Task:
    """One node of the graph."""

    name: str
    command: tuple[str, ...]
    depends_on: tuple[str, ...] = ()
    rule: Rule = Rule.ALL_SUCCEEDED
    """What must be true of the tasks it depends on."""
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    """Names and values; an empty value where it comes from elsewhere."""
    env_from: tuple[EnvSource, ...] = ()
    count: int | None = None
    """Jobs in its fan-out, where the definition says how many."""
    items: tuple[str, ...] | None = None
    """One for each job of its fan-out."""
    items_from: str | None = None
    """The task whose output is the list of items."""
    when: str | None = None
    """A CEL expression; the task is skipped where it is false."""
    success_threshold: SuccessThreshold | None = None
    """When a fan-out has succeeded; None: when all of its jobs have."""
    fail_fast: bool = False
    """What is left of a fan-out is cancelled as soon as it can no longer succeed."""
    max_parallel: int | None = None
    timeout_s: float | None = None
    """Of one attempt."""
    queue_timeout_s: float | None = None
    """How long a job that could start waits for a slot before it fails."""
    retries: RetryPolicy = RetryPolicy()
    priority: Priority = Priority.NORMAL

    @property
    def is_fan_out(self) -> bool:
        """Whether its jobs are numbered, however many there are."""
        return self.count is not None or self.items is not None or self.items_from is not None

    @property
    def size(self) -> int:
        """How many jobs it has, as far as the definition says: one where an output decides."""
        if self.items is not None:
            return len(self.items)
        return 1 if self.count is None else self.count


@dataclass(frozen=True, slots=True)
class Definition:
    """All that a run needs to know of its DAG."""

    tasks: tuple[Task, ...]
    pool: str = "default"
    timeout_s: float | None = None
    """Of a run, from its start."""
    grace_s: float = 30.0
    """Between SIGTERM and SIGKILL of a job that is stopped or out of time."""
    params: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        """How many jobs a run of it has, those not counted that an output decides on."""
        return sum(task.size for task in self.tasks)
