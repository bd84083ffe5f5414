"""`fencepost next FILE`: the coming times of the DAG in a file."""

from pathlib import Path
from typing import Any

import pytest

from fencepost.cli import app
from fencepost.core.names import DagKey, spread_offset_s
from tests.unit.cli.files import dag, task, write

SCHEDULE = {"cron": ["0 3 * * *", "30 12 * * 1-5"], "timeZone": "Europe/Berlin"}
START = ("--from", "2026-11-30T13:00:00Z")


@pytest.fixture
def call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Ask for the times of what is in a file: exit code, lines on stdout, text on stderr."""

    def run(*objects: object, options: tuple[str, ...] = ()) -> tuple[int, list[str], str]:
        code = app.main(["next", write(tmp_path / "dag.yaml", *objects), *START, *options])
        output = capsys.readouterr()
        return code, output.out.splitlines(), output.err

    return run


def test_the_times_of_all_expressions_come_in_order_in_the_dags_own_zone(call: Any) -> None:
    assert call(dag("etl", schedule=SCHEDULE), options=("--count", "3")) == (
        0,
        ["2026-12-01T03:00:00+01:00", "2026-12-01T12:30:00+01:00", "2026-12-02T03:00:00+01:00"],
        "",
    )


def test_of_a_suspended_dag_the_times_come_with_a_warning(call: Any) -> None:
    code, lines, errors = call(dag("etl", schedule=SCHEDULE, suspend=True))
    assert (code, len(lines)) == (0, 5)
    assert errors == "warning: DAG etl is suspended and has no run until that ends\n"


def test_what_the_schedule_says_beside_its_expressions_is_followed(call: Any) -> None:
    schedule = {
        "cron": ["30 2 * * *"],
        "at": "2027-03-27T10:00:00Z",
        "timeZone": "Europe/Berlin",
        "dst": {"gap": "Skip"},
        "notBefore": "2027-03-27T09:00:00Z",
        "notAfter": "2027-03-29T09:00:00Z",
    }
    assert call(dag("etl", schedule=schedule)) == (
        0,
        ["2027-03-27T11:00:00+01:00", "2027-03-29T02:30:00+02:00"],
        "warning: the schedule is over after that\n",
    )


def test_of_a_dag_with_a_spread_the_moved_times_are_shown(call: Any) -> None:
    daily = {"cron": ["0 12 * * *"], "spread": "60s"}
    _, [first, second], _ = call(dag("etl", schedule=daily), options=("--count", "2"))
    offset_s = spread_offset_s(DagKey("default", "etl"), 60)
    assert (first, second) == (f"2026-12-01T12:00:{offset_s:02}+00:00", f"2026-12-02T12:00:{offset_s:02}+00:00")


def test_of_several_dags_one_is_chosen(call: Any) -> None:
    hourly = dag("hourly", schedule={"cron": ["0 * * * *"]})
    code, lines, _ = call(dag("etl", schedule=SCHEDULE), hourly, options=("--dag", "hourly", "--count", "1"))
    assert (code, lines) == (0, ["2026-11-30T14:00:00+00:00"])


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({}, "fencepost: DAG etl: it has no schedule; add spec.schedule, or name another\n"),
        ({"schedule": {"cron": ["x"]}}, "fencepost: DAG etl: spec.schedule.cron[0]: "),
    ],
)
def test_a_dag_without_a_schedule_that_could_be_followed_is_refused(spec: dict[str, Any], want: str, call: Any) -> None:
    code, lines, errors = call(dag("etl", task("only"), **spec))
    assert (code, lines) == (2, [])
    assert errors.startswith(want)


@pytest.mark.parametrize(
    ("options", "want"),
    [
        (("--cron", "* * * * *"), "two schedules are named; give either FILE or --cron"),
        (("--zone", "UTC"), "--zone: the DAG names its own zone; leave it out"),
        (("--gap", "Skip"), "--gap: the DAG has its own rules, in spec.schedule.dst; leave it out"),
        (("--overlap", "Both"), "--overlap: the DAG has its own rules, in spec.schedule.dst; leave it out"),
    ],
)
def test_a_file_and_a_schedule_of_ones_own_do_not_go_together(options: tuple[str, ...], want: str, call: Any) -> None:
    code, lines, errors = call(dag("etl", schedule=SCHEDULE), options=options)
    assert (code, lines, errors) == (2, [], f"{want}\n")


def test_without_any_schedule_there_is_nothing_to_print(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["next"]) == 2
    assert capsys.readouterr().err == "no schedule is named; give either FILE or --cron\n"
