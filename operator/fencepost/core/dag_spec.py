"""What a user asks of a DAG beside its definition: when it runs, how many runs at once, and how many are kept.

Changing any of this makes no new revision and touches no run that exists.
"""

from dataclasses import dataclass, field

from fencepost.core.concurrency import Limits
from fencepost.core.definition import Definition, Priority
from fencepost.core.history import HistoryLimits
from fencepost.core.schedule_spec import ScheduleSpec

LETTERS_LIMIT_DEFAULT = 100


@dataclass(frozen=True, slots=True)
class DagSpec:
    """A DAG's whole spec, defaults filled in. Names, edges, cron expressions and the zone are not checked yet."""

    definition: Definition
    schedule: ScheduleSpec = field(default_factory=ScheduleSpec)
    suspend: bool = False
    limits: Limits = field(default_factory=Limits)
    """Of runs that are active together."""
    ttl_s: float | None = None
    """How long it is kept after its schedule is over and its runs have ended; None: until somebody deletes it."""
    history: HistoryLimits = field(default_factory=HistoryLimits)
    letters_limit: int = LETTERS_LIMIT_DEFAULT
    """Dead letters kept; see `core.dead_letters`."""
    letters_ttl_s: float = 168 * 3600.0
    priority: Priority = Priority.NORMAL
    """The DAG's own; each task of the definition carries its priority already resolved."""
