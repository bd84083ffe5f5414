"""What a run is asked to be: what the operator or a person writes once, and what a person may ask of it later."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fencepost.core.intervals import IntervalSet
from fencepost.core.phases import JobPhase
from fencepost.core.run_state import Trigger


class RerunFrom(StrEnum):
    """What another round runs again; `spec.rerun.from`."""

    FAILED = "Failed"
    """Every job that has not succeeded."""
    ALL = "All"
    """Every job."""
    JOBS = "Jobs"
    """The jobs that are named; none named: only what marks by hand let go on."""


@dataclass(frozen=True, slots=True)
class Rerun:
    """What a round runs again. Whatever it leaves out keeps its end and its output."""

    source: RerunFrom = RerunFrom.FAILED
    jobs: Mapping[str, IntervalSet | None] = field(default_factory=dict)
    """By task, with RerunFrom.JOBS: the indices, or None for all of them. Jobs that there are not are passed over."""
    downstream: bool = False
    """What depends on those jobs is run again too, though it may have ended well."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One entry of `spec.overrides`: a person's word on how a job ended. It holds throughout its round."""

    phase: JobPhase
    """Succeeded or Failed."""
    by: str = ""
    """Who; a policy holds it to the name under which the request was made."""
    round: int = 0


@dataclass(frozen=True, slots=True)
class RunSpec:
    """A run's spec. What a person's run leaves out, the operator fills in when it takes the run up."""

    dag: str
    trigger: Trigger = Trigger.MANUAL
    scheduled_s: int = 0
    """Unix seconds; a manual run's creation time unless it names another."""
    dag_uid: str = ""
    """Empty until the operator has taken a manual run up."""
    revision: str = ""
    """Name of the ControllerRevision it executes; empty until the operator has taken a manual run up."""
    params: tuple[tuple[str, str], ...] = ()
    """Over the DAG's own."""
    cancel: bool = False
    suspend: bool = False
    """Start nothing more for now; what runs goes on."""
    round: int = 0
    """How often a person has asked for it to be run again."""
    rerun: Rerun = Rerun()
    """What `round` runs again."""
    marks: Mapping[str, Mark] = field(default_factory=dict)
    """By `task/index`, or by task for all its jobs."""
