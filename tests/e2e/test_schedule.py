"""Schedules: one minute, seen by four DAGs; and the runs that history lets go."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from fencepost.api import names as wire
from fencepost.api.times import format_time, parse_time
from tests.e2e.support.dags import NAMESPACE, dag, every_minute, task
from tests.e2e.support.install import InstallError
from tests.e2e.support.objects import meta_name, versions_of
from tests.e2e.support.stage import Recorder, Stage

START_LAG_MAX_S = 5.0
MINUTE_LIMIT_S = 90.0
SCHEDULED = ("ticking", "forgetful", "busy")
BUSY_RUN = "busy-before"
DELETION_S = 6.0
"""In which a run that history does not keep would be deleted: its least age, a moment for company, and some."""
NO_MARKS = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-marks}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: [fencepost.dev], apiVersions: ["*"], resources: [dags/status], operations: [UPDATE]}
  validations:
    - expression: "!object.metadata.name.startsWith('forgetful') || !has(object.status.lastScheduledTime)"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-marks}
spec: {policyName: no-marks, validationActions: [Deny]}
"""


@dataclass(frozen=True)
class Minute:
    """A slot that has come, and the moment before it."""

    slot_s: int
    since: str
    """The resourceVersion of DAGs and runs before the slot."""

    @property
    def text(self) -> str:
        """As a time."""
        return format_time(self.slot_s)

    def run_of(self, name: str) -> str:
        """The name of a DAG's run for this slot."""
        return f"{name}-{self.slot_s}"


@pytest.fixture(scope="module")
def minute(stage: Stage) -> Iterator[Minute]:
    """The first slot of all DAGs of this module; they are suspended after it, so that it stays the only one."""
    refuse_marks(stage)
    job = task("only", command=stage.ledger("minute").job())
    stage.apply(dag("ticking", job, schedule=every_minute(), concurrency={"policy": "Allow"}))
    stage.apply(dag("forgetful", job, schedule=every_minute(), history={"succeeded": 0, "failed": 0}))
    stage.apply(dag("resting", job, schedule=every_minute(), suspend=True))
    gated = task("only", command=stage.ledger("busy").gated())
    stage.apply(dag("busy", gated, schedule=every_minute(), suspend=True))
    stage.wait_for_phase(stage.start("busy", BUSY_RUN), "Running")
    suspend(stage, "busy", False)
    stage.wait(
        "one coming slot is known of all", lambda: len(coming_slots(stage)) == 1 and None not in coming_slots(stage)
    )
    minute = Minute(int(parse_time(coming_slots(stage).pop() or "")), stage.admin.version(wire.DAG_RUNS))
    stage.wait("the slot has come", lambda: marks(stage) == {minute.text}, MINUTE_LIMIT_S)
    for name in SCHEDULED:
        suspend(stage, name, True)
    yield minute
    allow_marks(stage)


def refuse_marks(stage: Stage) -> None:
    """From here on no mark can be stored for DAGs whose names begin with `forgetful`: a policy refuses it."""
    stage.admin.create(dag("forgetful-probe", suspend=True))
    stage.fleet.fencepost.kubectl("apply", "--filename=-", stdin=NO_MARKS)
    mark = json.dumps({"status": {"lastScheduledTime": "2020-01-01T00:00:00Z"}})
    probe = (
        "patch",
        "dag",
        "forgetful-probe",
        "--subresource=status",
        "--type=merge",
        "--dry-run=server",
        "--patch",
        mark,
    )

    def refused() -> bool:
        try:
            stage.fleet.fencepost.kubectl(*probe, f"--namespace={NAMESPACE}")
        except InstallError as error:
            return "no-marks" in str(error)
        return False

    stage.wait("the policy is in force", refused)


def allow_marks(stage: Stage) -> None:
    """No longer so."""
    stage.fleet.fencepost.kubectl("delete", "--ignore-not-found", "--filename=-", stdin=NO_MARKS)


def suspend(stage: Stage, name: str, whether: bool) -> None:
    change = json.dumps({"spec": {"suspend": whether}})
    stage.kubectl("patch", "dag", name, "--type=merge", f"--patch={change}")


def coming_slots(stage: Stage) -> set[str | None]:
    return {stage.dag_status(name).get("nextScheduledTime") for name in SCHEDULED}


def marks(stage: Stage) -> set[str | None]:
    return {stage.dag_status(name).get("lastScheduledTime") for name in ("ticking", "busy")}


def test_a_slot_makes_one_run_at_its_time_under_its_name(
    stage: Stage, minute: Minute, record_property: Recorder
) -> None:
    name = minute.run_of("ticking")
    status = stage.wait_for_phase(name, "Succeeded")

    assert [meta_name(run) for run in stage.runs_of("ticking")] == [name]
    spec = stage.run(name)["spec"]
    assert (spec["trigger"], spec["scheduledTime"]) == ("Schedule", minute.text)
    assert spec["dagUID"] == stage.dag("ticking")["metadata"]["uid"]
    lag_s = parse_time(status["startTime"]) - minute.slot_s
    assert 0 <= lag_s < START_LAG_MAX_S
    [start] = [line for line in stage.ledger("minute").lines("start") if line.execution.startswith(uid(stage, name))]
    record_property("start_lag_s", f"{lag_s:.2f} to the run's start, {start.at_s - minute.slot_s:.2f} to the job's own")
    assert 0 <= start.at_s - minute.slot_s < START_LAG_MAX_S


