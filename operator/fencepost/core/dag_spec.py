"""What a user asks of a DAG beside its definition: when it runs, how many runs at once, and how many are kept.

Changing any of this makes no new revision and touches no run that exists.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from fencepost.core.definition import Definition, Priority
from fencepost.core.history import HistoryLimits
from fencepost.core.schedule_spec import ScheduleSpec

LETTERS_LIMIT_DEFAULT = 100


class Concurrency(StrEnum):
    """What happens to a slot that falls due while runs of its DAG are active."""

    ALLOW = "Allow"
    """The run is made, however many there are."""
    FORBID = "Forbid"
    """The slot is skipped when as many runs as the limit are active."""


@dataclass(frozen=True, slots=True)
class DagSpec:
    """A DAG's whole spec, defaults filled in. Names, edges, cron expressions and the zone are not checked yet."""

    definition: Definition
    schedule: ScheduleSpec = field(default_factory=ScheduleSpec)
    suspend: bool = False
    concurrency_policy: Concurrency = Concurrency.FORBID
    concurrency_limit: int | None = 1
    """Active runs at once; None with Allow, which has no limit."""
    history: HistoryLimits = field(default_factory=HistoryLimits)
    letters_limit: int = LETTERS_LIMIT_DEFAULT
    """Dead letters kept; see `core.dead_letters`."""
    letters_ttl_s: float = 168 * 3600.0
    priority: Priority = Priority.NORMAL
    """The DAG's own; each task of the definition carries its priority already resolved."""
