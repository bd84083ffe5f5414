"""What a run is asked to be: the part of a DAGRun that the operator or a person writes once, and `cancel`."""

from dataclasses import dataclass

from fencepost.core.run_state import Trigger


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
