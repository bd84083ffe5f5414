"""Graphs whose shape depends on what their jobs find out, on the real server: outputs, lists, conditions, rules."""

import json

from tests.e2e.support.dags import dag, task
from tests.e2e.support.stage import Stage

THREE = "tasks.each.succeeded == 3 && params.go == 'yes'"
HOW_IT_WENT = "$FENCEPOST_RUN_STATUS $FENCEPOST_FAILED_TASKS"
SEEN = [{"name": "SEEN", "value": "$(tasks.each.output)"}]


def puts_out(text: str) -> list[str]:
    """A command that puts out what a shell makes of this."""
    return ["sh", "-c", f'printf %s "{text}" > $FENCEPOST_OUTPUT']


def test_a_run_spreads_over_a_list_gathers_what_came_of_it_takes_a_branch_and_tells_how_it_went(stage: Stage) -> None:
    run = stage.launch(
        dag(
            "branches",
            task("list", command=puts_out('[\\"a\\", \\"b\\", {\\"c\\": 1}]')),
            task("each", "list", forEach={"from": "list"}, command=puts_out("$FENCEPOST_INDEX=$FENCEPOST_ITEM")),
            task("bad", "list", command=["sh", "-c", "exit 3"]),
            task("few", "each", when="size(tasks.each.outputs) < 3", command=["true"]),
            task("many", "each", when=THREE, env=SEEN, command=puts_out("$SEEN")),
            task("meet", "few", "many", rule="NoneFailed", command=["test", "$(tasks.many.output)", "!=", ""]),
            task("lost", "bad", "many", command=["true"]),
            task("last", "meet", "lost", rule="AllDone", command=puts_out(HOW_IT_WENT)),
            task("told", "last", when="tasks.last.output == 'Failed bad'", command=["true"]),
            params={"go": "no"},
        ),
        params={"go": "yes"},
    )  # fmt: skip

    status = stage.wait_for_phase(run, "Failed")

    assert {name: text.split(" @")[0] for name, text in status["tasks"].items()} == {
        "list": "Succeeded=0",
        "each": "of=3 Succeeded=0-2",
        "bad": "Failed=0",
        "few": "Skipped=0",
        "many": "Succeeded=0",
        "meet": "Succeeded=0",
        "lost": "Skipped=0",
        "last": "Succeeded=0",
        "told": "Succeeded=0",
    }
    assert status["done"] == "11/11"
    assert json.loads(status["outputs"]["many/0"]) == ["0=a", "1=b", '2={"c":1}']
    assert status["outputs"]["last/0"] == "Failed bad"


def test_a_list_near_its_limit_reaches_every_job_and_none_of_it_stands_in_a_mailbox(stage: Stage) -> None:
    items = [f"{number:02}" + "x" * 1300 for number in range(48)]
    text = json.dumps(items, separators=(",", ":"))
    assert 60_000 < len(text) < 65_536
    program = (
        "import json, os; items = ['%02d' % n + 'x' * 1300 for n in range(48)];"
        "open(os.environ['FENCEPOST_OUTPUT'], 'w').write(json.dumps(items))"
    )
    lengths = json.dumps([str(len(item)) for item in items], separators=(",", ":"))
    run = stage.launch(
        dag(
            "long-list",
            task("list", command=["python3", "-c", program]),
            task("each", "list", forEach={"from": "list"}, command=puts_out("${#FENCEPOST_ITEM}")),
            task("gather", "each", command=["test", "$(tasks.each.output)", "=", lengths]),
            task("asks", "list", when="size(tasks.list.output) > 60000", command=["true"]),
        )
    )

    status = stage.wait_for_phase(run, "Succeeded")

    assert status["done"] == "51/51"
    assert json.loads(status["outputs"]["list/0"]) == items


def test_what_cannot_be_asked_or_spread_over_fails_its_task_and_says_why(stage: Stage) -> None:
    run = stage.launch(
        dag(
            "no-list",
            task("list", command=puts_out("a,b")),
            task("each", "list", forEach={"from": "list"}),
            task("asks", "list", when="int(tasks.list.output) > 3"),
            task("large", command=["sh", "-c", "head -c 3000 /dev/zero | tr '\\0' x > $FENCEPOST_OUTPUT"]),
            task("fine", rule="AllDone"),
        )
    )

    status = stage.wait_for_phase(run, "Failed")

    assert status["failures"] == {
        "each/0": "ListFailed: task list was to put out a JSON list: "
        "the output cannot be read as JSON (Expecting value: line 1 column 1 (char 0)): 'a,b'",
        "asks/0": "ConditionFailed: cannot convert string to int",
        "large/0": "Failed exit 0: FENCEPOST_OUTPUT holds more than 2048 bytes; "
        "keep what is larger elsewhere, and write where it is",
    }
    assert status["tasks"]["fine"].startswith("Succeeded=0")


def test_names_that_mean_nothing_show_in_the_dags_condition(stage: Stage) -> None:
    name = stage.apply(dag("no-names", task("a"), task("b", when="tasks.a.status == 'Failed'")))

    status = stage.wait_for_dag(name, "state", "Invalid")

    (ready,) = [each for each in status["conditions"] if each["type"] == "Ready"]
    assert ready["reason"] == "UnknownReference"
    assert (
        "spec.tasks[1].when: tasks.a.status is about task 'a', and no task of that name comes before"
        in ready["message"]
    )
