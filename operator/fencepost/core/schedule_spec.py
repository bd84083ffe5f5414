"""What a user asks of a schedule, as read and not checked yet: expressions and the zone are still texts."""

from dataclasses import dataclass
from enum import StrEnum

from fencepost.core.cron import Gap, Overlap

CRONS_MAX = 32
"""Cron expressions of one DAG."""
ATS_MAX = 100
"""Single times of one DAG."""
SPREAD_MAX_S = 86_400
CATCH_UP_MAX = 100
"""Runs that catch-up may make for one DAG at once."""


class CatchUp(StrEnum):
    """What becomes of slots that have passed while nobody could make their runs, or while the DAG was suspended."""

    NONE = "None"
    """What is no later than the starting deadline is run; the rest is missed."""
    LATEST = "Latest"
    """The latest one that is due is run; those before it are missed."""
    ALL = "All"
    """The latest ones, as many as the limit says, are run, oldest first; those before them are missed."""


@dataclass(frozen=True, slots=True)
class ScheduleSpec:
    """The part `schedule` of a DAG's spec, defaults filled in. Moments are whole Unix seconds."""

    crons: tuple[str, ...] = ()
    """As written, one or several; none and no `at`: runs are made by hand only."""
    at: tuple[int, ...] = ()
    """Single times."""
    time_zone: str = "UTC"
    """An IANA name, as written."""
    gap: Gap = Gap.RUN_AFTER
    overlap: Overlap = Overlap.FIRST
    offset_s: int = 0
    """By which `spread` moves every slot of this DAG, whole seconds."""
    not_before_s: int | None = None
    """The first moment that may be a slot."""
    not_after_s: int | None = None
    """The last moment that may be a slot."""
    starting_deadline_s: float | None = None
    """A slot later than this is missed; None: as late as the policy of catch-up allows."""
    catch_up: CatchUp = CatchUp.NONE
    catch_up_limit: int = 10
    """With All."""
