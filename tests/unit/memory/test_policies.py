"""Laws that no server shows alone, as another refuses the same write before; `fencepost check` tells them all."""

from typing import Any

import pytest

from fencepost.api.names import DAG_RUNS
from fencepost.memory.identity import OPERATOR, USER, Identity
from fencepost.memory.policies import triggers_are_the_operators
from fencepost.memory.records import ObjectKey
from fencepost.memory.writes import Write, write_of
from tests.e2e.contract.objects import run


def created(identity: Identity, **spec: Any) -> Write:
    obj = run("analytics", "etl-1", **spec)
    return write_of(identity, "create", DAG_RUNS, ObjectKey("analytics", "etl-1"), None, obj, lambda _shard: None)


@pytest.mark.parametrize("trigger", ["Schedule", "Backfill"])
def test_only_the_operator_makes_runs_with_a_trigger(trigger: str) -> None:
    assert triggers_are_the_operators(created(USER, trigger=trigger))
    assert triggers_are_the_operators(created(OPERATOR, trigger=trigger)) is None
    assert triggers_are_the_operators(created(USER, trigger="Manual")) is None
