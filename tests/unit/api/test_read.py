"""DAGs as JSON to values of the core, whatever stands in them."""

from typing import Any

import pytest

from fencepost.api.read import read_dag
from fencepost.core.concurrency import Concurrency, Limits
from fencepost.core.cron import Gap, Overlap
from fencepost.core.dag_spec import DagSpec
from fencepost.core.definition import Definition, EnvSource, Priority, RetryPolicy, SuccessThreshold, Task
from fencepost.core.history import HistoryLimits
from fencepost.core.names import DagKey, spread_offset_s
from fencepost.core.problems import Problem
from fencepost.core.rules import Rule
from fencepost.core.schedule_spec import CatchUp, ScheduleSpec

CREATED = "2026-11-30T13:00:00Z"
CREATED_S = 1_796_043_600


def a_dag(*tasks: dict[str, Any], name: str = "nightly-etl", **spec: Any) -> dict[str, Any]:
    """A DAG as JSON; of one task that does nothing, unless tasks are given."""
    return {"metadata": {"name": name}, "spec": {"tasks": list(tasks or [a_task()]), **spec}}


def a_task(name: str = "extract", **more: Any) -> dict[str, Any]:
    return {"name": name, "command": ["true"], **more}


def read(dag: dict[str, Any]) -> DagSpec:
    spec = read_dag(dag)
    assert isinstance(spec, DagSpec), [str(problem) for problem in spec]
    return spec


def problems_of(dag: dict[str, Any]) -> list[Problem]:
    problems = read_dag(dag)
    assert isinstance(problems, list), problems
    return problems


def problem_of(dag: dict[str, Any]) -> tuple[str, str]:
    """Reason and path of the only problem."""
    (problem,) = problems_of(dag)
    assert problem.fact
    assert problem.remedy
    return problem.reason, problem.path


def test_the_smallest_dag_is_a_name_and_a_task_with_a_command() -> None:
    assert read(a_dag()) == DagSpec(Definition((Task("extract", ("true",)),)))


def test_everything_that_is_written_is_read() -> None:
    spec = read(
        a_dag(
            a_task(
                "load",
                command=["python", "load.py"],
                args=["$(index)"],
                env=[{"name": "REGION", "value": "eu"}, {"name": "EMPTY"}],
                dependsOn=["extract"],
                forEach={"count": 100},
                maxParallel=20,
                timeout="10m",
                retries={"limit": 1, "backoff": {"base": "1s", "factor": 3, "cap": "1m", "jitter": 0}},
                priority="high",
                rule="AllDone",
            ),
            schedule={"cron": ["0 3 * * *", "30 12 * * 1-5"], "timeZone": "Europe/Berlin"},
            suspend=True,
            concurrency={"policy": "Forbid", "limit": 3},
            pool="batch",
            priority="low",
            timeout="2h",
            terminationGracePeriod="5s",
            params={"region": "eu"},
            history={"succeeded": 0, "failed": 1, "ttl": "24h"},
        )
    )

    assert spec == DagSpec(
        definition=Definition(
            tasks=(
                Task(
                    name="load",
                    command=("python", "load.py"),
                    depends_on=("extract",),
                    rule=Rule.ALL_DONE,
                    args=("$(index)",),
                    env=(("REGION", "eu"), ("EMPTY", "")),
                    count=100,
                    max_parallel=20,
                    timeout_s=600,
                    retries=RetryPolicy(1, base_s=1, factor=3, cap_s=60, jitter=0),
                    priority=Priority.HIGH,
                ),
            ),
            pool="batch",
            timeout_s=7200,
            grace_s=5,
            params=(("region", "eu"),),
        ),
        schedule=ScheduleSpec(("0 3 * * *", "30 12 * * 1-5"), time_zone="Europe/Berlin"),
        suspend=True,
        limits=Limits(Concurrency.FORBID, 3),
        history=HistoryLimits(0, 1, 86_400.0),
        priority=Priority.LOW,
    )


def test_a_schedule_is_read_with_its_moments_in_whole_seconds() -> None:
    schedule = read(
        a_dag(
            schedule={
                "at": ["2026-11-30T14:00:00+01:00", "2026-11-30T13:00:01.9Z"],
                "dst": {"gap": "Skip", "overlap": "Both"},
                "spread": "1h",
                "startingDeadline": "90s",
                "catchUp": {"policy": "All", "limit": 7},
                "notBefore": "2026-11-30T12:59:59.5Z",
                "notAfter": "2026-11-30T13:00:00.5Z",
            }
        )
    ).schedule

    assert schedule == ScheduleSpec(
        at=(CREATED_S, CREATED_S + 1),
        gap=Gap.SKIP,
        overlap=Overlap.BOTH,
        offset_s=spread_offset_s(DagKey("default", "nightly-etl"), 3600),
        not_before_s=CREATED_S,
        not_after_s=CREATED_S,
        starting_deadline_s=90.0,
        catch_up=CatchUp.ALL,
        catch_up_limit=7,
    )
    assert read(a_dag(schedule={"at": CREATED})).schedule == ScheduleSpec(at=(CREATED_S,))


