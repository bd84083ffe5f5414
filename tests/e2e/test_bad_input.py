"""Bad input: refused at apply where the schema sees it, told by a condition where it does not, and never in the way."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from fencepost.api import names as wire
from fencepost.api.names import SYSTEM_NAMESPACE_DEFAULT
from tests.e2e.support.dags import NAMESPACE, Obj, dag, every_minute, name_in_shard, task
from tests.e2e.support.ledger import processes_of
from tests.e2e.support.objects import meta_name
from tests.e2e.support.stage import Stage

SHARD = 11
HOLD = "test.fencepost.dev/hold"


@dataclass(frozen=True)
class Bad:
    """A spec that no schema refuses, and what its DAG's condition says of it."""

    spec: dict[str, Any]
    reason: str
    message: str


WIDE = [task(f"a-task-with-a-rather-long-name-{number:04}", forEach={"count": 10_000}) for number in range(12)]
BAD = {
    "cycle": Bad(
        {"tasks": [task("a", "c"), task("b", "a"), task("c", "b")]},
        "Cycle",
        "spec.tasks: the tasks depend on each other: a -> b -> c -> a; remove one edge",
    ),
    "short-cycle": Bad(
        {"tasks": [task("a", "b"), task("b", "a")]},
        "Cycle",
        "spec.tasks: the tasks depend on each other: a -> b -> a; remove one edge",
    ),
    "orphan": Bad(
        {"tasks": [task("load", "extrat"), task("extract")]},
        "UnknownParent",
        "spec.tasks[0].dependsOn[0]: task 'load' depends on 'extrat', which is no task of this DAG; "
        "correct the name or add the task",
    ),
    "doubled": Bad(
        {"tasks": [task("a"), task("a")]},
        "DuplicateTask",
        "spec.tasks[1].name: an earlier task is called 'a' too; rename one",
    ),
    "bad-cron": Bad({"schedule": {"cron": ["0 3 * * *", "61 * * * *"]}}, "InvalidCron", "spec.schedule.cron[1]: "),
    "bad-zone": Bad(
        {"schedule": {"cron": ["0 3 * * *"], "timeZone": "Europe/Berln"}},
        "InvalidTimeZone",
        "spec.schedule.timeZone: 'Europe/Berln' is no time zone; use an IANA name: Europe/Berlin",
    ),
    "no-pool": Bad(
        {"pool": "nowhere"},
        "PoolNotUsable",
        "spec.pool: there is no WorkerPool 'nowhere'; create it or name another in spec.pool",
    ),
    "oversize": Bad({"tasks": WIDE}, "RunTooLarge", "spec.tasks: a run of these 120000 jobs could grow to "),
    "both-codes": Bad(
        {"tasks": [task("a", retries={"retryOn": [75]})], "retries": {"failOn": [2, 75]}},
        "InvalidValue",
        "spec.tasks[0].retries: exit code 75 of task 'a' is in retryOn and in failOn, its own or the DAG's; "
        "remove it from one of them",
    ),
    "never-enough": Bad(
        {"tasks": [task("a", forEach={"count": 4, "successThreshold": 5})]},
        "InvalidValue",
        "spec.tasks[0].forEach.successThreshold: 5 of the 4 jobs of task 'a' can never succeed; "
        "write 4 or less, or a percentage",
    ),
    "no-param": Bad(
        {"tasks": [task("only", command=["echo", "$(params.regoin)"])], "params": {"region": "eu"}},
        "UnknownReference",
        "spec.tasks[0].command[1]: $(params.regoin) names no param of this DAG (it has: region); ",
    ),
}


@pytest.fixture(scope="module")
def bad_dags(stage: Stage) -> dict[str, str]:
    """All of them are there, each with a schedule where it has none that is bad, and with a run that somebody wants."""
    for name, bad in BAD.items():
        spec = {"schedule": every_minute(), **bad.spec}
        stage.apply(dag(f"bad-{name}", *spec.pop("tasks", ()), **spec))
        stage.start(f"bad-{name}")
    return {name: f"bad-{name}" for name in BAD}


