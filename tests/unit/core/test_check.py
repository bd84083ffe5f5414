"""All that can be wrong with a DAG, found at once."""

from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest

from fencepost.core.check import CheckedDag, check_dag
from fencepost.core.dag_spec import DagSpec
from fencepost.core.definition import FAN_OUT_MAX, RUN_BYTES_MAX, TASKS_MAX, Task
from fencepost.core.schedule_spec import ScheduleSpec
from tests.unit.support.builders import NOW_S, a_definition, a_task

ZONES = {"UTC": ZoneInfo("UTC"), "Europe/Berlin": ZoneInfo("Europe/Berlin")}


def a_spec(*tasks: Task, params: dict[str, str] | None = None, crons: tuple[str, ...] = ()) -> DagSpec:
    """A DAG of these tasks; of one if there are none."""
    return DagSpec(a_definition(*(tasks or [a_task("a")]), params=tuple((params or {}).items())), ScheduleSpec(crons))


def checked(spec: DagSpec) -> CheckedDag:
    """The DAG, which has nothing wrong with it."""
    found = check_dag(spec, ZONES.get)
    assert isinstance(found, CheckedDag), found
    return found


def problems(spec: DagSpec) -> list[str]:
    """Everything that is wrong, as people read it."""
    found = check_dag(spec, ZONES.get)
    assert isinstance(found, list)
    return [f"{problem.reason}: {problem}" for problem in found]


def test_a_dag_that_is_right_comes_back_compiled() -> None:
    dag = checked(a_spec(a_task("b", "a"), a_task("a"), crons=("0 3 * * *", "30 12 * * *")))

    assert [task.name for task in dag.graph.order] == ["a", "b"]
    assert [cron.text for cron in dag.schedule.crons] == ["0 3 * * *", "30 12 * * *"]


def test_the_next_slot_is_the_first_of_any_expression_in_the_dags_zone() -> None:
    spec = a_spec(crons=("0 15 * * *", "0 3 * * *"))

    assert checked(spec).schedule.next_slot(NOW_S) == NOW_S + 2 * 3600
    assert (
        checked(replace(spec, schedule=replace(spec.schedule, time_zone="Europe/Berlin"))).schedule.next_slot(NOW_S)
        == NOW_S + 1 * 3600
    )


def test_a_slot_at_a_moment_is_not_after_it() -> None:
    assert checked(a_spec(crons=("0 13 * * *",))).schedule.next_slot(NOW_S) == NOW_S + 86_400


@pytest.mark.parametrize("crons", [(), ("0 0 30 2 *",)])
def test_a_dag_without_a_schedule_or_with_one_that_never_fires_has_no_next_slot(crons: tuple[str, ...]) -> None:
    assert checked(a_spec(crons=crons)).schedule.next_slot(NOW_S) is None


def test_everything_that_is_wrong_is_told_at_once_each_at_its_place() -> None:
    a = replace(
        a_task("a", "b"),
        command=("echo", "$(params.zone)"),
        args=("fine", "$(date)"),
        env=(("DAY", "$(run.scheduledTime)"), ("ZONE", "$(oops")),
    )
    spec = a_spec(a, params={"region": "eu"})
    wrong = ScheduleSpec(("0 3 * * *", "61 * * * *"), time_zone="Mars/Olympus")
    spec = replace(spec, schedule=wrong)

    found = problems(spec)

    assert [problem.split(":")[0] + ":" + problem.split(":")[1] for problem in found] == [
        "UnknownParent: spec.tasks[0].dependsOn[0]",
        "InvalidCron: spec.schedule.cron[1]",
        "InvalidTimeZone: spec.schedule.timeZone",
        "UnknownReference: spec.tasks[0].command[1]",
        "UnknownReference: spec.tasks[0].args[1]",
        "UnterminatedReference: spec.tasks[0].env[1].value",
    ]


def test_a_zone_that_does_not_exist_is_refused_with_an_example() -> None:
    assert problems(replace(a_spec(), schedule=ScheduleSpec(time_zone="Mars/Olympus"))) == [
        "InvalidTimeZone: spec.schedule.timeZone: 'Mars/Olympus' is no time zone; use an IANA name: Europe/Berlin"
    ]


def test_a_reference_to_a_param_of_the_dag_is_fine() -> None:
    checked(a_spec(replace(a_task("a"), command=("echo", "$(params.region)")), params={"region": "eu"}))


def test_a_dag_whose_runs_could_outgrow_an_object_is_refused_with_the_sizes() -> None:
    tasks = [a_task(f"task-{number}", count=FAN_OUT_MAX) for number in range(9)]

    (problem,) = problems(a_spec(*tasks))

    assert problem.startswith("RunTooLarge: spec.tasks: a run of these 90000 jobs could grow to ")
    assert problem.endswith(
        f" bytes, {RUN_BYTES_MAX} are allowed; split the DAG, shorten the names of its tasks, or refer to fewer outputs"
    )


