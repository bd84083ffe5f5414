"""Times to the second: made up for after a suspension, waiting in a row, replacing one another, and over for good."""

import json
import time
from itertools import pairwise
from typing import Any

import pytest

from fencepost.api import names as wire
from fencepost.api.names import SYSTEM_NAMESPACE_DEFAULT
from fencepost.api.times import format_time, parse_time
from fencepost.core.names import member_lease_name
from tests.e2e.support.dags import NAMESPACE, dag, task
from tests.e2e.support.objects import meta_name
from tests.e2e.support.stage import Stage

NEW_YEAR = "2027-01-01T00:00:00Z"
AHEAD_S = 6
"""How far ahead the first time of a story lies: enough for its DAG to be known by then."""


def soon(*seconds: int) -> list[int]:
    """Whole seconds so many after a moment that is about to come."""
    start_s = int(time.time()) + AHEAD_S
    return [start_s + each for each in seconds]


def at(slots: list[int], **more: Any) -> dict[str, Any]:
    """A schedule of these times."""
    return {"at": [format_time(slot) for slot in slots], **more}


def set_suspend(stage: Stage, name: str, whether: bool) -> None:
    stage.kubectl("patch", "dag", name, "--type=merge", f"--patch={json.dumps({'spec': {'suspend': whether}})}")


def made(stage: Stage, name: str) -> list[int]:
    """The times whose runs are there, in order."""
    return sorted(int(parse_time(run["spec"]["scheduledTime"])) for run in stage.runs_of(name))


def wait_until(stage: Stage, moment_s: float) -> None:
    stage.wait("the moment has come", lambda: time.time() >= moment_s)


def fates(stage: Stage, name: str) -> dict[str, int]:
    status = stage.dag_status(name)
    return {fate: status[fate] for fate in ("fired", "late", "skipped", "missed") if status.get(fate)}


@pytest.mark.parametrize(("policy", "count"), [("None", 0), ("Latest", 1), ("All", 2)])
def test_what_passed_in_a_suspension_is_made_up_for_as_asked(stage: Stage, policy: str, count: int) -> None:
    name, slots = f"resumed-{policy.lower()}", soon(0, 1, 2)
    catch_up = {"policy": policy, "limit": 2}
    stage.apply(dag(name, schedule=at(slots, catchUp=catch_up), suspend=True, concurrency={"policy": "Allow"}))
    wait_until(stage, slots[-1] + 1.5)
    assert not stage.runs_of(name)

    set_suspend(stage, name, False)

    stage.wait("the schedule is over", lambda: stage.dag_status(name).get("state") == "Done")
    want = slots[len(slots) - count :]
    assert made(stage, name) == want
    if count:
        wanted = {"fired": count, "missed": 3 - count}
        stage.wait("each time has its fate", lambda: fates(stage, name) == wanted)


def test_times_that_find_no_room_wait_in_a_row_and_run_one_after_another(stage: Stage) -> None:
    ledger, slots = stage.ledger("row"), soon(0, 1, 2)
    gated = task("only", command=ledger.gated())
    stage.apply(dag("row", gated, schedule=at(slots), concurrency={"policy": "Queue"}))
    stage.wait("all are there", lambda: made(stage, "row") == slots)
    first, second, third = (f"row-{slot}" for slot in slots)
    stage.wait_for_phase(first, "Running")
    stage.wait(
        "the others wait", lambda: [stage.status(run).get("reason") for run in (second, third)] == ["Queued"] * 2
    )

    ledger.open()

    for run in (first, second, third):
        stage.wait_for_phase(run, "Succeeded")
    spans = sorted((stage.status(run)["startTime"], stage.status(run)["finishTime"]) for run in (first, second, third))
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_a_newer_run_replaces_the_older_once_that_has_stopped(stage: Stage) -> None:
    slots = soon(0, 3)
    stubborn = ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"]
    job = task("only", command=stubborn)
    replacing = {"policy": "Replace"}
    stage.apply(dag("newest", job, schedule=at(slots), concurrency=replacing, terminationGracePeriod="2s"))
    old, new = (f"newest-{slot}" for slot in slots)
    stage.wait("the old one is there", lambda: made(stage, "newest") == slots[:1])
    stage.wait_for_phase(old, "Running")
    stage.wait("the new one is there", lambda: made(stage, "newest") == slots)

    status = stage.wait_for_phase(new, "Running")

    ended = stage.status(old)
    assert (ended["phase"], ended["message"]) == ("Cancelled", f"replaced by run {new}")
    assert parse_time(ended["finishTime"]) - slots[1] >= 1.0, "it had its grace period"
    assert parse_time(status["startTime"]) >= parse_time(ended["finishTime"])
    assert stage.run(old)["spec"]["cancel"] is True
    stage.cancel(new)
    stage.wait_for_phase(new, "Cancelled")