def test_a_task_has_the_rules_by_exit_code_of_the_dag_but_for_those_it_has_itself() -> None:
    spec = read(
        a_dag(
            a_task("same"),
            a_task("other", retries={"retryOn": [75]}),
            a_task("any", retries={"retryOn": [], "failOn": [2]}),
            retries={"retryOn": [1, 137], "lossLimit": 2},
        )
    )

    assert [(t.retries.retry_on, t.retries.fail_on, t.retries.loss_limit) for t in spec.definition.tasks] == [
        ((1, 137), (), 2),
        ((75,), (), 2),
        ((), (2,), 2),
    ]


def test_a_task_waits_for_a_slot_as_long_as_the_dag_says_unless_it_says_otherwise() -> None:
    spec = read(a_dag(a_task("same"), a_task("other", queueTimeout="90s"), queueTimeout="1h"))

    assert [task.queue_timeout_s for task in spec.definition.tasks] == [3600, 90]
    assert read(a_dag()).definition.tasks[0].queue_timeout_s is None


@pytest.mark.parametrize(
    ("written", "want"),
    [(None, None), (0, SuccessThreshold(0)), (8, SuccessThreshold(8)), ("80%", SuccessThreshold(80, is_percent=True))],
)
def test_a_fan_out_has_succeeded_when_as_many_have_as_it_says(written: object, want: SuccessThreshold | None) -> None:
    threshold = {} if written is None else {"successThreshold": written}
    [task] = read(a_dag(a_task(forEach={"count": 10, **threshold}))).definition.tasks

    assert (task.success_threshold, task.fail_fast) == (want, False)
    assert read(a_dag(a_task(forEach={"count": 1, "failFast": True}))).definition.tasks[0].fail_fast


@pytest.mark.parametrize("written", ["101%", "08%", "8", "%", -1, 10_001, True, 1.5, []])
def test_a_threshold_that_is_neither_a_number_nor_a_percentage_is_refused(written: object) -> None:
    dag = a_dag(a_task(forEach={"count": 10, "successThreshold": written}))

    assert problem_of(dag) == ("InvalidValue", "spec.tasks[0].forEach.successThreshold")


def test_a_fan_out_has_a_count_items_or_the_list_that_a_task_puts_out_and_a_task_may_have_a_condition() -> None:
    tasks = read(
        a_dag(
            a_task("items", forEach={"items": ["x", ""]}),
            a_task("list", forEach={"from": "items"}, when="true"),
        )
    ).definition.tasks

    assert [(task.items, task.items_from, task.when, task.size) for task in tasks] == [
        (("x", ""), None, None, 2),
        (None, "items", "true", 1),
    ]
    assert all(task.is_fan_out for task in tasks)


def test_a_task_has_the_retries_of_the_dag_but_for_what_it_says_itself() -> None:
    spec = read(
        a_dag(
            a_task("as-the-dag"),
            a_task("fewer", retries={"limit": 1}),
            a_task("slower", retries={"backoff": {"base": "30s"}}),
            retries={"limit": 5, "backoff": {"base": "2s", "jitter": 0.5}},
        )
    )

    assert [(task.retries.limit, task.retries.base_s, task.retries.jitter) for task in spec.definition.tasks] == [
        (5, 2.0, 0.5),
        (1, 2.0, 0.5),
        (5, 30.0, 0.5),
    ]


def test_a_task_has_the_priority_of_the_dag_unless_it_has_its_own() -> None:
    spec = read(a_dag(a_task("a"), a_task("b", priority="low"), priority="critical"))

    assert [task.priority for task in spec.definition.tasks] == [Priority.CRITICAL, Priority.LOW]


@pytest.mark.parametrize(
    ("concurrency", "want"),
    [
        ({}, Limits(Concurrency.FORBID, 1)),
        ({"limit": 4}, Limits(Concurrency.FORBID, 4)),
        ({"policy": "Allow"}, Limits(Concurrency.ALLOW, None)),
        ({"policy": "Replace", "limit": 2}, Limits(Concurrency.REPLACE, 2)),
        ({"policy": "Queue"}, Limits(Concurrency.QUEUE, 1, 10)),
        ({"policy": "Queue", "queueLimit": 3}, Limits(Concurrency.QUEUE, 1, 3)),
    ],
)
def test_there_is_a_limit_of_one_unless_it_says_another_and_allow_has_none(
    concurrency: dict[str, Any], want: Limits
) -> None:
    spec = read(a_dag(concurrency=concurrency))

    assert spec.limits == want


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"tasks": [a_task(executor="Pods")]}, "spec.tasks[0].executor"),
        ({"tasks": [a_task(pod={"spec": {}})]}, "spec.tasks[0].pod"),
    ],
)
def test_what_is_not_supported_yet_is_refused_by_name_and_never_ignored(spec: dict[str, Any], path: str) -> None:
    assert problem_of(a_dag(**spec)) == ("NotSupported", path)