def test_a_name_that_nothing_before_a_task_has_is_refused_wherever_it_stands() -> None:
    tasks = [
        a_task("a"),
        a_task("b", "a"),
        a_task("c", "b", args=("$(tasks.a.output)", "$(tasks.d.output)", "$(tasks.c.output)")),
        a_task("d", when="tasks.a.status == 'Failed' && params.region == 'eu'"),
        a_task("e", items_from="lost"),
        a_task("f", "b", items_from="a", when="tasks['a'].failed > 1"),
    ]

    assert problems(a_spec(*tasks)) == [
        "UnknownReference: spec.tasks[2].args[1]: $(tasks.d.output) is about task 'd', and no task of that name comes "
        "before this one; correct the name, or add the task to dependsOn",
        "UnknownReference: spec.tasks[2].args[2]: $(tasks.c.output) is about task 'c', and no task of that name comes "
        "before this one; correct the name, or add the task to dependsOn",
        "UnknownReference: spec.tasks[3].when: params.region names no param of this DAG (it has: none); correct the "
        "name, or declare it under spec.params",
        "UnknownReference: spec.tasks[3].when: tasks.a.status is about task 'a', and no task of that name comes before "
        "this one; correct the name, or add the task to dependsOn",
        "UnknownReference: spec.tasks[4].forEach.from: forEach is about task 'lost', and no task of that name comes "
        "before this one; correct the name, or add the task to dependsOn",
    ]


def test_a_condition_that_is_none_is_refused_with_its_place() -> None:
    (problem,) = problems(a_spec(a_task("a"), a_task("b", when="params.x =")))

    assert problem.startswith("InvalidCondition: spec.tasks[1].when: column 10: Syntax error")


def test_names_are_not_looked_for_in_a_graph_that_is_none() -> None:
    found = problems(a_spec(a_task("a", "b"), a_task("b", "a", args=("$(tasks.c.output)", "$(what)"))))

    assert [each.split(":")[0] for each in found] == ["Cycle", "UnknownReference"]


def test_outputs_that_are_kept_take_room_that_tasks_then_do_not_have() -> None:
    tasks = [a_task(f"task-{number:04}") for number in range(4000)]
    asking = [
        a_task(f"ask-{number}", f"task-{number:04}", args=(f"$(tasks.task-{number:04}.output)",))
        for number in range(12)
    ]

    assert checked(a_spec(*tasks))
    assert problems(a_spec(*tasks, *asking))[0].startswith("RunTooLarge")


def test_a_thousand_tasks_may_come_before_each_other_in_every_way_and_are_checked_at_once() -> None:
    names = [f"t{number}" for number in range(1000)]
    tasks = [
        a_task(name, *names[max(0, place - 50) : place], args=("$(tasks.t0.output)",) if place else ())
        for place, name in enumerate(names)
    ]

    assert checked(a_spec(*tasks)).graph.outputs_kept == {"t0": 2048}


def test_a_dag_may_have_five_thousand_tasks() -> None:
    tasks = [a_task("step-0000"), *[a_task(f"step-{n:04}", f"step-{n - 1:04}") for n in range(1, TASKS_MAX)]]

    assert checked(a_spec(*tasks)).graph.size == TASKS_MAX


@pytest.mark.parametrize(
    ("schedule", "fact"),
    [
        (ScheduleSpec(), "without a schedule the DAG is never finished"),
        (ScheduleSpec(("0 3 * * *",)), "the schedule never ends"),
        (ScheduleSpec(("0 3 * * *",), at=(int(NOW_S),)), "the schedule never ends"),
    ],
)
def test_only_a_dag_whose_schedule_ends_can_go_when_it_is_finished(schedule: ScheduleSpec, fact: str) -> None:
    remedy = "give schedule.notAfter, use schedule.at alone, or remove it"

    assert problems(replace(a_spec(), schedule=schedule, ttl_s=60.0)) == [
        f"NeverFinished: spec.ttlAfterFinished: {fact}; {remedy}"
    ]
    for ending in (ScheduleSpec(at=(1,)), ScheduleSpec(("0 3 * * *",), not_after_s=1)):
        assert checked(replace(a_spec(), schedule=ending, ttl_s=60.0)).schedule.ends


def test_a_text_that_no_process_could_be_given_is_refused() -> None:
    task = replace(a_task("a"), command=("sh", "-c", "echo \0"), env=(("HOME", "/\0"),))

    assert problems(a_spec(task, params={"day": "\0", "night": "x"})) == [
        f"NulCharacter: {path}: no process can be given a NUL character; remove it"
        for path in ("spec.params[day]", "spec.tasks[0].command[2]", "spec.tasks[0].env[0].value")
    ]
