"""The command line on a real cluster, as a user with the role `edit`; and what becomes of the runs of a deleted DAG."""

import json
import os
import signal
import subprocess
import sys
import time

from fencepost.api import names as wire
from fencepost.api.names import SYSTEM_NAMESPACE_DEFAULT
from fencepost.api.times import format_time
from tests.e2e.support.dags import NAMESPACE, Obj, dag, task
from tests.e2e.support.install import InstallError
from tests.e2e.support.ledger import processes_of
from tests.e2e.support.stage import Stage

HOURLY = {"cron": ["0 * * * *"]}
HOUR_S = 3600
BACKFILLER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: maker}
rules:
  - {apiGroups: [fencepost.dev], resources: [dagruns], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: maker}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: maker}
subjects: [{kind: User, name: maker, apiGroup: rbac.authorization.k8s.io}]
"""


def fencepost(stage: Stage, *words: str) -> "subprocess.Popen[str]":
    """The command, begun."""
    call = [sys.executable, "-m", "fencepost.cli", *words, f"--namespace={NAMESPACE}"]
    env = {**os.environ, "KUBECONFIG": str(stage.user_kubeconfig), "PYTHONUNBUFFERED": "1"}
    # a shell that runs the tests in the background has them ignore SIGINT, and the command would inherit that
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(call, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, heard)


def said(stage: Stage, *words: str) -> tuple[int, str, str]:
    """The command's exit code and what it has printed on stdout and stderr."""
    process = fencepost(stage, *words)
    out, errors = process.communicate(timeout=120)
    return process.returncode, out, errors


def entries_of(stage: Stage, run: str) -> list[str]:
    """The keys of a run in all mailboxes."""
    workers = stage.admin.all_of(wire.WORKERS, SYSTEM_NAMESPACE_DEFAULT)
    keys = [key for worker in workers for key in worker["spec"].get("leases", {})]
    return [key for key in keys if key.startswith(f"{NAMESPACE}/{run}.")]


def past_hours(count: int) -> list[int]:
    """The latest so many slots of an hourly schedule, in Unix seconds."""
    last_s = int(time.time()) // HOUR_S * HOUR_S
    return [last_s - HOUR_S * back for back in reversed(range(1, count + 1))]


def test_a_run_is_triggered_suspended_resumed_and_followed_to_its_end(stage: Stage) -> None:
    ledger = stage.ledger("triggered")
    tasks = task("first", command=ledger.gated()), task("next", "first", command=ledger.job())
    stage.apply(dag("triggered", *tasks, params={"region": "eu"}))

    waiting = fencepost(stage, "trigger", "triggered", "--name=triggered-now", "--param=region=us", "--wait")
    stage.wait("the first job runs", lambda: ledger.count("start") == 1)
    assert said(stage, "suspend", "--run=triggered-now")[:2] == (0, "dagrun.fencepost.dev/triggered-now suspended\n")
    stage.kubectl("wait", "--for=condition=Suspended", "dagrun/triggered-now", "--timeout=30s")
    ledger.open()
    stage.wait("the first job has ended", lambda: stage.status("triggered-now")["done"] == "1/2")
    status = stage.status("triggered-now")
    assert "leases" not in status, "the write that folds the first job would have leased the next"
    assert said(stage, "resume", "--run=triggered-now")[0] == 0

    out, errors = waiting.communicate(timeout=60)
    assert (waiting.returncode, errors) == (0, "")
    assert out.splitlines()[0] == "dagrun.fencepost.dev/triggered-now created"
    assert "triggered-now: Succeeded 2/2" in out.splitlines()[-1]


def test_a_run_is_cancelled_and_waited_for(stage: Stage) -> None:
    ledger = stage.ledger("called-off")
    run = stage.launch(dag("called-off", task("only", command=ledger.gated()), terminationGracePeriod="1s"))
    stage.wait("the job runs", lambda: ledger.count("start") == 1)
    code, out, _ = said(stage, "cancel", run, "--wait")
    assert code == 0
    assert f"{run}: Cancelled 1/1" in out
    code, _, errors = said(stage, "cancel", "no-such-run")
    assert code == 2
    assert 'fencepost: DAGRun fencepost-stories/no-such-run: dagruns.fencepost.dev "no-such-run" not found' in errors


