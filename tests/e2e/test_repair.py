"""Repair on a real control plane: dead letters and their replay, another round of a run, jobs marked by hand."""

import os
import subprocess
import sys
from pathlib import Path

from fencepost.api import names as wire
from fencepost.core.phases import JobPhase
from tests.e2e.support.dags import NAMESPACE, Obj, dag, retries, task
from tests.e2e.support.ledger import Ledger
from tests.e2e.support.objects import meta_name, versions_of
from tests.e2e.support.stage import Stage
from tests.e2e.test_path import columns

SELECTOR = f"{wire.DAG_LABEL}="


def until_mended(ledger: Ledger) -> list[str]:
    """A job that fails as long as nobody has mended things."""
    return ledger.job(f"[ -e {_mended(ledger)} ]")


def mend(ledger: Ledger) -> None:
    _mended(ledger).touch()


def _mended(ledger: Ledger) -> Path:
    return ledger.file.with_suffix(".mended")


def fencepost(stage: Stage, *words: str) -> str:
    """The command, as the user; what it prints."""
    environment = {**os.environ, "KUBECONFIG": str(stage.user_kubeconfig)}
    command = [sys.executable, "-m", "fencepost.cli", words[0], f"--namespace={NAMESPACE}", *words[1:]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def letters(stage: Stage, of: str) -> list[Obj]:
    found = stage.user.all_of(wire.DEAD_LETTERS, NAMESPACE, labelSelector=f"{SELECTOR}{of}")
    return sorted(found, key=lambda letter: letter["spec"]["job"]["index"])


def wait_for_replays(stage: Stage, of: str, phase: str) -> None:
    stage.wait(
        f"every replay of {of} has {phase}",
        lambda: all(letter.get("status", {}).get("phase") == phase for letter in letters(stage, of)),
    )


def test_dead_letters_tell_what_happened_and_replays_bring_the_run_to_its_end(stage: Stage) -> None:
    ledger = stage.ledger("letters")
    load = task("load", "extract", command=until_mended(ledger), forEach={"count": 3}, retries=retries(1, "100ms"))
    etl = dag("letters", task("extract", command=ledger.job()), load, task("report", "load", command=ledger.job()))
    since = stage.admin.version(wire.DAG_RUNS, NAMESPACE)
    run = stage.launch(etl)
    stage.wait_for_phase(run, "Failed")

    rows = columns(stage.kubectl("get", "deadletters", f"--selector={SELECTOR}letters"))
    want = {"DAG": "letters", "RUN": run, "TASK": "load", "REASON": "Failed", "ATTEMPTS": "2", "REPLAY": ""}
    assert len(rows) == 3
    assert all(row.items() >= want.items() for row in rows)
    job = letters(stage, "letters")[0]["spec"]["job"]
    assert [attempt["attempt"] for attempt in job["attempts"]] == [1, 2]
    for version in versions_of(stage.admin.changes(wire.DAG_RUNS, since, NAMESPACE), run):
        status = version.get("status", {})
        assert not (status.get("dying") and status["phase"] == "Failed"), (
            "it has finished before its letters were there"
        )

    mend(ledger)
    token = stage.state(run).lease_counter
    name = meta_name(letters(stage, "letters")[0])
    patch = ("--type=merge", '--patch={"spec":{"replay":1}}')
    stage.kubectl("patch", "deadletter", name, *patch)
    stage.wait(
        f"{name} is replayed", lambda: letters(stage, "letters")[0].get("status", {}).get("phase") == "Succeeded"
    )
    state = stage.state(run)
    assert state.round == 1
    assert state.lease_counter == token + 1
    assert state.tasks["load"].phase_of(0) is JobPhase.SUCCEEDED

    said = fencepost(stage, "replay", f"--selector={SELECTOR}letters", "--rate=50/s")
    assert len(said.splitlines()) == 2
    wait_for_replays(stage, "letters", "Succeeded")
    assert stage.status(run)["phase"] == "Succeeded"
    starts = {lines[0].job: len(lines) for lines in ledger.starts().values()}
    assert starts == {"extract/0": 1, "load/0": 3, "load/1": 3, "load/2": 3, "report/0": 1}


def test_a_letter_whose_run_is_gone_is_replayed_in_a_new_run(stage: Stage) -> None:
    ledger = stage.ledger("gone")
    run = stage.launch(dag("gone", task("load", command=until_mended(ledger)), task("report", "load")))
    stage.wait_for_phase(run, "Failed")
    stage.user.delete(wire.DAG_RUNS, run, NAMESPACE)
    mend(ledger)

    fencepost(stage, "replay", meta_name(letters(stage, "gone")[0]))
    wait_for_replays(stage, "gone", "Succeeded")

    [made] = stage.runs_of("gone")
    assert letters(stage, "gone")[0]["status"]["run"] == meta_name(made)
    assert made["status"]["phase"] == "Succeeded"
    assert [line.job for line in ledger.lines("start")] == ["load/0", "load/0"]


def test_a_failed_run_is_run_again_from_where_it_failed(stage: Stage) -> None:
    ledger = stage.ledger("again")
    tasks = [
        task("extract", command=ledger.job()),
        task("load", "extract", command=until_mended(ledger)),
        task("report", "load", command=ledger.job()),
    ]
    run = stage.launch(dag("again", *tasks))
    stage.wait_for_phase(run, "Failed")
    mend(ledger)

    said = fencepost(stage, "rerun", run, "--wait")

    assert said.splitlines()[0] == f"dagrun.fencepost.dev/{run} is run again, in round 1"
    assert stage.status(run)["phase"] == "Succeeded"
    first, second = ledger.lines("start", "load")
    assert first.token < second.token
    assert [line.job for line in ledger.lines("start")] == ["extract/0", "load/0", "load/0", "report/0"]


def test_a_running_job_is_marked_by_hand_and_its_end_does_not_count(stage: Stage) -> None:
    ledger = stage.ledger("marked")
    etl = dag("marked", task("slow", command=ledger.sleep(60)), task("report", "slow", command=ledger.job()))
    run = stage.launch(etl)
    stage.wait("the job runs", lambda: bool(ledger.lines("start", "slow")))

    said = fencepost(stage, "mark", run, "slow/0", "Succeeded")

    assert said == f"job slow/0 of dagrun.fencepost.dev/{run} is marked Succeeded\n"
    stage.wait_for_phase(run, "Succeeded")
    by = stage.run(run)["spec"]["overrides"]["slow/0"]["by"]
    assert by.startswith("system:serviceaccount:")
    assert not [line for line in ledger.lines("end") if line.job == "slow/0"]
    assert stage.state(run).tasks["slow"].phase_of(0) is JobPhase.SUCCEEDED
    forged = '{"spec":{"round":1,"overrides":{"slow/0":{"phase":"Failed","by":"somebody-else","round":1}}}}'
    assert "by whom it was made" in stage.refusal("patch", "dagrun", run, "--type=merge", f"--patch={forged}")