@pytest.mark.parametrize(
    ("spec", "reason", "path"),
    [
        ({"tasks": []}, "InvalidValue", "spec.tasks"),
        ({"tasks": [{"name": "a"}]}, "MissingField", "spec.tasks[0].command"),
        ({"tasks": [a_task(command=[])]}, "InvalidValue", "spec.tasks[0].command"),
        ({"tasks": [a_task(command=[""])]}, "InvalidValue", "spec.tasks[0].command"),
        ({"tasks": [a_task("Extract")]}, "InvalidValue", "spec.tasks[0].name"),
        ({"tasks": [a_task("a" * 64)]}, "InvalidValue", "spec.tasks[0].name"),
        ({"tasks": [a_task(timout="1s")]}, "UnknownField", "spec.tasks[0].timout"),
        ({"tasks": [a_task(timeout="10")]}, "InvalidValue", "spec.tasks[0].timeout"),
        ({"tasks": [a_task(timeout="0s")]}, "InvalidValue", "spec.tasks[0].timeout"),
        ({"tasks": [a_task(timeout=600)]}, "InvalidValue", "spec.tasks[0].timeout"),
        ({"tasks": [a_task(forEach={"count": 10_001})]}, "InvalidValue", "spec.tasks[0].forEach.count"),
        ({"tasks": [a_task(forEach={})]}, "InvalidValue", "spec.tasks[0].forEach"),
        ({"tasks": [a_task(forEach={"count": 1, "from": "b"})]}, "InvalidValue", "spec.tasks[0].forEach"),
        ({"tasks": [a_task(forEach={"items": ["a"], "from": "b"})]}, "InvalidValue", "spec.tasks[0].forEach"),
        ({"tasks": [a_task(forEach={"items": [1]})]}, "InvalidValue", "spec.tasks[0].forEach.items[0]"),
        ({"tasks": [a_task(forEach={"items": ["€" * 10_923] * 2})]}, "InvalidValue", "spec.tasks[0].forEach"),
        ({"tasks": [a_task(forEach={"from": "B"})]}, "InvalidValue", "spec.tasks[0].forEach.from"),
        ({"tasks": [a_task(when="x" * 1025)]}, "InvalidValue", "spec.tasks[0].when"),
        ({"tasks": [a_task(rule="AnyFailed")]}, "InvalidValue", "spec.tasks[0]"),
        ({"tasks": [a_task(rule="Always")]}, "InvalidValue", "spec.tasks[0].rule"),
        ({"tasks": [a_task(maxParallel=0)]}, "InvalidValue", "spec.tasks[0].maxParallel"),
        ({"tasks": [a_task(env=[{"name": "FENCEPOST_TOKEN"}])]}, "InvalidValue", "spec.tasks[0].env[0].name"),
        ({"tasks": [a_task(args=["€" * 2731])]}, "InvalidValue", "spec.tasks[0]"),
        ({"schedule": {}}, "InvalidValue", "spec.schedule"),
        ({"schedule": {"cron": []}}, "InvalidValue", "spec.schedule.cron"),
        ({"schedule": {"at": []}}, "InvalidValue", "spec.schedule.at"),
        ({"schedule": {"at": "tomorrow"}}, "InvalidValue", "spec.schedule.at[0]"),
        ({"schedule": {"at": [CREATED, 7]}}, "InvalidValue", "spec.schedule.at[1]"),
        ({"schedule": {"at": CREATED, "spread": "25h"}}, "InvalidValue", "spec.schedule.spread"),
        ({"schedule": {"at": CREATED, "startingDeadline": "0s"}}, "InvalidValue", "spec.schedule.startingDeadline"),
        ({"schedule": {"at": CREATED, "dst": {"gap": "Both"}}}, "InvalidValue", "spec.schedule.dst.gap"),
        (
            {"schedule": {"at": CREATED, "notBefore": "2027-01-01T00:00:00Z", "notAfter": CREATED}},
            "InvalidValue",
            "spec.schedule",
        ),
        ({"concurrency": {"policy": "Allow", "limit": 2}}, "InvalidValue", "spec.concurrency"),
        ({"concurrency": {"limit": 2, "queueLimit": 2}}, "InvalidValue", "spec.concurrency"),
        ({"schedule": {"at": CREATED, "catchUp": {"policy": "Some"}}}, "InvalidValue", "spec.schedule.catchUp.policy"),
        ({"schedule": {"at": CREATED, "catchUp": {"limit": 101}}}, "InvalidValue", "spec.schedule.catchUp.limit"),
        ({"ttlAfterFinished": "soon"}, "InvalidValue", "spec.ttlAfterFinished"),
        ({"params": {"a b": "1"}}, "InvalidValue", "spec.params"),
        ({"params": {"a": 1}}, "InvalidValue", "spec.params.a"),
        ({"priority": "urgent"}, "InvalidValue", "spec.priority"),
        ({"retries": {"retryOn": [0]}}, "InvalidValue", "spec.retries.retryOn[0]"),
        ({"retries": {"failOn": [256]}}, "InvalidValue", "spec.retries.failOn[0]"),
        ({"retries": {"lossLimit": 100}}, "InvalidValue", "spec.retries.lossLimit"),
        ({"queueTimeout": "0s"}, "InvalidValue", "spec.queueTimeout"),
        ({"retries": {"limit": -1}}, "InvalidValue", "spec.retries.limit"),
        ({"retries": {"backoff": {"jitter": 1.5}}}, "InvalidValue", "spec.retries.backoff.jitter"),
        ({"suspend": "yes"}, "InvalidValue", "spec.suspend"),
    ],
)
def test_a_mistake_is_told_with_its_place(spec: dict[str, Any], reason: str, path: str) -> None:
    assert problem_of(a_dag(**spec)) == (reason, path)


