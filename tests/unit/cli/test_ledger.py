"""What is known of a run from its versions and the worker's, and how its changes are put into words."""

from dataclasses import replace
from typing import Any

from fencepost.api.codec import encode_result, encode_run_status
from fencepost.cli.ledger import Ledger
from fencepost.cli.narration import narrate, span_text
from fencepost.cli.summary import summary_lines
from fencepost.core.definition import Definition, Task
from fencepost.core.graph import Graph, compile_graph
from fencepost.core.intervals import parse_intervals
from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase, RunPhase
from fencepost.core.run_state import Lease, Outcome, Result, RunState, TaskState, Waiting

NOW_S = 1_796_000_000.0


def graph(*tasks: Task) -> Graph:
    compiled = compile_graph(Definition(tasks))
    assert isinstance(compiled, Graph)
    return compiled


def job(name: str, *parents: str, count: int | None = None) -> Task:
    return Task(name, ("true",), parents, count=count)


def lease(token: int, attempt: int = 1) -> Lease:
    return Lease(token, "local-abcde", attempt, 0, NOW_S)


def result(token: int, outcome: Outcome = Outcome.SUCCEEDED, exit_code: int | None = 0, message: str = "") -> Result:
    return Result(token, outcome, exit_code, NOW_S, NOW_S + 1.5, message)


def ended(**phases: str) -> TaskState:
    return TaskState({JobPhase(name.capitalize()): parse_intervals(text) for name, text in phases.items()})


RUNNING = RunState(phase=RunPhase.RUNNING, start_s=NOW_S)


class Story:
    """A ledger that is told of one version after the other."""

    def __init__(self, *tasks: Task) -> None:
        self.ledger = Ledger(graph(*tasks))
        self._results: dict[str, str] = {}

    def run(self, **changes: Any) -> list[str]:
        """The run is like this now: what is said about it."""
        before = self.ledger.see_run({"status": encode_run_status(replace(RUNNING, **changes))})
        return list(narrate(before, self.ledger))

    def result(self, task: str, index: int, what: Result) -> None:
        """The worker has answered."""
        self._results[f"demo/etl-1.00000001/{task}/{index}"] = encode_result(what)
        self.ledger.see_worker({"status": {"results": dict(self._results)}})


def test_a_job_is_told_of_when_it_starts_and_when_it_ends() -> None:
    story = Story(job("load", count=3))
    assert story.run(leases={JobKey("load", 1): lease(1)}) == ["load[1]: Running"]
    story.result("load", 1, result(1))
    assert story.run(tasks={"load": ended(succeeded="1")}) == ["load[1]: Succeeded in 1.5 s"]


def test_a_failed_attempt_tells_how_it_failed_and_when_the_next_one_comes() -> None:
    story = Story(job("load"))
    key = JobKey("load", 0)
    story.run(leases={key: lease(1)})
    story.result("load", 0, result(1, Outcome.FAILED, 3, "no such table"))
    waiting = {key: Waiting(2, 0, NOW_S + 11.5)}
    assert story.run(waiting=waiting) == ["load: attempt 1 Failed (exit code 3) in 1.5 s; again in 10.0 s"]
    assert story.run(leases={key: lease(2, attempt=2)}) == ["load: Running, attempt 2"]
    story.result("load", 0, result(2, Outcome.TIMED_OUT, -15, "stopped at its time limit of 1s\nbye"))
    assert story.run(tasks={"load": ended(failed="0")}) == ["load: Failed (stopped at its time limit of 1s) in 1.5 s"]


def test_an_attempt_that_ends_and_begins_again_in_one_write_is_told_as_both() -> None:
    story = Story(job("load"))
    story.run(leases={JobKey("load", 0): lease(1)})
    story.result("load", 0, result(1, Outcome.FAILED, -9))
    assert story.run(leases={JobKey("load", 0): lease(2, attempt=2)}) == [
        "load: attempt 1 Failed (signal 9) in 1.5 s",
        "load: Running, attempt 2",
    ]


def test_a_result_of_an_earlier_attempt_does_not_speak_for_a_later_one() -> None:
    story = Story(job("load"))
    story.run(leases={JobKey("load", 0): lease(1)})
    story.result("load", 0, result(1, Outcome.FAILED, 1))
    story.run(leases={JobKey("load", 0): lease(2, attempt=2)})
    assert story.run(waiting={JobKey("load", 0): Waiting(2, 1, NOW_S)}) == ["load: attempt 2 is lost; again at once"]


