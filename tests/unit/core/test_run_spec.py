"""What a run is asked to be."""

from fencepost.core.run_spec import RunSpec
from fencepost.core.run_state import Trigger


def test_a_run_that_only_names_its_dag_is_a_manual_one_that_nobody_has_taken_up() -> None:
    spec = RunSpec("nightly-etl")

    assert spec.trigger is Trigger.MANUAL
    assert (spec.dag_uid, spec.revision, spec.cancel) == ("", "", False)
