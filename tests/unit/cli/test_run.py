"""`fencepost run`: real jobs as real processes on this machine, from the file to the exit code."""

import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from fencepost.cli import app
from fencepost.cli.run import default_slots
from tests.unit.cli.files import dag, task, write

EXAMPLES = Path(__file__).parents[3] / "charts" / "fencepost" / "examples"


class Done(NamedTuple):
    code: int
    lines: list[str]
    """On standard output."""
    errors: list[str]


class Ended(NamedTuple):
    code: int
    run: dict[str, Any]
    jobs: dict[str, dict[str, Any]]
    """By `task/index`."""
    errors: list[str]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a DAG, or what stands in a file already, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*objects: object, options: tuple[str, ...] = ()) -> Done:
        file = write(tmp_path / "dag.yaml", *objects)
        code = app.main(["run", file, *options])
        output = capsys.readouterr()
        return Done(code, output.out.splitlines(), output.err.splitlines())

    return run


@pytest.fixture
def outcome(call: Any) -> Any:
    """Run a DAG and read what it says of itself as JSON."""

    def run(*objects: object, options: tuple[str, ...] = ()) -> Ended:
        done = call(*objects, options=(*options, "--output", "json"))
        whole = json.loads("\n".join(done.lines))
        jobs = {f"{job['task']}/{job['index']}": job for job in whole["jobs"]}
        return Ended(done.code, whole["run"], jobs, done.errors)

    return run


def table_of(done: Done) -> list[str]:
    """The lines between the headings and the last one."""
    heading = next(place for place, line in enumerate(done.lines) if line.split()[:2] == ["TASK", "JOBS"])
    return done.lines[heading + 1 : -1]


def test_a_chain_runs_in_order_and_ends_with_a_table_and_one_line(call: Any, tmp_path: Path) -> None:
    steps = [task("one", "echo 1 >> log"), task("two", "echo 2 >> log", "one"), task("three", "echo 3 >> log", "two")]
    done = call(dag("chain", *steps))
    assert done.code == 0
    assert (tmp_path / "log").read_text().split() == ["1", "2", "3"]
    assert [line.split()[:3] for line in table_of(done)] == [
        ["one", "1", "Succeeded"],
        ["two", "1", "Succeeded"],
        ["three", "1", "Succeeded"],
    ]
    assert done.lines[-1].startswith("run chain-")
    assert done.lines[-1].split(": ")[1].startswith("Succeeded in ")
    assert done.errors == []


def test_a_graph_whose_shape_its_jobs_decide_runs_here_as_on_a_cluster(call: Any) -> None:
    done = call(yaml.safe_load((EXAMPLES / "branches.yaml").read_text()))

    assert done.code == 0, done.lines
    assert [line.split()[:3] for line in table_of(done)] == [
        ["parts", "1", "Succeeded"],
        ["weigh", "3", "Succeeded"],
        ["announce", "1", "Succeeded"],
        ["ship", "2", "Succeeded"],
        ["last", "1", "Succeeded"],
    ]
    assert 'announce | a large order, of these weights: ["5","7","5"]' in done.lines
    assert {"ship[0] | on its way north", "ship[1] | on its way south"} <= set(done.lines)
    assert "last | the run so far: Succeeded, failed: []" in done.lines


def test_each_change_of_a_job_is_a_line_and_its_output_stands_under_its_name(call: Any) -> None:
    done = call(
        dag("talk", task("say", "echo hello; echo you"), task("each", "echo $FENCEPOST_INDEX", forEach={"count": 2}))
    )
    for line in ("say: Running", "say | hello", "say | you", "each[1]: Running", "each[1] | 1"):
        assert line in done.lines
    assert any(line.startswith("each[1]: Succeeded in ") for line in done.lines)


def test_a_quiet_run_does_not_show_what_jobs_print(call: Any) -> None:
    done = call(dag("talk", task("say", "echo hello")), options=("--quiet",))
    assert "say: Running" in done.lines
    assert not any("hello" in line for line in done.lines)


def test_a_dag_of_trues_ends_in_under_a_second(outcome: Any) -> None:
    chain = [task("a"), task("b", "true", "a"), task("c", "true", "b")]
    want = "0s"  # whole seconds, rounded down; the best of some tries, as this machine may have other work to do
    assert any(outcome(dag("quick", *chain)).run["status"]["duration"] == want for _ in range(5))


