"""What a job sees of the world."""

import pytest

from fencepost.core.definition import Definition, Task
from fencepost.core.names import JobKey, MailboxKey, RunKey
from fencepost.core.run_state import Entry, Order
from fencepost.core.substitution import REFERENCES, UnresolvedReferenceError
from fencepost.worker.environment import dag_of_revision, inherited_environment, job_environment, reference_values

NOW_S = 1_796_040_123.5
PLACE = MailboxKey(RunKey("analytics", "nightly-etl-1796040000"), "0a1b2c3d", JobKey("load", 3))
UID = "0a1b2c3d-0000-4000-8000-000000000001"
DEFINITION = Definition(tasks=(), params=(("region", "eu"), ("day", "monday")))


def an_entry(timeout_s: float | None = 600.0) -> Entry:
    return Entry(7, Order.RUN, 2, timeout_s, 30.0, "nightly-etl-0123456789", UID, 1_796_040_000, {})


def values(**params: str) -> dict[str, str]:
    return reference_values(PLACE, an_entry(), DEFINITION, Task("load", ()), params, {})


def test_every_reference_that_is_accepted_at_apply_has_a_value() -> None:
    assert values().keys() == REFERENCES | {"params.region", "params.day"}
    assert values()["run.scheduledTime"] == "2026-11-30T12:00:00Z"
    assert values()["run.dag"] == "nightly-etl"


def test_params_of_the_run_stand_over_those_of_the_dag() -> None:
    assert values(region="us")["params.region"] == "us"
    assert values(region="us")["params.day"] == "monday"


def test_a_job_of_a_fan_out_over_items_sees_its_own() -> None:
    task = Task("load", (), items=("a", "b", "c", "d"))

    assert reference_values(PLACE, an_entry(), DEFINITION, task, {}, {})["item"] == "d"


def test_inputs_from_the_run_are_references_like_any_other() -> None:
    inputs = {"item": "x", "tasks.extract.output": "y"}

    got = reference_values(PLACE, an_entry(), DEFINITION, Task("load", (), items_from="extract"), {}, inputs)

    assert (got["item"], got["tasks.extract.output"]) == ("x", "y")


def test_a_task_that_runs_whatever_came_before_sees_how_the_run_went() -> None:
    went = {"run.status": "Failed", "run.failedTasks": "a,b"}

    environment = job_environment(PLACE, an_entry(), Task("load", ()), values() | went, NOW_S)

    assert environment["FENCEPOST_RUN_STATUS"] == "Failed"
    assert environment["FENCEPOST_FAILED_TASKS"] == "a,b"


def test_a_job_is_told_who_it_is_and_until_when() -> None:
    assert job_environment(PLACE, an_entry(), Task("load", ()), values(), NOW_S) == {
        "FENCEPOST_DAG": "nightly-etl",
        "FENCEPOST_RUN": "nightly-etl-1796040000",
        "FENCEPOST_NAMESPACE": "analytics",
        "FENCEPOST_TASK": "load",
        "FENCEPOST_INDEX": "3",
        "FENCEPOST_ITEM": "3",
        "FENCEPOST_ATTEMPT": "2",
        "FENCEPOST_TOKEN": "7",
        "FENCEPOST_EXECUTION_ID": f"{UID}/load/3",
        "FENCEPOST_SCHEDULED_TIME": "2026-11-30T12:00:00Z",
        "FENCEPOST_DEADLINE": "2026-11-30T12:12:03.500Z",
    }


def test_a_job_without_a_time_limit_has_no_deadline() -> None:
    assert "FENCEPOST_DEADLINE" not in job_environment(PLACE, an_entry(None), Task("load", ()), values(), NOW_S)


def test_a_tasks_own_variables_are_substituted_and_cannot_forge_ours() -> None:
    task = Task("load", (), env=(("REGION", "$(params.region)-1"), ("FENCEPOST_TOKEN", "99")))
    environment = job_environment(PLACE, an_entry(), task, values(), NOW_S)
    assert (environment["REGION"], environment["FENCEPOST_TOKEN"]) == ("eu-1", "7")
    with pytest.raises(UnresolvedReferenceError):
        job_environment(PLACE, an_entry(), Task("load", (), env=(("A", "$(nope)"),)), values(), NOW_S)


def test_of_the_workers_own_environment_little_is_passed_on() -> None:
    own = {
        "PATH": "/opt/bin",
        "HOME": "/home/worker",
        "TZ": "Europe/Berlin",
        "LC_TIME": "de_DE",
        "KUBECONFIG": "/etc/kube/config",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "FENCEPOST_WORKER": "of-another",
        "LD_PRELOAD": "/tmp/evil.so",
    }
    kept = {"PATH": "/opt/bin", "HOME": "/home/worker", "TZ": "Europe/Berlin", "LC_TIME": "de_DE"}
    assert inherited_environment(own) == kept


def test_a_worker_without_a_path_gives_its_jobs_the_usual_one() -> None:
    assert "/usr/bin" in inherited_environment({})["PATH"].split(":")


def test_a_revision_names_its_dag() -> None:
    assert dag_of_revision("nightly-etl-0123456789") == "nightly-etl"
