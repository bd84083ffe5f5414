"""The DAG templates among Argo's examples: what can be written as a DAG of ours, and that it then ends the same way.

| in a template | here |
|---|---|
| `dependencies`, `depends: A && B` | `dependsOn` |
| `depends` with results or `or` | `rule: AllDone`, and the expression as `when` over `tasks.NAME.status` |
| `when` over a result, or a constant | `when` over `tasks.NAME.output`, or the constant |
| `withSequence`, `withParam` | `forEach.count`, `forEach.from` |
| `target` (dag-targets) | cannot be expressed: a run is of the whole DAG |
| `Skipped`, or a bare name, of a task with `depends` and `when` | cannot be expressed, as below; not used here |
| `Errored`, `Omitted`, `Daemoned`, results of fan-outs | cannot be expressed; not used here |

Three things differ in all of them. Where Argo tells Omitted (by `depends`) from Skipped (by `when`), a job of ours is
Skipped, and none can be asked why. Argo schedules nothing more in a DAG once a task has failed, unless it says
`failFast: false`; ours goes on in the branches that are not concerned. And a run of ours is Failed if any job is,
whatever came after it.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.argo import CannotTranslateError, ending_of, output_of, translated
from tests.unit.workflows.carried_out import carry_out, codes_from, differences, plan_out

SHAPES: dict[str, dict[str, Any]] = {
    f"{shape['file'].removeprefix('examples/').removesuffix('.yaml')}:{shape['template']}": shape
    for shape in json.loads((Path(__file__).parent / "data" / "argo-shapes.json").read_text())["shapes"]
}
CANNOT = ("dag-targets:dag-target",)
CAN = [name for name in SHAPES if name not in CANNOT]
FAILING_SHARE = 0.3


@pytest.mark.parametrize(
    ("tasks", "why"),
    [
        (SHAPES[CANNOT[0]], "target: a run is of the whole DAG, and cannot be asked for a part of it"),
        (
            {"tasks": [{"name": "a"}, {"name": "b", "depends": "a", "when": "false"}, {"name": "c", "depends": "b"}]},
            "depends: Skipped and Omitted are one for a task of ours",
        ),
        (
            {"tasks": [{"name": "a"}, {"name": "b", "depends": "a.Daemoned"}]},
            "depends: a task of ours is never Daemoned",
        ),
    ],
    ids=["target", "omitted or skipped", "another result"],
)
def test_what_cannot_be_expressed_is_known_with_the_reason(tasks: dict[str, Any], why: str) -> None:
    with pytest.raises(CannotTranslateError) as told:
        translated(tasks)

    assert str(told.value) == why


@pytest.mark.parametrize("name", CAN)
def test_a_template_is_planned_to_the_end_that_argo_tells(name: str) -> None:
    for seed in range(10):
        exit_code_of, output = codes_from(seed, FAILING_SHARE), output_of(seed)

        state = plan_out(translated(SHAPES[name]), exit_code_of, seed, output)

        assert differences(state, ending_of(SHAPES[name], exit_code_of, output)) == [], f"seed {seed}"


@pytest.mark.parametrize("name", CAN)
def test_a_template_ends_as_argo_tells_through_a_lost_worker_and_a_takeover(name: str) -> None:
    exit_code_of, output = codes_from(3, FAILING_SHARE), output_of(3)

    state = carry_out(translated(SHAPES[name]), exit_code_of, 3, output)

    assert differences(state, ending_of(SHAPES[name], exit_code_of, output)) == []