def test_every_job_of_a_fan_out_runs_once_and_sees_its_own_index(outcome: Any, tmp_path: Path) -> None:
    ended = outcome(dag("wide", task("each", "echo $FENCEPOST_INDEX > out-$FENCEPOST_INDEX", forEach={"count": 20})))
    assert ended.code == 0
    assert sorted(int(file.read_text()) for file in tmp_path.glob("out-*")) == list(range(20))
    assert [job["attempts"] for job in ended.jobs.values()] == [1] * 20


def test_no_more_jobs_run_at_a_time_than_there_are_slots(call: Any, tmp_path: Path) -> None:
    # Each job leaves a mark for a while, and counts the marks of those that run beside it.
    count = "ls mark-* | wc -l >> seen; sleep 0.02"
    script = f"touch mark-$FENCEPOST_INDEX; for _ in 1 2 3 4 5; do {count}; done; rm mark-$FENCEPOST_INDEX"
    done = call(dag("narrow", task("each", script, forEach={"count": 6})), options=("--slots", "2"))
    assert done.code == 0
    assert max(map(int, (tmp_path / "seen").read_text().split())) == 2


def test_a_failed_job_is_started_again_and_told_which_attempt_it_is(outcome: Any) -> None:
    flaky = task("flaky", "test $FENCEPOST_ATTEMPT = 3", retries={"limit": 2, "backoff": {"base": "1ms"}})
    ended = outcome(dag("again", flaky))
    assert ended.code == 0
    assert ended.jobs["flaky/0"]["attempts"] == 3
    assert ended.jobs["flaky/0"]["exitCode"] == 0
    lines = [line for line in ended.errors if line.startswith("flaky: attempt ")]
    assert [line.partition(" in ")[0] for line in lines] == [
        "flaky: attempt 1 Failed (exit code 1)",
        "flaky: attempt 2 Failed (exit code 1)",
    ]


def test_what_depends_on_a_failed_task_is_skipped_and_the_rest_still_runs(call: Any, tmp_path: Path) -> None:
    done = call(
        dag(
            "broken",
            task("bad", "echo 'no such table: users' >&2; exit 3"),
            task("after", "touch after", "bad", forEach={"count": 3}),
            task("beside", "touch beside"),
        )
    )
    assert done.code == 1
    assert [path.name for path in tmp_path.glob("*side")] == ["beside"]
    assert not (tmp_path / "after").exists()
    assert "after: 3 jobs Skipped" in done.lines
    outcomes = {line.split()[0]: line.split()[2] for line in table_of(done)[:3]}
    assert outcomes == {"bad": "Failed", "beside": "Succeeded", "after": "Skipped"}
    assert "bad: Failed exit 3: no such table: users" in done.lines
    assert done.lines[-1].split(": ")[1].startswith("Failed in ")


def test_a_job_beyond_its_time_limit_is_stopped_and_has_failed(outcome: Any) -> None:
    ended = outcome(dag("late", task("late", "sleep 60", timeout="100ms")))
    assert ended.code == 1
    assert ended.jobs["late/0"]["phase"] == "Failed"
    assert "stopped at its time limit" in ended.jobs["late/0"]["message"]


def test_a_command_that_does_not_exist_fails_with_127_and_says_so(outcome: Any) -> None:
    ended = outcome(dag("typo", {"name": "typo", "command": ["no-such-program"]}))
    assert ended.code == 1
    assert ended.jobs["typo/0"]["exitCode"] == 127
    assert "'no-such-program'" in ended.run["status"]["message"]


def test_params_stand_over_the_declared_ones(call: Any) -> None:
    say = {"name": "say", "command": ["echo", "$(params.region) $(params.day)"]}
    done = call(dag("etl", say, params={"region": "eu", "day": "monday"}), options=("--param", "region=us=west"))
    assert "say | us=west monday" in done.lines


def test_as_json_there_is_nothing_on_stdout_but_the_run_and_its_jobs(outcome: Any) -> None:
    ended = outcome(dag("out", task("out", 'printf "[1, 2]" > "$FENCEPOST_OUTPUT"'), task("then", "true", "out")))
    assert ended.code == 0
    assert (ended.run["kind"], ended.run["status"]["phase"], ended.run["status"]["done"]) == (
        "DAGRun",
        "Succeeded",
        "2/2",
    )
    assert ended.jobs["out/0"]["output"] == "[1, 2]"
    assert ended.jobs["out/0"]["finishTime"] <= ended.jobs["then/0"]["startTime"]
    assert "out: Running" in ended.errors


