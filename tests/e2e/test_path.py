"""The path: a DAG from `kubectl apply` to Succeeded, and what a person and a job see on the way."""

import json
from pathlib import Path

from fencepost.api import names as wire
from fencepost.api.names import SYSTEM_NAMESPACE_DEFAULT
from fencepost.api.times import parse_time
from tests.e2e.support.dags import NAMESPACE, Obj, dag, retries, run_of, task
from tests.e2e.support.ledger import Ledger, processes_of
from tests.e2e.support.stage import Stage


def columns(table: str) -> list[dict[str, str]]:
    """What `kubectl get` prints, as a dict for each line; cells stand under their headers."""
    head, *lines = table.splitlines()
    names = head.split()
    starts = [head.index(name) for name in names]
    ends = [*starts[1:], None]
    return [
        {name: line[start:end].strip() for name, start, end in zip(names, starts, ends, strict=True)} for line in lines
    ]


def failing_once(ledger: Ledger) -> list[str]:
    """A job that fails at its first attempt."""
    return ledger.job('[ "$FENCEPOST_ATTEMPT" != 1 ]')


def test_a_dag_with_a_fan_out_and_a_retry_goes_from_kubectl_apply_to_succeeded(stage: Stage) -> None:
    ledger = stage.ledger("path")
    etl = dag(
        "path",
        task("extract", command=ledger.job()),
        task("load", "extract", command=ledger.sleep(0.1), forEach={"count": 5}),
        task("flaky", "extract", command=failing_once(ledger), retries=retries(1, "100ms")),
        task("report", "load", "flaky", command=ledger.job()),
    )

    stage.kubectl("apply", "--filename=-", stdin=json.dumps(etl))
    stage.kubectl("create", "--filename=-", stdin=json.dumps(run_of("path", "path-run")))
    stage.kubectl("wait", "--for=condition=Finished", "dagrun/path-run", "--timeout=60s")

    [row] = columns(stage.kubectl("get", "dagruns", "path-run"))
    assert (row["DAG"], row["PHASE"], row["DONE"]) == ("path", "Succeeded", "8/8")
    status = stage.status("path-run")
    assert [(each["type"], each["status"], each["reason"]) for each in status["conditions"]] == [
        ("Complete", "True", "AllSucceeded"),
        ("Finished", "True", "AllSucceeded"),
    ]
    assert status["tasks"]["load"].startswith("Succeeded=0-4 @")
    assert "leases" not in status
    want_starts = {"extract/0": 1, **{f"load/{index}": 1 for index in range(5)}, "flaky/0": 2, "report/0": 1}
    assert {lines[0].job: len(lines) for lines in ledger.starts().values()} == want_starts
    first, second = ledger.lines("start", "flaky")
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.token < second.token
    ends = {line.job: line.at_s for line in ledger.lines("end")}
    starts = {line.job: line.at_s for line in ledger.lines("start")}
    assert all(ends["extract/0"] <= starts[f"load/{index}"] for index in range(5))
    assert starts["report/0"] >= max(ends["flaky/0"], *(ends[f"load/{index}"] for index in range(5)))