@pytest.mark.parametrize("kind", BAD)
def test_a_dag_that_cannot_run_says_where_why_and_what_to_do(stage: Stage, bad_dags: dict[str, str], kind: str) -> None:
    name, bad = bad_dags[kind], BAD[kind]
    status = stage.wait_for_dag(name, "conditions")

    [ready] = status["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "False", bad.reason)
    assert ready["message"].startswith(bad.message)
    assert status["state"] == "Invalid"
    assert "nextScheduledTime" not in status
    run = stage.wait_for_run(f"{name}-by-hand", "reason")
    assert (run["phase"], run["leaseCounter"]) == ("Pending", 0)
    assert run["reason"] in ("DAGNotValid", "PoolNotUsable")
    assert [meta_name(each) for each in stage.runs_of(name)] == [f"{name}-by-hand"]


def test_a_dag_that_is_put_right_runs_what_has_been_waiting(stage: Stage, bad_dags: dict[str, str]) -> None:
    name = bad_dags["cycle"]
    stage.wait_for_run(f"{name}-by-hand", "reason")

    stage.kubectl("apply", "--filename=-", stdin=json.dumps(dag(name, task("a"), task("b", "a"), task("c", "b"))))

    stage.wait_for_phase(f"{name}-by-hand", "Succeeded")
    status = stage.wait_for_dag(name, "state", "Ready")
    assert [(each["status"], each["reason"]) for each in status["conditions"]] == [("True", "Valid")]


REFUSED = {
    "a name that is too long": (dag("n" * 53), "metadata.name"),
    "a task after itself": (dag("refused", task("a", "a")), "a task cannot depend on itself; remove its own name"),
    "a rule over nothing": (dag("refused", task("a", rule="AnyFailed")), "this rule can never be met"),
    "no task": (dag("refused") | {"spec": {"tasks": []}}, "spec.tasks"),
    "no program": (dag("refused", task("a", command=[""])), "the first word of command is the program"),
    "a duration of no unit": (dag("refused", timeout="90"), "spec.timeout"),
    "a variable of ours": (
        dag("refused", task("a", env=[{"name": "FENCEPOST_TOKEN", "value": "7"}])),
        "names that begin with FENCEPOST_ are set by the worker; rename it",
    ),
    "a fan-out that is too wide": (dag("refused", task("a", forEach={"count": 10_001})), "spec.tasks[0].forEach.count"),
    "a share above all": (
        dag("refused", task("a", forEach={"count": 5, "successThreshold": "101%"})),
        "spec.tasks[0].forEach.successThreshold",
    ),
    "fewer successes than none": (
        dag("refused", task("a", forEach={"count": 5, "successThreshold": -1})),
        "spec.tasks[0].forEach.successThreshold",
    ),
    "an exit code that is success": (dag("refused", retries={"retryOn": [0]}), "spec.retries.retryOn[0]"),
    "no time in the queue": (dag("refused", task("a", queueTimeout="0s")), "must be longer than 0s"),
    "a limit without a policy for it": (
        dag("refused", concurrency={"policy": "Allow", "limit": 2}),
        "policy Allow has no limit",
    ),
    "what comes later": (dag("refused", task("a", executor="Pods")), "not supported yet"),
    "a field that does not exist": (dag("refused", task("a", retry=1)), 'unknown field "spec.tasks[0].retry"'),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_schema_sees_is_refused_at_apply(stage: Stage, what: str) -> None:
    obj, want_words = REFUSED[what]

    said = stage.refusal("apply", "--filename=-", stdin=json.dumps(obj))

    assert want_words in said
    assert stage.user.find(wire.DAGS, meta_name(obj), NAMESPACE) is None


def runs_well(stage: Stage, name: str) -> None:
    """A DAG of the shard runs as if nothing were wrong there."""
    stage.wait_for_phase(stage.launch(dag(name_in_shard(name, SHARD))), "Succeeded", limit_s=20)


def test_a_run_whose_record_is_garbled_is_set_aside_and_stops_nobody_else(stage: Stage) -> None:
    ledger = stage.ledger("garbled")
    name = name_in_shard("garbled", SHARD)
    run = stage.launch(dag(name, task("only", command=ledger.gated())))
    stage.wait("its job runs", lambda: ledger.count("start"))
    leader = stage.leader_of(name)
    set_aside = leader.metric("fencepost_objects_set_aside_total", kind="DAGRun")

    change: Obj = {"status": {"leases": {"only/0": "no lease at all"}, "message": "edited by hand"}}
    stage.admin.merge(wire.DAG_RUNS, run, change, NAMESPACE)

    runs_well(stage, "beside-garbled")
    assert leader.metric("fencepost_objects_set_aside_total", kind="DAGRun") == set_aside + 1
    assert leader.log.read_text().count(f"run {NAMESPACE}/{run} is set aside") == 1
    stage.user.delete(wire.DAG_RUNS, run, NAMESPACE)
    stage.wait("its job is stopped", lambda: not processes_of(run))
    stage.wait("its entry is gone", lambda: not entries_of(stage, run))


def entries_of(stage: Stage, run: str) -> list[str]:
    workers = stage.admin.all_of(wire.WORKERS, SYSTEM_NAMESPACE_DEFAULT)
    return [key for worker in workers for key in worker["spec"].get("leases", {}) if f"/{run}." in key]


def test_a_run_that_is_half_deleted_ends_as_cancelled_and_stops_nobody_else(stage: Stage) -> None:
    ledger = stage.ledger("held-run")
    run = stage.launch(dag(name_in_shard("held-run", SHARD), task("only", command=ledger.gated())))
    stage.wait("its job runs", lambda: ledger.count("start"))
    stage.user.merge(wire.DAG_RUNS, run, {"metadata": {"finalizers": [HOLD]}}, NAMESPACE)

    stage.user.delete(wire.DAG_RUNS, run, NAMESPACE)

    stage.wait_for_phase(run, "Cancelled")
    assert not processes_of(run)
    runs_well(stage, "beside-held-run")
    stage.user.merge(wire.DAG_RUNS, run, {"metadata": {"finalizers": None}}, NAMESPACE)
    stage.wait("it is gone", lambda: stage.user.find(wire.DAG_RUNS, run, NAMESPACE) is None)


def test_a_dag_that_is_half_deleted_makes_no_more_runs_and_stops_nobody_else(stage: Stage) -> None:
    name = name_in_shard("held-dag", SHARD)
    stage.apply(dag(name, schedule=every_minute()))
    stage.wait_for_dag(name, "nextScheduledTime")
    stage.user.merge(wire.DAGS, name, {"metadata": {"finalizers": [HOLD]}}, NAMESPACE)

    stage.user.delete(wire.DAGS, name, NAMESPACE)

    stage.wait("it has no next time", lambda: "nextScheduledTime" not in stage.dag_status(name))
    runs_well(stage, "beside-held-dag")
    stage.user.merge(wire.DAGS, name, {"metadata": {"finalizers": None}}, NAMESPACE)
    stage.wait("it is gone", lambda: stage.user.find(wire.DAGS, name, NAMESPACE) is None)
