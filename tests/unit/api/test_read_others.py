"""Runs, workers and pools as JSON to values of the core, whatever stands in them."""

from typing import Any

import pytest

from fencepost.api.read import check_run, read_pool, read_run_spec, read_worker
from fencepost.core.placement import PoolSpec
from fencepost.core.run_spec import RunSpec
from fencepost.core.run_state import Trigger
from fencepost.core.worker_record import WorkerRecord

CREATED = "2026-11-30T13:00:00Z"
CREATED_S = 1_796_043_600


def a_run(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "etl-x7k2p", "creationTimestamp": CREATED}, "spec": {"dag": "etl", **spec}}


def a_worker(status: Any = None, **spec: Any) -> dict[str, Any]:
    return {"spec": {"pool": "default", "slots": 4, **spec}, **({} if status is None else {"status": status})}


def test_a_run_by_hand_has_the_time_of_its_creation() -> None:
    assert read_run_spec(a_run()) == RunSpec("etl", scheduled_s=CREATED_S)


def test_a_scheduled_run_is_read_whole() -> None:
    run = a_run(
        trigger="Schedule",
        scheduledTime="2026-11-30T03:00:00Z",
        dagUID="uid",
        revision="etl-x",
        params={"region": "us"},
        cancel=True,
    )

    assert read_run_spec(run) == RunSpec(
        "etl", Trigger.SCHEDULE, CREATED_S - 36_000, "uid", "etl-x", (("region", "us"),), cancel=True
    )


@pytest.mark.parametrize(
    "spec",
    [
        {"dag": 3},
        {"trigger": "Whim"},
        {"scheduledTime": "noon"},
        {"params": ["a"]},
        {"params": {"a": 1}},
        {"cancel": 1},
    ],
)
def test_a_garbled_run_is_a_problem(spec: dict[str, Any]) -> None:
    problems = read_run_spec(a_run(**spec))

    assert isinstance(problems, list)
    assert problems[0].reason == "Garbled"


def test_a_run_by_hand_is_checked_before_it_is_sent() -> None:
    assert check_run(a_run(params={"region": "us"}, suspend=True)) == []
    assert [problem.path for problem in check_run(a_run(round=-1, overrides={"a": {}}))] == [
        "spec.round",
        "spec.overrides.a.phase",
        "spec.overrides.a.by",
    ]


def test_a_worker_that_has_just_registered_is_empty() -> None:
    assert read_worker(a_worker()) == WorkerRecord("default", 4)


def test_a_workers_strings_are_not_decoded_so_one_that_is_garbled_spoils_no_other() -> None:
    worker = a_worker(
        {"results": {"key": "7 Succeeded 0 - -"}, "draining": True, "left": True, "seen": "123"},
        leases={"key": "7 Run", "odd": "garbled"},
        fenced=True,
        renewalIntervalSeconds=30,
        critical=["key"],
        reservedSlots=0,
    )

    assert read_worker(worker) == WorkerRecord(
        "default",
        4,
        True,
        {"key": "7 Run", "odd": "garbled"},
        {"key": "7 Succeeded 0 - -"},
        True,
        True,
        "123",
        30,
        frozenset({"key"}),
        0,
    )


@pytest.mark.parametrize(
    "spec",
    [
        {"slots": 0},
        {"slots": 33},
        {"slots": "4"},
        {"pool": None},
        {"leases": {"k": 7}},
        {"fenced": 1},
        {"critical": "key"},
        {"critical": [{}]},
        {"reservedSlots": "1"},
    ],
)
def test_a_garbled_worker_is_a_problem(spec: dict[str, Any]) -> None:
    problems = read_worker(a_worker(**spec))

    assert isinstance(problems, list)
    assert problems[0].reason == "Garbled"


def test_the_smallest_pool_is_a_name() -> None:
    assert read_pool({"metadata": {"name": "default"}}) == PoolSpec("default")


def test_a_pool_is_read_whole() -> None:
    spec = {
        "maxSharePerDAG": "5%",
        "ageing": {"period": "1m"},
        "namespaces": {"allow": ["analytics", "ml"]},
        "reserved": {"critical": "10%"},
    }

    assert read_pool({"metadata": {"name": "batch"}, "spec": spec}) == PoolSpec(
        "batch", 0.05, 60.0, ("analytics", "ml"), reserved_percent=10
    )


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"maxSharePerDAG": "0%"}, "spec.maxSharePerDAG"),
        ({"maxSharePerDAG": "101%"}, "spec.maxSharePerDAG"),
        ({"executor": "Pods"}, "spec.executor"),
        ({"reserved": {"critical": "0%"}}, "spec.reserved.critical"),
        ({"reserved": {}}, "spec.reserved.critical"),
        ({"reserved": {"critical": "10%", "high": "10%"}}, "spec.reserved.high"),
        ({"namespaces": {"allow": []}}, "spec.namespaces.allow"),
    ],
)
def test_a_mistake_in_a_pool_is_told_with_its_place(spec: dict[str, Any], path: str) -> None:
    problems = read_pool({"metadata": {"name": "batch"}, "spec": spec})

    assert isinstance(problems, list)
    assert [problem.path for problem in problems] == [path]