def test_jobs_that_end_without_having_run_are_told_of_together() -> None:
    story = Story(job("bad"), job("after", "bad", count=10), job("last", "after"))
    story.run(leases={JobKey("bad", 0): lease(1)})
    skipped = {"bad": ended(failed="0"), "after": ended(skipped="0-9"), "last": ended(skipped="0")}
    assert story.run(tasks=skipped)[1:] == ["after: 10 jobs Skipped", "last: Skipped"]


def test_a_cancelled_job_that_ran_is_not_counted_among_those_that_never_did() -> None:
    story = Story(job("wide", count=5))
    story.run(leases={JobKey("wide", 0): lease(1)})
    assert story.run(tasks={"wide": ended(cancelled="0-4")}) == ["wide[0]: Cancelled", "wide: 4 jobs Cancelled"]


def test_that_jobs_wait_for_a_slot_is_not_worth_a_line_but_a_cancellation_is() -> None:
    story = Story(job("wide", count=5))
    assert story.run(reason="PoolFull", message="all 4 slots are taken") == []
    assert story.run(reason="Cancelling", message="3 jobs are being stopped") == [
        "Cancelling: 3 jobs are being stopped"
    ]


def test_a_task_stands_at_the_worst_of_its_jobs_and_waits_for_its_parents() -> None:
    story = Story(job("a", count=3), job("b", "a"), job("c"), job("d", "c"))
    story.run(tasks={"a": ended(succeeded="0", failed="2")}, leases={JobKey("a", 1): lease(2)})
    rows = {row.task.name: row for row in story.ledger.rows()}
    assert (rows["a"].phase, rows["a"].done, rows["a"].running) == (JobPhase.RUNNING, 2, 1)
    assert (rows["b"].phase, rows["c"].phase, rows["d"].phase) == (JobPhase.PENDING, JobPhase.QUEUED, JobPhase.PENDING)
    story.run(tasks={"a": ended(succeeded="0-1", failed="2"), "b": ended(skipped="0"), "c": ended(succeeded="0")})
    phases = [row.phase for row in story.ledger.rows()]
    assert phases == [JobPhase.FAILED, JobPhase.SUCCEEDED, JobPhase.SKIPPED, JobPhase.QUEUED]


def test_jobs_as_json_tell_what_is_known_and_leave_out_what_is_not() -> None:
    story = Story(job("a", count=2), job("b", "a"))
    story.run(leases={JobKey("a", 0): lease(1), JobKey("a", 1): lease(1)})
    story.result("a", 0, Result(1, Outcome.SUCCEEDED, 0, NOW_S, NOW_S + 1, "", "42"))
    story.run(tasks={"a": ended(succeeded="0")}, leases={JobKey("a", 1): lease(1)})
    assert list(story.ledger.jobs()) == [
        {
            "task": "a",
            "index": 0,
            "phase": "Succeeded",
            "attempts": 1,
            "exitCode": 0,
            "startTime": "2026-11-30T00:53:20.000Z",
            "finishTime": "2026-11-30T00:53:21.000Z",
            "output": "42",
        },
        {"task": "a", "index": 1, "phase": "Running", "attempts": 1},
        {"task": "b", "index": 0, "phase": "Pending", "attempts": 0},
    ]


def test_the_table_counts_outcomes_and_attempts_and_the_failures_stand_below() -> None:
    story = Story(job("load", count=3), job("report", "load"))
    story.run(leases={JobKey("load", 0): lease(1), JobKey("load", 2): lease(1, attempt=2)})
    load = TaskState(
        {JobPhase.SUCCEEDED: parse_intervals("0-1"), JobPhase.FAILED: parse_intervals("2")}, NOW_S, NOW_S + 63
    )
    story.run(
        tasks={"load": load, "report": ended(skipped="0")},
        failures={JobKey("load", 2): "Failed exit 3: first\nlast"},
    )
    assert summary_lines(story.ledger) == [
        "TASK    JOBS  OUTCOME                DURATION  ATTEMPTS",
        "load    3     2 Succeeded, 1 Failed  1m3s      3",
        "report  1     Skipped                -         -",
        "load[2]: Failed exit 3: first",
        "  last",
    ]


def test_short_spans_show_tenths_and_long_ones_units() -> None:
    assert [span_text(seconds) for seconds in (-1, 0.04, 1.26, 59.96, 3725)] == [
        "0.0 s",
        "0.0 s",
        "1.3 s",
        "59s",
        "1h2m5s",
    ]
