"""Who gets a slot: the share of a DAG, and priorities. Each pool here has one worker and all its DAGs in one shard."""

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.api import names as wire
from fencepost.api.codec import decode_run_status
from fencepost.core.run_state import Lease
from tests.e2e.support.dags import NAMESPACE, Obj, dag, name_in_shard, pool, task
from tests.e2e.support.objects import versions_of
from tests.e2e.support.stage import Stage

SHARD = 5
SLOTS = 4
CAP = 2


@pytest.fixture(scope="module")
def shared(stage: Stage) -> Iterator[str]:
    """A pool of four slots of which one DAG may hold two."""
    yield from small_pool(stage, "shared", slots=SLOTS, maxSharePerDAG="50%")


@pytest.fixture(scope="module")
def narrow(stage: Stage) -> Iterator[str]:
    """A pool of one slot."""
    yield from small_pool(stage, "narrow", slots=1)


@pytest.fixture(scope="module")
def keeping(stage: Stage) -> Iterator[str]:
    """A pool of four slots of which one is for critical jobs."""
    yield from small_pool(stage, "keeping", slots=SLOTS, maxSharePerDAG="100%", reserved={"critical": "25%"})


def small_pool(stage: Stage, name: str, slots: int, **spec: Any) -> Iterator[str]:
    stage.admin.create(pool(name, **spec))
    stage.worker(name, pool=name, slots=slots)
    stage.wait_for_slots(name, slots)
    yield name
    stage.dismiss(name)
    stage.admin.delete(wire.WORKER_POOLS, name)


def leases_over_time(stage: Stage, run: str, since: str) -> list[list[Lease]]:
    """The leases in each version of a run that was ever stored."""
    changes = stage.admin.changes(wire.DAG_RUNS, since, NAMESPACE)
    states = [decode_run_status(each["status"]) for each in versions_of(changes, run) if "status" in each]
    return [list(state.leases.values()) for state in states]


def test_no_dag_ever_holds_more_than_its_share_and_two_together_fill_the_pool(stage: Stage, shared: str) -> None:
    ledger = stage.ledger("shares")
    wide = task("wide", command=ledger.sleep(0.3), forEach={"count": 8})
    since = stage.admin.version(wire.DAG_RUNS)
    names = [name_in_shard(prefix, SHARD) for prefix in ("greedy", "hungry")]
    runs = [stage.launch(dag(name, wide, pool=shared)) for name in names]
    for run in runs:
        stage.wait_for_phase(run, "Succeeded")

    held = {run: [len(leases) for leases in leases_over_time(stage, run, since)] for run in runs}
    assert {run: max(counts) for run, counts in held.items()} == dict.fromkeys(runs, CAP)
    starts, ends = ledger.lines("start"), ledger.lines("end")
    moments = sorted([(line.at_s, 1) for line in starts] + [(line.at_s, -1) for line in ends])
    running, most = 0, 0
    for _, step in moments:
        running += step
        most = max(most, running)
    assert most == SLOTS


def test_a_run_that_waits_for_its_share_says_so_with_numbers(stage: Stage, shared: str) -> None:
    ledger = stage.ledger("waiting")
    name = name_in_shard("waiting", SHARD)
    run = stage.launch(dag(name, task("wide", command=ledger.gated(), forEach={"count": 3}), pool=shared))

    status = stage.wait_for_run(run, "message")

    assert status["reason"] == "DAGAtCap"
    assert status["message"].startswith("2 of 2 slots used")
    ledger.open()
    stage.wait_for_phase(run, "Succeeded")


def test_what_is_kept_for_critical_jobs_is_idle_until_one_comes_and_then_taken_at_once(
    stage: Stage, keeping: str
) -> None:
    ledger = stage.ledger("reserve")
    name = name_in_shard("plenty", SHARD)
    plenty = stage.launch(dag(name, task("wide", command=ledger.gated(), forEach={"count": 6}), pool=keeping))

    status = stage.wait_for_run(plenty, "message")

    assert (status["reason"], len(status["leases"])) == ("Reserved", SLOTS - 1)
    assert "1 of 4 slots of pool 'keeping' are kept for critical jobs" in status["message"]
    command = task("urgent", command=ledger.gated())
    urgent = stage.launch(dag(name_in_shard("urgent", SHARD), command, pool=keeping, priority="critical"))
    stage.wait_for_lease(urgent, "urgent/0")
    assert stage.status(plenty)["reason"] == "Reserved"
    ledger.open()
    for run in (urgent, plenty):
        stage.wait_for_phase(run, "Succeeded")


def test_the_higher_priority_gets_the_slot_that_becomes_free(stage: Stage, narrow: str) -> None:
    ledger = stage.ledger("priorities")

    def urgent(priority: str, command: list[str]) -> Obj:
        return dag(name_in_shard(priority, SHARD), task(priority, command=command), pool=narrow, priority=priority)

    first = stage.launch(dag(name_in_shard("first", SHARD), task("first", command=ledger.gated()), pool=narrow))
    stage.wait_for_lease(first, "first/0")
    waiting = [stage.launch(urgent(each, ledger.job())) for each in ("low", "normal", "high", "critical")]
    for run in waiting:
        stage.wait_for_run(run, "phase")
    ledger.open()
    for run in waiting:
        stage.wait_for_phase(run, "Succeeded")

    assert [line.task for line in ledger.lines("start")] == ["first", "critical", "high", "normal", "low"]