def test_a_schedule_and_its_suspension_do_not_matter_to_a_run_by_hand(outcome: Any) -> None:
    ended = outcome(dag("etl", task("only"), schedule={"cron": ["* * * * *"]}, suspend=True))
    assert ended.code == 0
    assert ended.run["spec"].get("trigger", "Manual") == "Manual"


def test_a_slot_that_falls_due_during_a_run_by_hand_starts_no_run_beside_it(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_the_minute_s = 0.8
    shift_s = 60 - to_the_minute_s - time.time() % 60
    monkeypatch.setattr("fencepost.cli.app.SystemClock.now_s", lambda _self: time.time() + shift_s)
    job, every_minute = task("only", "echo ran >> log; sleep 1.2"), {"cron": ["* * * * *"]}
    assert call(dag("etl", job, schedule=every_minute, concurrency={"policy": "Allow"})).code == 0
    assert (tmp_path / "log").read_text() == "ran\n"


def test_a_dag_keeps_its_own_namespace_and_pool(outcome: Any) -> None:
    say = task("say", 'printf "$FENCEPOST_NAMESPACE" > "$FENCEPOST_OUTPUT"')
    ended = outcome(dag("etl", say, metadata={"namespace": "analytics"}, pool="big"))
    assert (ended.code, ended.jobs["say/0"]["output"]) == (0, "analytics")


def test_of_several_dags_in_a_file_one_has_to_be_chosen(call: Any) -> None:
    dags = dag("first", task("a", "echo one")), dag("second", task("b", "echo two"))
    refused = call(*dags)
    assert (refused.code, refused.lines) == (2, [])
    assert refused.errors[0].endswith("dag.yaml: it holds the DAGs first, second; choose one with --dag")
    assert "b | two" in call(*dags, options=("--dag", "second")).lines
    assert (
        call(*dags, options=("--dag", "third")).errors[0].endswith("it holds no DAG third; choose one of first, second")
    )


@pytest.mark.parametrize(
    ("options", "want"),
    [
        (("--param", "regoin=us"), "DAG etl: it has no param 'regoin'; choose one of region"),
        (("--param", "region"), "--param: 'region' is not of the form K=V; write it like region=eu"),
        (("--slots", "0"), "--slots: 0 is not possible; write a number from 1 to 32"),
        (("--slots", "33"), "--slots: 33 is not possible; write a number from 1 to 32"),
    ],
)
def test_options_that_do_not_fit_the_dag_are_refused(options: tuple[str, ...], want: str, call: Any) -> None:
    done = call(dag("etl", task("only"), params={"region": "eu"}), options=options)
    assert (done.code, done.lines, done.errors) == (2, [], [f"fencepost: {want}"])


def test_a_dag_that_the_cluster_would_refuse_is_not_run(call: Any, tmp_path: Path) -> None:
    done = call(dag("etl", task("a", "touch ran", "b"), task("b", "true", "a"), schedule={"cron": ["x"]}))
    assert (done.code, done.lines) == (2, [])
    assert len(done.errors) == 2
    assert all(line.startswith("fencepost: DAG etl: spec.") for line in done.errors)
    assert not (tmp_path / "ran").exists()


def test_a_file_without_a_dag_is_refused(call: Any) -> None:
    done = call({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}})
    assert done.code == 2
    assert done.errors[0].endswith("dag.yaml: it holds no DAG; name another file")


@pytest.mark.parametrize(
    ("part", "want"),
    [
        ("fencepost.cli.local.Worker.run", "has ended: RuntimeError('out of luck'); please report this"),
        ("fencepost.cli.local.Scheduler.run", "the scheduler has ended: RuntimeError('out of luck')"),
    ],
)
def test_a_part_of_the_cluster_that_fails_ends_the_command_with_its_reason(
    part: str, want: str, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_self: object) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(part, fail)
    done = call(dag("etl", task("only", "sleep 60")))
    assert done.code == 1
    assert len(done.errors) == 1
    assert done.errors[0].startswith("fencepost: ")
    assert want in done.errors[0]


def test_the_folders_of_jobs_are_gone_afterwards(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    assert call(dag("tidy", task("out", 'echo x > "$FENCEPOST_OUTPUT"; echo y > "$FENCEPOST_OUTPUT.more"'))).code == 0
    assert os.listdir(scratch) == []


@pytest.mark.parametrize(("cpus", "want"), [(None, 4), (1, 4), (8, 8), (128, 32)])
def test_there_is_a_slot_for_each_cpu_within_reason(cpus: int | None, want: int) -> None:
    assert default_slots(cpus) == want