def test_a_dag_tells_its_state_its_revision_and_its_last_run(stage: Stage) -> None:
    run = stage.launch(dag("telling", task("only"), schedule={"cron": ["0 3 * * *"], "timeZone": "Europe/Berlin"}))
    stage.wait_for_phase(run, "Succeeded")

    status = stage.wait_for_dag("telling", "lastRun")

    assert status["lastRun"]["name"] == run
    assert status["lastRun"]["phase"] == "Succeeded"
    assert (status["state"], status["active"]) == ("Ready", 0)
    assert status["observedGeneration"] == stage.dag("telling")["metadata"]["generation"]
    [ready] = status["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "True", "Valid")
    assert status["revision"] == stage.run(run)["spec"]["revision"]
    revision = stage.admin.get(wire.CONTROLLER_REVISIONS, status["revision"], NAMESPACE)
    assert revision["data"]["tasks"] == [{"name": "only", "command": ["true"]}]
    assert parse_time(status["nextScheduledTime"]) > parse_time(status["lastRun"]["finishTime"])
    [row] = columns(stage.kubectl("get", "dags", "telling"))
    want_row = {"SCHEDULE": "0 3 * * *", "ZONE": "Europe/Berlin", "SUSPENDED": "false", "ACTIVE": "0", "STATE": "Ready"}
    assert row.items() >= want_row.items()
    assert row["NEXT"] == status["nextScheduledTime"]


def test_a_job_sees_its_place_its_params_and_nothing_of_its_worker(stage: Stage, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    script = f'env | sort > {seen}/$FENCEPOST_INDEX.env; printf "%s\\n" "$0" "$@" > {seen}/$FENCEPOST_INDEX.words'
    words = ["$(params.region)", "$(params.mode)", "$(run.name)", "$(task.name)", "$(index)", "$$(literal)"]
    look = task(
        "look",
        command=["sh", "-c", script, *words[:3]],
        args=words[3:],
        env=[{"name": "REGION", "value": "in $(params.region)"}],
        forEach={"count": 2},
        timeout="1m",
    )
    run = stage.launch(dag("seeing", look, params={"region": "eu", "mode": "full"}), params={"region": "us"})
    stage.wait_for_phase(run, "Succeeded")

    assert (seen / "1.words").read_text().splitlines() == ["us", "full", run, "look", "1", "$(literal)"]
    environment = dict(line.partition("=")[::2] for line in (seen / "1.env").read_text().splitlines() if "=" in line)
    created = stage.run(run)["metadata"]
    want_environment = {
        "FENCEPOST_DAG": "seeing",
        "FENCEPOST_RUN": run,
        "FENCEPOST_TASK": "look",
        "FENCEPOST_INDEX": "1",
        "FENCEPOST_ITEM": "1",
        "FENCEPOST_ATTEMPT": "1",
        "FENCEPOST_TOKEN": "1",
        "FENCEPOST_EXECUTION_ID": f"{created['uid']}/look/1",
        "FENCEPOST_SCHEDULED_TIME": created["creationTimestamp"],
        "REGION": "in us",
    }
    assert environment.items() >= want_environment.items()
    assert environment.keys() >= {"FENCEPOST_OUTPUT", "FENCEPOST_DEADLINE"}
    assert not [name for name in environment if "KUBE" in name]


def test_params_that_are_too_large_for_a_mailbox_reach_the_job_all_the_same(stage: Stage, tmp_path: Path) -> None:
    large = "x" * 8000
    measure = task("measure", command=["sh", "-c", f'echo "$1" > {tmp_path}/seen', "measure", "$(params.large)"])
    run = stage.launch(dag("large", measure, params={"large": ""}), params={"large": large})
    stage.wait_for_phase(run, "Succeeded")

    assert (tmp_path / "seen").read_text() == f"{large}\n"


def test_what_a_job_prints_stands_in_the_log_of_its_worker(stage: Stage) -> None:
    talk = task("talk", command=["sh", "-c", "echo to $FENCEPOST_INDEX; echo wrong >&2"], forEach={"count": 2})
    run = stage.launch(dag("talking", talk))
    stage.wait_for_phase(run, "Succeeded")

    def printed() -> list[Obj]:
        texts = "".join(member.log.read_text() for member in stage.fleet.members.values()).splitlines()
        lines = [json.loads(text) for text in texts if f'"run":"{run}"' in text and '"line":' in text]
        return lines if len(lines) == 4 else []

    lines = stage.wait("all that the jobs have printed is logged", printed)
    assert {(line["task"], line["index"], line["attempt"], line["line"]) for line in lines} == {
        ("talk", 0, 1, "to 0"),
        ("talk", 0, 1, "wrong"),
        ("talk", 1, 1, "to 1"),
        ("talk", 1, 1, "wrong"),
    }


def test_an_edit_of_a_dag_does_not_change_a_run_in_flight(stage: Stage) -> None:
    ledger = stage.ledger("edited")

    def with_last(word: str) -> Obj:
        return dag("edited", task("first", command=ledger.gated()), task("last", "first", command=ledger.job(word)))

    run = stage.launch(with_last("note old"))
    stage.wait("the first job runs", lambda: ledger.count("start", "first"))
    stage.kubectl("apply", "--filename=-", stdin=json.dumps(with_last("note new")))
    edited = stage.dag("edited")["metadata"]["generation"]
    stage.wait_for_dag("edited", "observedGeneration", edited)
    later = stage.start("edited", "edited-later")
    ledger.open()
    for each in (run, later):
        stage.wait_for_phase(each, "Succeeded")

    uid, later_uid = (stage.run(each)["metadata"]["uid"] for each in (run, later))
    assert [line.what for line in ledger.lines(task="last") if line.execution.startswith(uid)] == [
        "start",
        "old",
        "end",
    ]
    assert [line.what for line in ledger.lines(task="last") if line.execution.startswith(later_uid)] == [
        "start",
        "new",
        "end",
    ]
    assert stage.run(run)["spec"]["revision"] != stage.run(later)["spec"]["revision"]


def test_deleting_a_dag_stops_its_jobs_and_takes_its_runs_along(stage: Stage) -> None:
    ledger = stage.ledger("deleted")
    run = stage.launch(dag("deleted", task("endless", command=ledger.gated(), forEach={"count": 2})))
    stage.wait("both jobs run", lambda: ledger.count("start") == 2)
    uid = stage.run(run)["metadata"]["uid"]

    stage.kubectl("delete", "dag", "deleted")

    stage.wait("the run is gone", lambda: stage.user.find(wire.DAG_RUNS, run, NAMESPACE) is None)
    stage.wait("both jobs are stopped", lambda: not processes_of(run))
    assert ledger.count("end") == 0

    def mailboxes_empty() -> bool:
        workers = stage.admin.all_of(wire.WORKERS, SYSTEM_NAMESPACE_DEFAULT)
        return not [key for worker in workers for key in worker["spec"].get("leases", {}) if uid[:8] in key]

    stage.wait("their entries are gone", mailboxes_empty)
    stage.wait(
        "the revisions are gone",
        lambda: (
            not [
                each
                for each in stage.admin.all_of(wire.CONTROLLER_REVISIONS, NAMESPACE)
                if each["metadata"]["name"].startswith("deleted-")
            ]
        ),
    )
