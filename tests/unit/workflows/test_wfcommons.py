"""Real workflow graphs, with retries, rules and failures from a seed, end as the reference says.

The instances are those of `tests/e2e/data/wfcommons`; their edges are kept, everything else is drawn. All of them are
carried out by the planner alone, the smaller ones by whole schedulers and workers as well.
"""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.unit.workflows.carried_out import carry_out, codes_from, differences, plan_out
from tests.unit.workflows.reference import ending_of

FOLDER = Path(__file__).parents[2] / "e2e" / "data" / "wfcommons"
INSTANCES = sorted(path.stem for path in FOLDER.glob("*.json"))
SMALLER = [name for name in INSTANCES if not name.startswith(("airrflow", "bwa"))]
RULES = ("AllSucceeded", "AllSucceeded", "AllSucceeded", "NoneFailed", "AnySucceeded", "AllDone", "AnyFailed")
RULES_WITHOUT_PARENTS = ("AllSucceeded", "NoneFailed", "AllDone")
THRESHOLDS = (0, 1, 2, "50%", "67%", "100%")
FAILING_SHARE = 0.15


def a_dag_of(instance: str, chance: Random) -> dict[str, Any]:
    """The spec of a DAG with the instance's edges."""
    parents_of = [parents for _, parents, _ in json.loads((FOLDER / f"{instance}.json").read_text())["tasks"]]
    tasks = [a_task(place, parents, chance) for place, parents in enumerate(parents_of)]
    return {"tasks": tasks, "retries": {"limit": chance.randint(0, 2), "backoff": {"base": "1s"}, "failOn": [2]}}


def a_task(place: int, parents: list[int], chance: Random) -> dict[str, Any]:
    task: dict[str, Any] = {"name": f"t{place}", "command": ["true"], "dependsOn": [f"t{each}" for each in parents]}
    if chance.random() < 0.3:
        task["rule"] = chance.choice(RULES if parents else RULES_WITHOUT_PARENTS)
    if chance.random() < 0.2:
        count = chance.randint(2, 5)
        task["forEach"] = {"count": count, "failFast": chance.random() < 0.5}
        if chance.random() < 0.7:
            task["forEach"]["successThreshold"] = chance.choice(THRESHOLDS)
        task["maxParallel"] = chance.randint(1, count)
    if chance.random() < 0.2:
        task["retries"] = {"limit": 3, "retryOn": [1]}
    return task


@pytest.mark.parametrize("instance", INSTANCES)
def test_a_workflow_is_planned_to_the_end_that_the_reference_tells(instance: str) -> None:
    for seed in range(3 if instance in SMALLER else 1):
        spec = a_dag_of(instance, Random(f"{instance} {seed}"))
        exit_code_of = codes_from(seed, FAILING_SHARE)

        state = plan_out(spec, exit_code_of, seed)

        assert differences(state, ending_of(spec, exit_code_of)) == [], f"seed {seed}"


@pytest.mark.parametrize("instance", SMALLER)
def test_a_workflow_ends_as_the_reference_says_through_a_lost_worker_and_a_takeover(instance: str) -> None:
    spec = a_dag_of(instance, Random(instance))
    exit_code_of = codes_from(7, FAILING_SHARE)

    state = carry_out(spec, exit_code_of, seed=7)

    assert differences(state, ending_of(spec, exit_code_of)) == []