def test_a_backfill_that_is_interrupted_goes_on_and_no_time_is_run_twice(stage: Stage) -> None:
    ledger = stage.ledger("filled")
    stage.apply(dag("filled", task("only", command=ledger.sleep(1.0)), schedule=HOURLY, history={"succeeded": 10}))
    stage.wait_for_dag("filled", "state", "Ready")
    slots = past_hours(4)
    names = [f"filled-{slot_s}" for slot_s in slots]
    words = ["backfill", "filled", f"--from={format_time(slots[0])}", f"--to={format_time(slots[-1])}"]

    first = fencepost(stage, *words)
    stage.wait("the second run is under way", lambda: len(stage.runs_of("filled")) == 2)
    first.send_signal(signal.SIGINT)
    _, errors = first.communicate(timeout=60)
    assert first.returncode == 1
    assert "the same command goes on with the others" in errors

    code, out, errors = said(stage, *words)
    assert (code, errors) == (0, "")
    assert "4 of 4 runs Succeeded" in out.splitlines()[-1]
    runs = stage.runs_of("filled")
    assert sorted(run["metadata"]["name"] for run in runs) == names
    assert {run["spec"]["trigger"] for run in runs} == {"Backfill"}
    assert ledger.count("start") == 4

    code, out, _ = said(stage, *words, "--reprocess=all", "--max-parallel=4")
    assert code == 0
    assert [run["status"]["round"] for run in stage.runs_of("filled")] == [1] * 4
    assert ledger.count("start") == 8


def test_only_who_may_backfill_a_dag_takes_the_name_of_a_slot(stage: Stage) -> None:
    stage.apply(dag("guarded", schedule=HOURLY, suspend=True))
    [slot_s] = past_hours(1)
    spec = {"dag": "guarded", "trigger": "Backfill", "scheduledTime": format_time(slot_s)}
    meta = {"name": f"guarded-{slot_s}"}
    body = json.dumps({"apiVersion": wire.API_VERSION, "kind": "DAGRun", "metadata": meta, "spec": spec})
    stage.fleet.fencepost.kubectl("apply", f"--namespace={NAMESPACE}", "--filename=-", stdin=BACKFILLER)

    def refused() -> bool:
        try:
            stage.fleet.fencepost.kubectl(
                "create", "--as=maker", f"--namespace={NAMESPACE}", "--filename=-", stdin=body
            )
        except InstallError as error:
            return "those of a backfill whoever may backfill the DAG" in str(error)
        raise AssertionError("the run was created")

    stage.wait("the role is known, and the policy refuses", refused)
    stage.kubectl("create", "--filename=-", stdin=body)


def test_a_dag_deleted_in_the_background_takes_its_runs_and_their_jobs_along(stage: Stage) -> None:
    ledger = stage.ledger("felled")
    run = stage.launch(dag("felled", task("only", command=ledger.gated()), terminationGracePeriod="1s"))
    stage.wait("the job runs", lambda: ledger.count("start") == 1)
    assert processes_of(run)
    stage.kubectl("delete", "dag", "felled", "--cascade=background")
    stage.wait("the run is gone", lambda: not stage.runs_of("felled"))
    stage.wait("no mailbox holds a job of it", lambda: not entries_of(stage, run))
    stage.wait("its revisions are gone", lambda: not revisions_of(stage, "felled"))
    stage.wait("its job was stopped", lambda: not processes_of(run))
    assert ledger.count("end") == 0


def test_a_dag_deleted_alone_leaves_its_runs_which_go_on_to_their_end(stage: Stage) -> None:
    ledger = stage.ledger("left")
    tasks = task("first", command=ledger.gated()), task("next", "first", command=ledger.job())
    run = stage.launch(dag("left", *tasks))
    stage.wait("the first job runs", lambda: ledger.count("start") == 1)
    stage.kubectl("delete", "dag", "left", "--cascade=orphan")
    ledger.open()
    stage.wait_for_phase(run, "Succeeded")
    assert ledger.count("end") == 2
    assert "ownerReferences" not in stage.run(run)["metadata"]
    stage.wait("no mailbox holds a job of it", lambda: not entries_of(stage, run))


def revisions_of(stage: Stage, name: str) -> list[Obj]:
    found = stage.admin.all_of(wire.CONTROLLER_REVISIONS, NAMESPACE)
    return [each for each in found if each["metadata"]["labels"].get(wire.DAG_LABEL) == name]
