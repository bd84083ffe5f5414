"""What ends a job or a run before its time, and what happens after: cancellation, time limits, retries, skips."""

import json
import time

from tests.e2e.support.dags import dag, retries, task
from tests.e2e.support.ledger import processes_of
from tests.e2e.support.stage import Stage

GRACE_S = 2.0
KILL_SLACK_S = 8.0
"""For a busy machine."""
STUBBORN = "trap 'note asked' TERM; while :; do sleep 0.05; done"
POLITE = "trap 'note asked; exit 1' TERM; while :; do sleep 0.05; done"


def test_a_cancelled_run_asks_its_jobs_to_end_and_kills_them_after_their_grace(stage: Stage) -> None:
    ledger = stage.ledger("cancelled")
    run = stage.launch(
        dag(
            "cancelled",
            task("polite", command=ledger.job(POLITE)),
            task("stubborn", command=ledger.job(STUBBORN)),
            task("never", "polite", "stubborn", command=ledger.job()),
            terminationGracePeriod="2s",
        )
    )
    stage.wait("both jobs run", lambda: ledger.count("start") == 2)

    cancelled_s = time.time()
    stage.kubectl("patch", "dagrun", run, "--type=merge", "--patch", json.dumps({"spec": {"cancel": True}}))
    stage.wait("both are asked to end", lambda: ledger.count("asked") == 2)
    stubborn_left = processes_of(run)
    status = stage.wait_for_phase(run, "Cancelled")

    assert stubborn_left
    assert not processes_of(run)
    killed_s = stage.state(run).tasks["stubborn"].last_end_s
    assert killed_s is not None
    assert GRACE_S <= killed_s - cancelled_s < GRACE_S + KILL_SLACK_S
    assert {name: text.split()[0] for name, text in status["tasks"].items()} == {
        "polite": "Cancelled=0",
        "stubborn": "Cancelled=0",
        "never": "Cancelled=0",
    }
    assert [(each["type"], each["reason"]) for each in status["conditions"]] == [
        ("Failed", "Cancelled"),
        ("Finished", "Cancelled"),
        ("Stalled", "Cancelled"),
    ]
    assert not ledger.lines(task="never")


def test_a_job_that_runs_out_of_time_is_stopped_retried_and_fails_with_that_reason(stage: Stage) -> None:
    ledger = stage.ledger("slow")
    run = stage.launch(
        dag(
            "slow",
            task("slow", command=ledger.sleep(60), timeout="500ms", retries=retries(1, "100ms")),
            task("after", "slow", command=ledger.job()),
            task("beside", command=ledger.job()),
        )
    )
    status = stage.wait_for_phase(run, "Failed")

    assert [line.attempt for line in ledger.lines("start", "slow")] == [1, 2]
    assert not ledger.lines("end", "slow")
    assert status["reason"] == "JobsFailed"
    assert status["failures"]["slow/0"].startswith("TimedOut")
    assert "time limit" in status["failures"]["slow/0"]
    assert [status["tasks"][name].split()[0] for name in ("slow", "after", "beside")] == [
        "Failed=0",
        "Skipped=0",
        "Succeeded=0",
    ]
    assert not ledger.lines(task="after")


def test_a_run_that_runs_out_of_time_stops_what_runs_and_starts_nothing_more(stage: Stage) -> None:
    ledger = stage.ledger("late")
    run = stage.launch(
        dag(
            "late",
            task("long", command=ledger.sleep(60)),
            task("after", "long", command=ledger.job()),
            timeout="2s",
        )
    )
    status = stage.wait_for_phase(run, "Failed")

    assert status["reason"] == "RunTimedOut"
    assert "timeout of 2 s" in status["message"]
    assert status["tasks"]["after"] == "Cancelled=0"
    assert not processes_of(run)
    assert not ledger.lines(task="after")


def test_each_retry_waits_longer_and_carries_its_number_under_a_higher_token(stage: Stage) -> None:
    ledger = stage.ledger("retried")
    flaky = task("flaky", command=ledger.job('[ "$FENCEPOST_ATTEMPT" = 3 ]'), retries=retries(5, "400ms"))
    stage.wait_for_phase(stage.launch(dag("retried", flaky)), "Succeeded")

    [starts] = ledger.starts().values()
    ends = ledger.lines("end")
    assert [line.attempt for line in starts] == [1, 2, 3]
    assert sorted({line.token for line in starts}) == [line.token for line in starts]
    waits_s = [later.at_s - before.at_s for before, later in zip(ends, starts[1:], strict=False)]
    assert waits_s[0] >= 0.4
    assert waits_s[1] >= 0.8


def test_a_failed_job_leaves_its_exit_code_the_end_of_its_output_and_an_event(stage: Stage) -> None:
    script = "echo reading the archive; echo no space left on the tape >&2; exit 3"
    run = stage.launch(dag("broken", task("archive", command=["sh", "-c", script])))
    status = stage.wait_for_phase(run, "Failed")

    want_failure = "Failed exit 3: reading the archive\nno space left on the tape"
    assert status["failures"] == {"archive/0": want_failure}
    assert status["message"] == f"job archive/0 failed: {want_failure}"
    [event] = stage.wait("the failure is told", lambda: stage.events(run))
    assert (event["reason"], event["message"]) == ("JobsFailed", status["message"])
    assert event["involvedObject"]["uid"] == stage.run(run)["metadata"]["uid"]
    assert status["message"].splitlines()[0] in stage.kubectl("describe", "dagrun", run)


def test_only_the_jobs_of_a_fan_out_that_failed_are_retried(stage: Stage) -> None:
    ledger = stage.ledger("uneven")
    odd = '[ "$((FENCEPOST_INDEX % 2))" = 0 ] || [ "$FENCEPOST_ATTEMPT" = 2 ]'
    uneven = task(
        "uneven", command=ledger.job(odd.replace("$((", "$$((")), forEach={"count": 6}, retries=retries(1, "100ms")
    )
    stage.wait_for_phase(stage.launch(dag("uneven", uneven)), "Succeeded")

    counts = {lines[0].job: [line.attempt for line in lines] for lines in ledger.starts().values()}
    assert counts == {f"uneven/{index}": [1, 2] if index % 2 else [1] for index in range(6)}


def test_a_command_that_does_not_exist_fails_with_the_name_of_the_command(stage: Stage) -> None:
    run = stage.launch(dag("missing", task("only", command=["no-such-program"])))
    status = stage.wait_for_phase(run, "Failed")

    assert status["failures"]["only/0"].startswith("Failed exit 127")
    assert "'no-such-program'" in status["failures"]["only/0"]