def test_a_task_has_room_for_exactly_8_kib() -> None:
    assert isinstance(read_dag(a_dag(a_task(command=["c" * 4096], env=[{"name": "E", "value": "v" * 4095}]))), DagSpec)
    assert (
        problem_of(a_dag(a_task(command=["c" * 4096], env=[{"name": "E", "value": "v" * 4096}])))[1] == "spec.tasks[0]"
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [("x" * 53, "NameTooLong"), ("a.b", "InvalidValue"), ("a\n", "InvalidValue"), ("", "MissingField")],
)
def test_the_name_leaves_room_for_the_seconds_in_that_of_a_run(name: str, reason: str) -> None:
    assert problem_of(a_dag(name=name)) == (reason, "metadata.name")
    assert isinstance(read_dag(a_dag(name="x" * 52)), DagSpec)


def test_all_mistakes_are_told_at_once() -> None:
    problems = problems_of(a_dag(a_task("A"), a_task("b", timeout="1"), name="N", priority="urgent"))

    assert [problem.path for problem in problems] == [
        "metadata.name",
        "spec.priority",
        "spec.tasks[0].name",
        "spec.tasks[1].timeout",
    ]


def test_a_mistake_quotes_no_more_than_the_start_of_what_it_is_about() -> None:
    (problem,) = problems_of(a_dag(pool="x" * 100_000))

    assert len(str(problem)) < 500


def with_env(*env: dict[str, Any]) -> dict[str, Any]:
    return a_dag(tasks=[{"name": "load", "command": ["true"], "env": list(env)}])


def test_a_value_from_a_secret_or_a_config_map_is_a_reference_and_no_value() -> None:
    spec = read_dag(
        with_env(
            {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
            {"name": "PLAIN", "value": "x"},
            {"name": "REGION", "valueFrom": {"configMapKeyRef": {"name": "site", "key": "region", "optional": True}}},
        )
    )
    assert isinstance(spec, DagSpec)
    [task] = spec.definition.tasks
    assert task.env == (("PASSWORD", ""), ("PLAIN", "x"), ("REGION", ""))
    assert task.env_from == (
        EnvSource("PASSWORD", True, "db", "password"),
        EnvSource("REGION", False, "site", "region", optional=True),
    )


@pytest.mark.parametrize(
    ("variable", "path", "fact"),
    [
        ({"valueFrom": {}}, "spec.tasks[0].env[0].valueFrom", "valueFrom names not exactly one source"),
        (
            {"value": "x", "valueFrom": {"secretKeyRef": {"name": "db", "key": "k"}}},
            "spec.tasks[0].env[0]",
            "'X' has a value and a valueFrom",
        ),
        ({"valueFrom": {"secretKeyRef": {"name": "db"}}}, "spec.tasks[0].env[0].valueFrom.secretKeyRef.key", "missing"),
    ],
)
def test_a_reference_that_means_nothing_is_refused(variable: dict[str, Any], path: str, fact: str) -> None:
    problems = read_dag(with_env({"name": "X", **variable}))
    assert isinstance(problems, list)
    [problem] = problems
    assert problem.path == path
    assert fact in problem.fact