def test_two_expressions_and_a_time_that_meet_make_one_run_whose_name_carries_the_spread(stage: Stage) -> None:
    slots = soon(0)
    stage.apply(dag("met", schedule=at(slots * 2, spread="5s")))
    [moved] = stage.wait("it has a run", lambda: made(stage, "met"))

    assert 0 <= moved - slots[0] < 5
    assert [meta_name(run) for run in stage.runs_of("met")] == [f"met-{moved}"]


def test_a_dag_that_is_over_goes_with_its_runs(stage: Stage) -> None:
    slots = soon(0)
    stage.apply(dag("once", schedule=at(slots), ttlAfterFinished="3s"))
    stage.wait("it has a run", lambda: made(stage, "once") == slots)

    stage.wait("it is gone", lambda: stage.user.find(wire.DAGS, "once", NAMESPACE) is None)
    stage.wait("its run too", lambda: not stage.runs_of("once"))


def test_an_edit_that_the_operator_sees_late_does_not_lose_the_time_after_it(stage: Stage) -> None:
    """The API server notes when an object was edited, and the status is no edit."""
    noted = stage.user.get(wire.DAGS, stage.apply(dag("noted", suspend=True)), NAMESPACE)
    created_s = parse_time(noted["metadata"]["creationTimestamp"])
    wait_until(stage, created_s + 2.0)
    set_suspend(stage, "noted", False)
    notes = stage.dag("noted")["metadata"]["managedFields"]
    edits = [parse_time(note["time"]) for note in notes if not note.get("subresource")]

    assert created_s + 2.0 <= max(edits) + 1.0 <= time.time() + 2.0
    stage.wait("it is looked at", lambda: stage.dag_status("noted").get("state") == "Ready")
    statuses = [note for note in stage.dag("noted")["metadata"]["managedFields"] if note.get("subresource") == "status"]
    assert statuses


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"schedule": {"cron": ["* * * * *"], "spread": "25h"}}, "write 24h or less"),
        (
            {
                "schedule": {
                    "at": "2027-01-01T00:00:00Z",
                    "notBefore": "2027-01-02T00:00:00Z",
                    "notAfter": "2027-01-01T00:00:00Z",
                }
            },
            "notBefore is later than notAfter",
        ),
        ({"schedule": {"cron": ["* * * * *"], "catchUp": {"policy": "Some"}}}, "Unsupported value"),
        ({"schedule": {"cron": ["* * * * *"], "catchUp": {"limit": 101}}}, "less than or equal to 100"),
        ({"schedule": {"cron": ["* * * * *"], "dst": {"gap": "Both"}}}, "Unsupported value"),
        ({"schedule": {"cron": ["* * * * *"], "startingDeadline": "0s"}}, "must be longer than 0s"),
        ({"concurrency": {"policy": "Forbid", "queueLimit": 3}}, "only policy Queue has a queueLimit"),
    ],
)
def test_a_mistake_in_a_schedule_is_refused_when_it_is_applied(stage: Stage, spec: dict[str, Any], want: str) -> None:
    assert want in stage.refusal("create", "--filename=-", stdin=json.dumps(dag("mistaken", **spec)))


@pytest.mark.parametrize("when", ["tomorrow", [], [NEW_YEAR, "noon"]])
def test_a_mistake_in_at_is_told_by_a_condition(stage: Stage, when: Any) -> None:
    name = f"at-{len(str(when))}"
    stage.apply(dag(name, schedule={"at": when}))
    status = stage.wait_for_dag(name, "conditions")

    assert status["state"] == "Invalid"
    assert status["conditions"][0]["message"].startswith("spec.schedule.at")


def test_replicas_on_the_machine_of_the_api_server_find_their_clocks_right(stage: Stage) -> None:
    leases = stage.admin.all_of(wire.LEASES, SYSTEM_NAMESPACE_DEFAULT)
    members = [lease["metadata"] for lease in leases if meta_name(lease).startswith(member_lease_name(""))]
    assert [each["annotations"][wire.CLOCK_ANNOTATION] for each in members] == ["right"] * len(stage.replicas())
    for replica in stage.replicas():
        assert abs(replica.metric("fencepost_clock_skew_seconds")) < 1.0
        assert replica.metric("fencepost_clock_state_changes_total") == 0
