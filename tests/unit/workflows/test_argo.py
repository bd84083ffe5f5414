"""The DAG templates among Argo's examples: what can be written as a DAG of ours, and that it then ends the same way.

| template | why not |
|---|---|
| dag-conditional-artifacts, both of skipped-output-defaults | `when` |
| dag-continue-on-fail | `depends: B.Failed && C`: a rule asks the same of every task before |
| dag-targets | `target`: a run is of the whole DAG |

Three things differ in all of them. Where Argo tells Omitted (by `depends`) from Skipped (by `when`), a job of ours is
Skipped. Argo schedules nothing more in a DAG once a task has failed, unless it says `failFast: false`; ours goes on in
the branches that are not concerned. And a run of ours is Failed if any job is, whatever came after it.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.argo import CannotTranslateError, ending_of, translated
from tests.unit.workflows.carried_out import carry_out, codes_from, differences, plan_out

SHAPES: dict[str, dict[str, Any]] = {
    f"{shape['file'].removeprefix('examples/').removesuffix('.yaml')}:{shape['template']}": shape
    for shape in json.loads((Path(__file__).parent / "data" / "argo-shapes.json").read_text())["shapes"]
}
NO_CONDITION = "when: no rule over how tasks ended says what a condition does"
CANNOT = {
    "dag-conditional-artifacts:main": NO_CONDITION,
    "skipped-output-defaults/consumer-input-default:main": NO_CONDITION,
    "skipped-output-defaults/producer-output-default:main": NO_CONDITION,
    "dag-continue-on-fail:workflow": "depends: a rule asks the same of every task before",
    "dag-targets:dag-target": "target: a run is of the whole DAG, and cannot be asked for a part of it",
}
CAN = [name for name in SHAPES if name not in CANNOT]
FAILING_SHARE = 0.3


@pytest.mark.parametrize("name", CANNOT)
def test_what_cannot_be_expressed_is_known_with_the_reason(name: str) -> None:
    with pytest.raises(CannotTranslateError) as told:
        translated(SHAPES[name])

    assert str(told.value) == CANNOT[name]


@pytest.mark.parametrize("name", CAN)
def test_a_template_is_planned_to_the_end_that_argo_tells(name: str) -> None:
    for seed in range(10):
        exit_code_of = codes_from(seed, FAILING_SHARE)

        state = plan_out(translated(SHAPES[name]), exit_code_of, seed)

        assert differences(state, ending_of(SHAPES[name], exit_code_of)) == [], f"seed {seed}"


@pytest.mark.parametrize("name", CAN)
def test_a_template_ends_as_argo_tells_through_a_lost_worker_and_a_takeover(name: str) -> None:
    exit_code_of = codes_from(3, FAILING_SHARE)

    state = carry_out(translated(SHAPES[name]), exit_code_of, seed=3)

    assert differences(state, ending_of(SHAPES[name], exit_code_of)) == []
