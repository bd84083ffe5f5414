"""What a revision keeps of a DAG, and by which name."""

from typing import Any

import orjson
import pytest

from fencepost.api.read import read_dag
from fencepost.api.revisions import definition_data, definition_hash, read_definition
from fencepost.core.dag_spec import DagSpec
from fencepost.core.definition import Definition

SPEC: dict[str, Any] = {
    "schedule": {"cron": ["0 3 * * *"]},
    "suspend": False,
    "concurrency": {"policy": "Forbid"},
    "history": {"succeeded": 3},
    "pool": "default",
    "priority": "high",
    "timeout": "2h",
    "params": {"region": "eu"},
    "retries": {"limit": 3},
    "terminationGracePeriod": "5s",
    "tasks": [{"name": "extract", "command": ["true"]}],
}


def hash_with(**changes: Any) -> str:
    return definition_hash(definition_data(SPEC | changes))


@pytest.mark.parametrize(
    "change",
    [
        {"schedule": {"cron": ["0 4 * * *"]}},
        {"suspend": True},
        {"concurrency": {"policy": "Allow"}},
        {"history": {"succeeded": 0}},
    ],
)
def test_what_only_decides_when_a_run_is_made_makes_no_revision(change: dict[str, Any]) -> None:
    assert hash_with(**change) == hash_with()


@pytest.mark.parametrize(
    "change",
    [
        {"pool": "batch"},
        {"priority": "low"},
        {"timeout": "1h"},
        {"params": {}},
        {"retries": {"limit": 2}},
        {"terminationGracePeriod": "6s"},
        {"tasks": [{"name": "extract", "command": ["false"]}]},
    ],
)
def test_what_changes_how_a_run_goes_makes_a_revision(change: dict[str, Any]) -> None:
    assert hash_with(**change) != hash_with()


def test_the_order_of_keys_does_not_matter_and_that_of_tasks_does() -> None:
    first, second = {"name": "a", "command": ["x"]}, {"command": ["x"], "name": "b"}

    assert hash_with(tasks=[first, second]) == hash_with(tasks=[dict(reversed(first.items())), second])
    assert hash_with(tasks=[first, second]) != hash_with(tasks=[second, first])


def test_a_revision_that_was_stored_and_read_has_its_hash_and_the_definition_of_its_dag() -> None:
    data = orjson.loads(orjson.dumps(definition_data(SPEC)))
    dag = read_dag({"metadata": {"name": "etl"}, "spec": SPEC})

    assert definition_hash(data) == hash_with()
    assert isinstance(dag, DagSpec)
    assert read_definition(data) == dag.definition


@pytest.mark.parametrize(
    "data", [None, [], {}, {"tasks": []}, {"tasks": [{"name": "a", "command": ["x"], "executor": "Pods"}]}]
)
def test_a_revision_that_was_garbled_is_a_problem(data: Any) -> None:
    assert not isinstance(read_definition(data), Definition)


def test_the_name_of_a_revision_does_not_change_from_version_to_version() -> None:
    assert definition_hash({"tasks": [{"name": "a", "command": ["true"]}]}) == "xdb66x5m3k"
