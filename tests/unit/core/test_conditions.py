"""`when`: what can be asked, what is refused beforehand, and what fails when it is asked."""

import time

import pytest

from fencepost.core.conditions import (
    WHEN_LENGTH_MAX,
    Condition,
    ConditionError,
    TaskField,
    TaskReference,
    evaluate,
    parse_condition,
)
from fencepost.core.problems import Problem

PARAMS = {"region": "eu", "a.b": "1"}
RUN = {"name": "etl-1", "scheduledTime": "2026-11-30T13:00:00Z"}
TASKS: dict[str, dict[TaskField, object]] = {
    "extract": {TaskField.STATUS: "Succeeded", TaskField.OUTPUT: "41"},
    "load-data": {
        TaskField.STATUS: "Failed",
        TaskField.OUTPUTS: ["good", "bad"],
        TaskField.FAILED: 2,
        TaskField.SUCCEEDED: 5,
    },
}


def a_condition(text: str) -> Condition:
    found = parse_condition(text)
    assert isinstance(found, Condition), found
    return found


def holds(text: str) -> bool:
    return evaluate(a_condition(text), PARAMS, RUN, TASKS)


def refusal(text: str) -> str:
    found = parse_condition(text)
    assert isinstance(found, Problem), found
    return f"{found.reason}: {found}"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("params.region == 'eu'", True),
        ("params['a.b'] == '2'", False),
        ("params.region in ['us', 'eu'] && !(run.name.startsWith('x'))", True),
        ("has(params.zone) && params.zone == 'b'", False),
        ("tasks.extract.status == 'Succeeded' && int(tasks.extract.output) > 40", True),
        ("tasks['load-data'].failed > 2", False),
        ("tasks['load-data'].succeeded + tasks['load-data'].failed == 7", True),
        ("'bad' in tasks['load-data'].outputs", True),
        ("timestamp(run.scheduledTime).getDayOfWeek('Europe/Berlin') == 1", True),
        ("true // whatever tasks there are", True),
        ("'tasks' == \"tasks\"", True),
    ],
)
def test_an_expression_is_asked_over_params_run_and_tasks(text: str, want: bool) -> None:
    assert holds(text) is want


def test_what_an_expression_refers_to_is_told() -> None:
    condition = a_condition("tasks.a.output == params.x && tasks['b-c'].status == params['y.z'] && .tasks.d.failed > 1")

    assert condition.params == {"x", "y.z"}
    assert condition.tasks == {
        TaskReference("a", TaskField.OUTPUT),
        TaskReference("b-c", TaskField.STATUS),
        TaskReference("d", TaskField.FAILED),
    }


def test_a_name_after_a_dot_is_a_field_and_no_reference() -> None:
    assert a_condition("{'tasks': 1}.tasks == 1").tasks == frozenset()


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("params.region ==", "InvalidCondition: column 17: Syntax error: mismatched input '<EOF>'"),
        ("params.region\n==", "InvalidCondition: line 2, column 3: Syntax error"),
        ("", "InvalidCondition: column 1: Syntax error"),
        ("parms.region == 'eu'", "InvalidCondition: column 6: undeclared reference to 'parms.region'"),
        ("params.region == 1", "InvalidCondition: column 15: found no matching overload for '_==_'"),
        ("params.region", "InvalidCondition: the expression gives string, not true or false"),
        ("tasks.a", "UnknownReference: `tasks` is followed by no name and field in tasks.a"),
        ("tasks.a.outptu == 'x'", "UnknownReference: `tasks` is followed by no name and field in tasks.a"),
        ("tasks.load-data.status == 'x'", "UnknownReference: `tasks` is followed by no name and field in tasks.load"),
        ("'a' in tasks", "UnknownReference: `tasks` is followed by no name and field; write tasks.NAME.FIELD"),
        ("tasks['a\\x62'].status == 'x'", "UnknownReference: `tasks` is followed by no name and field"),
        ("tasks[params.x].status == 'x'", "UnknownReference: `tasks` is followed by no name and field"),
        ("run.uid == 'x'", "UnknownReference: there is no run.uid; use one of dag, name, namespace, scheduledTime"),
        ("[1].exists(x, x == 1)", "InvalidCondition: column 12: undeclared reference to 'x'"),
        ("params.region.matches('e.*')", "InvalidCondition: column 22: undeclared reference to 'matches'"),
        ("params.region + 'x' == 'eux'", "InvalidCondition: column 15: found no matching overload for '_+_'"),
        ("(" * 40 + "true" + ")" * 40, "InvalidCondition: Expression recursion limit exceeded"),
        ("true || " * 200 + "true", f"InvalidCondition: the expression has 1604 characters, {WHEN_LENGTH_MAX} are"),
    ],
)
def test_what_can_be_seen_beforehand_is_refused_with_its_place(text: str, want: str) -> None:
    assert refusal(text).startswith(want)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("params.zone == 'b'", 'Key not found in map : "zone"'),
        ("int(params.region) > 1", "cannot convert string to int"),
        ("1 / (size(params.region) - 2) > 1", "divide by zero"),
        ("tasks.extract.output > 3", "No matching overloads found"),
        ("tasks.extract.status", "it gives string, not true or false"),
        ("tasks.lost.status == 'x'", 'Key not found in map : "lost"'),
    ],
)
def test_an_expression_without_an_answer_says_why(text: str, want: str) -> None:
    with pytest.raises(ConditionError) as caught:
        holds(text)

    assert str(caught.value).startswith(want)


def test_a_fault_of_the_evaluator_is_no_more_than_a_condition_without_an_answer() -> None:
    half_a_character: dict[str, dict[TaskField, object]] = {"a": {TaskField.OUTPUT: "\ud800"}}

    with pytest.raises(ConditionError):
        evaluate(a_condition("tasks.a.output == 'x'"), {}, {}, half_a_character)


@pytest.mark.parametrize(
    "piece",
    [
        "!tasks.a.output.contains('yz0')",
        "size(tasks.a.output) > 1",
        "tasks.a.outputs == tasks.b.outputs",
        "!('z' in tasks.a.outputs)",
        "bytes(tasks.a.output) != b''",
        "string(tasks.a.output) <= tasks.b.output",
    ],
)
def test_no_expression_takes_long_whatever_it_asks_of_outputs_at_their_limits(piece: str) -> None:
    text = " && ".join([piece] * ((WHEN_LENGTH_MAX + 4) // (len(piece) + 4)))
    large: dict[TaskField, object] = {TaskField.OUTPUT: "y" * 65_535, TaskField.OUTPUTS: ["ab"] * 10_000}
    condition = a_condition(text)

    begin_s = time.process_time()
    evaluate(condition, {}, {}, {"a": large, "b": large})

    assert time.process_time() - begin_s < 1.0