def test_a_dag_tells_its_last_and_its_next_time(stage: Stage, minute: Minute) -> None:
    versions = [
        each["status"] for each in versions_of(stage.admin.changes(wire.DAGS, minute.since, NAMESPACE), "ticking")
    ]
    passed = [status for status in versions if status.get("lastScheduledTime") == minute.text]

    assert passed[0]["nextScheduledTime"] == format_time(minute.slot_s + 60)
    assert all("lastScheduledTime" not in status for status in versions[: versions.index(passed[0])])


def test_a_slot_that_comes_while_a_run_is_active_is_skipped_and_counted(stage: Stage, minute: Minute) -> None:
    status = stage.dag_status("busy")

    assert (status["skipped"], status["active"]) == (1, 1)
    assert [meta_name(run) for run in stage.runs_of("busy")] == [BUSY_RUN]
    [event] = stage.wait("the skip is told", lambda: stage.events("busy"))
    assert event["reason"] == "SlotSkipped"
    assert "1 of 1 runs is under way" in event["message"]
    stage.ledger("busy").open()
    stage.wait_for_phase(BUSY_RUN, "Succeeded")


def test_a_suspended_dag_makes_no_run_and_makes_up_for_none_when_it_goes_on(stage: Stage, minute: Minute) -> None:
    assert stage.dag_status("resting")["state"] == "Suspended"
    assert "nextScheduledTime" not in stage.dag_status("resting")
    resumed_s = time.time()
    suspend(stage, "resting", False)
    coming = stage.wait_for_dag("resting", "nextScheduledTime")["nextScheduledTime"]
    suspend(stage, "resting", True)

    assert parse_time(coming) > resumed_s
    assert not [run for run in stage.runs_of("resting") if parse_time(run["spec"]["scheduledTime"]) < resumed_s]


def test_history_keeps_the_latest_runs_that_ended_well_and_badly(stage: Stage) -> None:
    stage.apply(
        dag(
            "historic",
            task("only", command=["sh", "-c", "exit $(params.code)"]),
            params={"code": "0"},
            history={"succeeded": 1, "failed": 1},
        )
    )
    for number, code in enumerate("0101"):
        run = stage.start("historic", f"historic-{number}", params={"code": code})
        stage.wait_for_phase(run, "Succeeded" if code == "0" else "Failed")

    def kept() -> bool:
        return {meta_name(run) for run in stage.runs_of("historic")} == {"historic-2", "historic-3"}

    stage.wait("the older two are gone", kept)


def test_the_revision_of_an_earlier_definition_is_named_while_a_run_uses_it_and_goes_with_the_last_one(
    stage: Stage,
) -> None:
    def revision_of(run: str, name: str, kept: int) -> str:
        patch = {"spec": {"tasks": [task(name)], "history": {"succeeded": kept}}}
        stage.kubectl("patch", "dag", "redefined", "--type=merge", f"--patch={json.dumps(patch)}")
        stage.wait_for_phase(stage.start("redefined", run), "Succeeded")
        revision: str = stage.run(run)["spec"]["revision"]
        return revision

    stage.apply(dag("redefined", task("first")))
    old, new = revision_of("edited-1", "old", 3), revision_of("edited-2", "new", 3)
    assert stage.wait_for_dag("redefined", "revision", new)["earlierRevisions"] == [old]

    revision_of("edited-3", "new", 1)

    stage.wait("nobody uses it", lambda: stage.admin.find(wire.CONTROLLER_REVISIONS, old, NAMESPACE) is None)
    assert stage.admin.find(wire.CONTROLLER_REVISIONS, new, NAMESPACE) is not None


def test_no_run_is_deleted_while_its_time_is_not_marked_as_decided(stage: Stage, minute: Minute) -> None:
    name = minute.run_of("forgetful")
    finished_s = parse_time(stage.wait_for_phase(name, "Succeeded")["finishTime"])
    stage.wait("it could have been deleted for long", lambda: time.time() > finished_s + DELETION_S)
    assert stage.user.find(wire.DAG_RUNS, name, NAMESPACE) is not None
    assert "lastScheduledTime" not in stage.dag_status("forgetful")

    allow_marks(stage)

    stage.wait("its run is gone", lambda: stage.user.find(wire.DAG_RUNS, name, NAMESPACE) is None)
    runs, dags = (stage.admin.changes(kind, minute.since, NAMESPACE) for kind in (wire.DAG_RUNS, wire.DAGS))
    [deleted] = [version(run) for what, run in runs if what == "DELETED" and meta_name(run) == name]
    marked = [each for each in versions_of(dags, "forgetful") if each["status"].get("lastScheduledTime") == minute.text]
    assert version(marked[0]) < deleted


def uid(stage: Stage, run: str) -> str:
    return str(stage.run(run)["metadata"]["uid"])


def version(obj: dict[str, dict[str, str]]) -> int:
    return int(obj["metadata"]["resourceVersion"])
