"""What jobs put out, and what follows from it: conditions, lists to fan out over, values for later jobs."""

import json

import pytest

from fencepost.core.definition import FAN_OUT_MAX
from fencepost.core.fan_out import LISTED_JOBS_MAX, ListError
from fencepost.core.inputs import FAILED_TASKS_LENGTH_MAX, has_large_inputs, job_inputs, run_values
from fencepost.core.outputs import LIST_BYTES_MAX, OUTPUT_BYTES_MAX, RUN_OUTPUT_BYTES_MAX, stored_bytes
from fencepost.core.phases import JobPhase, RunPhase
from fencepost.core.rules import Rule
from fencepost.core.run_spec import Rerun, RerunFrom
from fencepost.core.run_state import Outcome
from tests.unit.support.builders import RUN, a_job, a_task
from tests.unit.support.run_stage import RunStage

SUCCEEDED, FAILED, SKIPPED, PENDING = JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.SKIPPED, JobPhase.PENDING
ALL_OUTPUTS = "$(tasks.a.output)$(tasks.b.output)$(tasks.c.output)"
OUTPUT_OF_A = ("$(tasks.a.output)",)


def inputs(run: RunStage, job: str) -> dict[str, str]:
    """What the job gets from the run's record."""
    return job_inputs(run.graph.tasks, a_job(job), run.state)


# Outputs.


def test_an_output_is_kept_from_the_write_that_folds_it_if_somebody_refers_to_it() -> None:
    run = RunStage(
        a_task("a"), a_task("b"), a_task("c", "a", "b", args=(*OUTPUT_OF_A, "$(index)", "$$(tasks.b.output)"))
    )
    run.plan_all()

    run.puts_out("a", "4711\n")
    run.puts_out("b", "nobody asks")
    run.plan()

    assert run.state.outputs == {a_job("a"): "4711"}
    assert inputs(run, "c") == {"tasks.a.output": "4711"}


def test_a_job_that_put_out_nothing_failed_or_was_skipped_has_an_empty_output() -> None:
    run = RunStage(
        a_task("a"), a_task("b"), a_task("c", "b"),
        a_task("d", "a", "b", "c", rule=Rule.ALL_DONE, env=(("X", ALL_OUTPUTS),)),
    )  # fmt: skip
    run.plan_all()

    run.says("a")
    run.says("b", Outcome.FAILED)
    run.plan()

    assert run.state.outputs == {}
    got = inputs(run, "d")
    assert (got["tasks.a.output"], got["tasks.b.output"], got["tasks.c.output"]) == ("", "", "")


def test_the_output_of_a_fan_out_is_a_list_with_a_text_for_each_job() -> None:
    run = RunStage(a_task("a", count=3), a_task("b", "a", rule=Rule.ALL_DONE, args=OUTPUT_OF_A))
    run.plan_all()

    run.puts_out("a/2", 'say "ü"')
    run.says("a/1", Outcome.FAILED)
    run.puts_out("a/0", "x\n")
    run.plan()

    assert json.loads(inputs(run, "b")["tasks.a.output"]) == ["x", "", 'say "ü"']


@pytest.mark.parametrize("size", [0, 2])
def test_the_output_of_a_fan_out_of_no_jobs_or_of_a_skipped_one_is_an_empty_list(size: int) -> None:
    run = RunStage(a_task("x"), a_task("a", "x", count=size), a_task("b", "a", rule=Rule.ALL_DONE, args=OUTPUT_OF_A))
    run.plan_all()

    run.says("x", Outcome.FAILED)
    run.plan()

    assert inputs(run, "b")["tasks.a.output"] == "[]"


