"""Laws that no server shows alone, as another refuses the same write before; `fencepost check` tells them all."""

from typing import Any

from fencepost.api.names import DAG_RUNS
from fencepost.memory.identity import OPERATOR, USER, Identity, worker_identity
from fencepost.memory.policies import triggers_are_the_operators
from fencepost.memory.records import ObjectKey
from fencepost.memory.writes import Write, write_of
from tests.e2e.contract.objects import run

WORKER = worker_identity("w1")


def created(identity: Identity, **spec: Any) -> Write:
    obj = run("analytics", "etl-1", **spec)
    return write_of(identity, "create", DAG_RUNS, ObjectKey("analytics", "etl-1"), None, obj, lambda _shard: None)


def test_who_makes_runs_with_which_trigger() -> None:
    makers = {
        trigger: [
            who for who in (OPERATOR, USER, WORKER) if not triggers_are_the_operators(created(who, trigger=trigger))
        ]
        for trigger in ("Schedule", "Manual", "Backfill")
    }
    assert makers == {"Schedule": [OPERATOR], "Manual": [OPERATOR, USER, WORKER], "Backfill": [OPERATOR, USER]}