def test_an_output_beyond_its_limit_fails_the_job_with_the_number() -> None:
    run = RunStage(a_task("a", retries=3), a_task("b", "a", args=OUTPUT_OF_A))
    run.plan_all()

    run.puts_out("a", "ü" * (OUTPUT_BYTES_MAX // 2) + "x")
    plan = run.plan()

    assert run.phases("ab") == [FAILED, SKIPPED]
    assert plan.failed == (a_job("a"),)
    assert "its output has more than 2048 bytes" in run.state.failures[a_job("a")]


def test_the_list_of_a_fan_outs_outputs_has_a_limit_of_its_own() -> None:
    run = RunStage(a_task("a", count=40), a_task("b", "a", args=OUTPUT_OF_A))
    run.plan_all()

    for index in range(40):
        run.puts_out(f"a/{index}", "x" * OUTPUT_BYTES_MAX)
    run.plan()

    kept = [text for text in run.state.outputs.values() if text]
    assert len(json.dumps(kept)) <= LIST_BYTES_MAX < len(json.dumps([*kept, kept[0]])) + 40 * 4
    assert "the outputs of task a have more than 65536 bytes as a list" in run.state.failures[a_job("a/31")]


def test_the_outputs_of_a_run_have_a_limit_together_and_count_as_they_are_stored() -> None:
    names = [f"t{number}" for number in range(20)]
    args = tuple(f"$(tasks.{name}.output)" for name in names)
    run = RunStage(*[a_task(name) for name in names], a_task("end", *names, args=args))
    run.plan_all()

    for name in names:
        run.puts_out(name, "\x01" * OUTPUT_BYTES_MAX)
        run.plan()

    size = sum(stored_bytes(job, output) for job, output in run.state.outputs.items())
    assert RUN_OUTPUT_BYTES_MAX - 6 * OUTPUT_BYTES_MAX < size <= RUN_OUTPUT_BYTES_MAX
    assert "the outputs of this run have more than 131072 bytes together" in run.state.message


def test_what_a_job_put_out_in_an_earlier_round_is_forgotten_when_it_runs_again() -> None:
    run = RunStage(a_task("a"), a_task("b", "a", args=OUTPUT_OF_A))
    run.plan_all()
    run.puts_out("a", "old")
    run.plan_all()
    run.says("b")
    run.plan()

    run.run_again(Rerun(RerunFrom.ALL))
    run.plan_all()
    assert run.state.outputs == {}
    run.puts_out("a", "new")
    run.plan()

    assert inputs(run, "b") == {"tasks.a.output": "new"}


# Conditions.


@pytest.mark.parametrize(("region", "want"), [("eu", PENDING), ("us", SKIPPED)])
def test_a_task_whose_condition_is_false_is_skipped_and_is_no_failure(region: str, want: JobPhase) -> None:
    run = RunStage(a_task("a", count=2, when="params.region == 'eu'"), a_task("b", rule=Rule.ALL_DONE))
    run.values = {"params.region": region, "run.name": "r"}

    run.plan()

    assert run.phases(["a/0", "a/1"]) == [want, want]


def test_branches_of_which_one_is_taken_meet_again() -> None:
    run = RunStage(
        a_task("a"),
        a_task("left", "a", when="tasks.a.output == 'left'"),
        a_task("right", "a", when="tasks.a.output != 'left'"),
        a_task("end", "left", "right", rule=Rule.NONE_FAILED),
    )
    run.plan_all()

    run.puts_out("a", "left\n")
    run.plan_all()
    run.says("left")
    run.plan_all()
    run.says("end")
    run.plan()

    assert run.phases(["left", "right", "end"]) == [SUCCEEDED, SKIPPED, SUCCEEDED]
    assert run.state.phase is RunPhase.SUCCEEDED


def test_a_condition_sees_how_each_task_before_it_ended() -> None:
    text = (
        "tasks.a.status == 'Failed' && tasks.a.failed == 1 && tasks.a.succeeded == 1 && tasks.b.status == 'Skipped'"
        " && tasks.a.outputs == ['x', ''] && tasks.a.output == '[\"x\",\"\"]'"
    )
    run = RunStage(a_task("a", count=2), a_task("b", "a"), a_task("c", "b", rule=Rule.ALL_DONE, when=text))
    run.plan_all()

    run.puts_out("a/0", "x")
    run.says("a/1", Outcome.FAILED)

    assert [demand.task for demand in run.look().demands] == ["c"]


@pytest.mark.parametrize("count", [None, 0, 3])
def test_a_condition_without_an_answer_fails_its_task_with_the_reason_and_nothing_else(count: int | None) -> None:
    run = RunStage(a_task("a", count=count, when="params.zone == 'b'"), a_task("b"), a_task("c", "a"))

    plan = run.plan_all()
    run.says("b")
    run.plan()

    assert plan.failed == tuple(a_job(f"a/{index}") for index in range(count or 1))
    assert run.phases("abc") == [FAILED, SUCCEEDED, SKIPPED]
    assert run.state.failures == {a_job("a"): 'ConditionFailed: Key not found in map : "zone"'}
    assert (run.state.phase, run.state.done) == (RunPhase.FAILED, run.state.total)


def test_a_condition_is_not_asked_again_once_a_job_of_the_task_has_begun() -> None:
    run = RunStage(a_task("a", count=2, when="params.region == 'eu'"))
    run.values = {"params.region": "eu"}
    run.plan(("a", "w1"))

    run.values = {}

    assert [demand.count for demand in run.look().demands] == [1]
    run.says("a/0")
    assert [demand.count for demand in run.look().demands] == [1]


def test_a_task_waits_for_what_comes_before_a_parent_that_was_skipped() -> None:
    run = RunStage(a_task("a"), a_task("slow"), a_task("b", "a", "slow"), a_task("last", "b", rule=Rule.ALL_DONE))
    run.plan_all()

    run.says("a", Outcome.FAILED)
    run.plan_all()
    assert run.phases(["b", "last"]) == [SKIPPED, PENDING]
    run.says("slow")

    assert [demand.task for demand in run.look().demands] == ["last"]


# Lists.


def test_a_list_decides_how_many_jobs_there_are_and_the_run_records_it() -> None:
    run = RunStage(a_task("a"), a_task("b", "a", items_from="a"), a_task("c", "b"))
    run.plan_all()
    assert (run.state.total, run.look().demands) == (3, ())

    run.puts_out("a", '["x", {"y": 1}, "z"]')
    run.plan_all()

    assert (run.state.tasks["b"].size, run.state.total) == (3, 5)
    assert [inputs(run, f"b/{index}")["item"] for index in range(3)] == ["x", '{"y":1}', "z"]
    for index in range(3):
        run.says(f"b/{index}")
    run.plan_all()
    run.says("c")
    run.plan()
    assert (run.state.phase, run.state.done) == (RunPhase.SUCCEEDED, 5)


def test_an_empty_list_is_a_fan_out_of_no_jobs_which_has_succeeded() -> None:
    run = RunStage(a_task("a"), a_task("b", "a", items_from="a"), a_task("c", "b"))
    run.plan_all()

    run.puts_out("a", "[]")
    run.plan_all()

    assert (run.state.total, run.phase("c")) == (2, JobPhase.RUNNING)


@pytest.mark.parametrize(
    ("output", "want"),
    [
        ("", "ListFailed: task a was to put out a JSON list: there is no output"),
        ("x,y", "ListFailed: task a was to put out a JSON list: the output cannot be read as JSON"),
        ('{"x": 1}', "ListFailed: task a was to put out a JSON list: the output is JSON, but not a list"),
        (
            json.dumps([1] * (FAN_OUT_MAX + 1), separators=(",", ":")),
            "ListFailed: the list of task a has 10001 items, and a run can have 10000 jobs whose number an output "
            "decides, 0 of which it has already; put out fewer items",
        ),
    ],
)
def test_what_is_no_list_or_too_long_a_one_fails_the_task_as_one_job(output: str, want: str) -> None:
    run = RunStage(a_task("a"), a_task("b", "a", items_from="a"), a_task("c", "b"))
    run.plan_all()

    run.puts_out("a", output)
    plan = run.plan()

    assert plan.failed == (a_job("b"),)
    assert run.state.failures[a_job("b")].startswith(want)
    assert (run.phases("abc"), run.state.done, run.state.total) == ([SUCCEEDED, FAILED, SKIPPED], 3, 3)


def test_the_lists_of_a_run_share_one_limit() -> None:
    long = json.dumps([1] * (LISTED_JOBS_MAX - 1), separators=(",", ":"))
    run = RunStage(a_task("a"), a_task("b", "a", items_from="a"), a_task("c", "a", items_from="a"))
    run.plan_all()

    run.puts_out("a", long)
    run.plan()

    assert run.state.tasks["b"].size == LISTED_JOBS_MAX - 1
    assert "9999 items" in run.state.failures[a_job("c")]
    assert "9999 of which it has already" in run.state.failures[a_job("c")]


def test_the_outputs_of_a_fan_out_can_be_the_list_of_the_next() -> None:
    run = RunStage(a_task("a", count=2), a_task("b", "a", items_from="a"))
    run.plan_all()

    run.puts_out("a/0", "x")
    run.puts_out("a/1", "y")
    run.plan_all()

    assert [inputs(run, f"b/{index}")["item"] for index in range(2)] == ["x", "y"]


def test_a_skipped_fan_out_over_a_list_counts_as_one_job() -> None:
    run = RunStage(a_task("a"), a_task("b", "a", items_from="a", when="tasks.a.output == 'x'"))
    run.plan_all()

    run.puts_out("a", '["y", "z"]')
    run.plan()

    assert (run.phase("b"), run.state.done, run.state.total) == (SKIPPED, 2, 2)


def test_a_job_without_an_item_in_a_list_that_has_been_made_anew_cannot_be_started() -> None:
    run = RunStage(a_task("a"), a_task("b", "a", items_from="a"))
    run.plan_all()
    run.puts_out("a", '["x"]')
    run.plan_all()

    with pytest.raises(ListError, match="the list of task a has 1 items, none for job b/1"):
        inputs(run, "b/1")


# How the run went so far.


def test_a_task_that_runs_whatever_came_before_is_told_how_the_run_went() -> None:
    run = RunStage(a_task("a"), a_task("b", "a"), a_task("c"), a_task("last", "b", "c", rule=Rule.ALL_DONE))
    run.plan_all()

    run.says("a", Outcome.FAILED)
    run.says("c", Outcome.FAILED)
    run.plan_all()

    assert inputs(run, "last") == {"run.status": "Failed", "run.failedTasks": "a,c"}
    assert inputs(run, "b") == {}


def test_a_run_in_which_nothing_failed_went_well_so_far() -> None:
    run = RunStage(a_task("a"), a_task("last", "a", rule=Rule.ALL_DONE))
    run.plan_all()
    run.says("a")
    run.plan_all()

    assert inputs(run, "last") == {"run.status": "Succeeded", "run.failedTasks": ""}


def test_the_names_of_many_failed_tasks_are_cut_between_two() -> None:
    names = [f"task-with-a-long-name-{number}" for number in range(100)]
    run = RunStage(*[a_task(name) for name in names], a_task("last", *names, rule=Rule.ALL_DONE))
    run.plan_all()
    for name in names:
        run.says(name, Outcome.FAILED)
    run.plan_all()

    told = inputs(run, "last")["run.failedTasks"]

    *whole, dots = told.split(",")
    assert (whole, dots) == (names[: len(whole)], "...")
    assert FAILED_TASKS_LENGTH_MAX - 30 < len(told) <= FAILED_TASKS_LENGTH_MAX


# Where a job's inputs are found.


def test_a_runs_params_stand_over_those_of_its_dag() -> None:
    values = run_values(RUN, "etl", "2026-11-30T13:00:00Z", [("region", "eu"), ("day", "monday")], [("region", "us")])

    assert values == {
        "params.region": "us",
        "params.day": "monday",
        "run.scheduledTime": "2026-11-30T13:00:00Z",
        "run.name": RUN.name,
        "run.namespace": RUN.namespace,
        "run.dag": "etl",
    }


def test_what_a_job_refers_to_is_read_from_the_run_where_it_is_large_or_a_list_of_outputs() -> None:
    run = RunStage(
        a_task("a"), a_task("wide", count=2),
        a_task("b", "a", args=OUTPUT_OF_A), a_task("c", "a", items_from="a"),
        a_task("d", "wide", args=("$(tasks.wide.output)",)), a_task("e", "wide", items_from="wide"),
    )  # fmt: skip
    run.plan_all()
    run.puts_out("a", json.dumps(["x" * 600]))
    run.plan()
    tasks = run.graph.tasks

    large = {name: has_large_inputs(tasks, tasks[name], run.state, 512) for name in "abcde"}

    assert large == {"a": False, "b": True, "c": False, "d": True, "e": True}
