"""`fencepost check`: one line for each problem or for each object that has none, and the exit code."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli import app, check
from tests.unit.cli.files import dag, dag_run, task, write

EXAMPLES = Path(__file__).parents[3] / "charts" / "fencepost" / "examples"


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Check some objects, which are written to `a.yaml`: exit code, lines on stdout, lines on stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*objects: object, files: tuple[str, ...] = ("a.yaml",)) -> tuple[int, list[str], list[str]]:
        if objects:
            write(tmp_path / "a.yaml", *objects)
        code = app.main(["check", *files])
        output = capsys.readouterr()
        return code, output.out.splitlines(), output.err.splitlines()

    return run


def test_a_fine_dag_is_summed_up_in_one_line(call: Any) -> None:
    wide = task("load", "true", "extract", forEach={"count": 100})
    want = "a.yaml: DAG analytics/etl: fine, 2 tasks, 101 jobs"
    assert call(dag("etl", task("extract"), wide, metadata={"namespace": "analytics"})) == (0, [want], [])


def test_a_fine_dag_tells_when_it_is_due_next_in_its_own_zone(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.cli.app.SystemClock.now_s", lambda _self: 1796043600.0)  # 2026-11-30T13:00:00Z
    schedule = {"cron": ["0 3 * * *"], "timeZone": "Europe/Berlin"}
    code, lines, _ = call(
        dag("etl", schedule=schedule),
        dag("paused", schedule=schedule, suspend=True),
        dag("never", schedule={"cron": ["0 0 30 2 *"]}),
    )
    assert code == 0
    assert [line.split("1 job, ")[1] for line in lines] == ["next 2026-12-01T03:00:00+01:00", "suspended", "next never"]


def test_everything_that_is_wrong_with_a_dag_is_said_at_once_with_path_fact_and_remedy(call: Any) -> None:
    schedule = {"cron": ["61 * * * *"], "timeZone": "Mars/Base"}
    tasks = task("a", "true", "b"), task("b", "true", "nix"), task("c", "echo $(params.day)")
    code, lines, _ = call(dag("etl", *tasks, schedule=schedule))
    assert code == 2
    assert all(line.startswith("a.yaml: DAG etl: spec.") and "; " in line for line in lines)
    assert [line.split(": ")[2] for line in lines] == [
        "spec.tasks[1].dependsOn[0]",
        "spec.schedule.cron[0]",
        "spec.schedule.timeZone",
        "spec.tasks[2].command[2]",
    ]


def test_a_cycle_is_spelled_out(call: Any) -> None:
    code, lines, _ = call(dag("etl", task("a", "true", "b"), task("b", "true", "a")))
    assert code == 2
    assert any("a -> b -> a" in line or "b -> a -> b" in line for line in lines)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        ({"specs": {}}, "specs: there is no such field"),
        ({"apiVersion": "fencepost.dev/v1"}, "apiVersion: 'fencepost.dev/v1' does not exist"),
        ({"apiVersion": None}, "apiVersion: None does not exist"),
        ({"metadata": {"name": "Etl"}}, "metadata.name: 'Etl' is not a name"),
        ({"metadata": {}}, "metadata.name: it is missing"),
        ({"metadata": {"name": "etl", "labels": {"cost": 1}}}, "metadata.labels.cost: 1 is not a text"),
        ({"metadata": {"name": "etl", "annotations": []}}, None),
        ({"metadata": {"name": "etl", "annotations": ["x"]}}, "metadata.annotations: it is not a map"),
        ({"spec": {"tasks": [task("a", maxParallel=10**30)]}}, "spec.tasks[0].maxParallel"),
        ({"spec": None}, "spec: None does not fit"),
        ({"spec": {"tasks": []}}, "spec.tasks"),
        ({"spec": {"tasks": [task("a", executor="Pods")]}}, "spec.tasks[0].executor: it is not supported yet"),
    ],
)
def test_what_surrounds_the_spec_is_looked_at_too(change: dict[str, Any], want: str | None, call: Any) -> None:
    code, lines, _ = call({**dag("etl"), **change})
    if want is None:
        assert code == 0
    else:
        assert code == 2
        assert any(f": {want}" in line for line in lines), lines


@pytest.mark.parametrize(
    ("run", "want"),
    [
        (dag_run({"generateName": "etl-"}), None),
        (dag_run({"name": "etl-tuesday"}), None),
        (dag_run({"name": "etl-1796050800"}), "are those of scheduled runs; choose another name"),
        (dag_run({"name": "etl", "labels": {"fencepost.dev/shard": "3"}}), "only the operator sets the label"),
        (dag_run({"name": "etl"}, status={"phase": "Running"}), "status: only the operator writes it"),
        (dag_run({"name": "etl"}, spec={"dag": "etl", "revision": "etl-0123456789"}), "leave them out"),
        (dag_run({"name": "etl"}, spec={"dag": "etl", "trigger": "Schedule"}), "created with its status"),
        (
            dag_run({"name": "etl"}, spec={"dag": "etl", "trigger": "Backfill"}),
            "a run of a slot names its scheduledTime",
        ),
        (dag_run({"name": "etl"}, spec={}), "spec.dag: it is missing"),
    ],
)
def test_a_run_made_by_hand_is_judged_as_its_admission_would(run: dict[str, Any], want: str | None, call: Any) -> None:
    code, lines, _ = call(run)
    if want is None:
        assert (code, lines[0].split(": ")[2]) == (0, "fine")
    else:
        assert code == 2
        assert any(want in line for line in lines), lines


def test_a_pool_is_checked(call: Any) -> None:
    pool = {"apiVersion": "fencepost.dev/v1alpha1", "kind": "WorkerPool", "metadata": {"name": "default"}}
    assert call(pool) == (0, ["a.yaml: WorkerPool default: fine"], [])
    code, lines, _ = call(pool | {"spec": {"maxSharePerDAG": "200%"}})
    assert code == 2
    assert lines[0].startswith("a.yaml: WorkerPool default: spec.maxSharePerDAG: '200%'")


def test_objects_of_others_are_skipped_and_no_reason_to_fail(call: Any) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}}
    code, lines, _ = call(config, dag("etl"))
    assert code == 0
    assert lines[0] == "a.yaml: ConfigMap cm: skipped, as it is no object of Fencepost"
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ("just text", "document number 1: it is not a map"),
        ({"metadata": {}}, "document number 1: kind: it is missing"),
        (
            {"apiVersion": "fencepost.dev/v1alpha1", "kind": "Worker", "metadata": {"name": "w"}},
            "Worker w: kind: 'Worker' is not a kind that people write",
        ),
        (
            {"apiVersion": "fencepost.dev/v1alpha1", "kind": "Dag", "metadata": {"name": "etl"}},
            "Dag etl: kind: 'Dag' is not a kind that people write",
        ),
    ],
)
def test_what_is_no_object_that_people_write_is_refused(value: object, want: str, call: Any) -> None:
    code, lines, _ = call(value)
    assert code == 2
    assert lines[0].startswith(f"a.yaml: {want}")


def test_the_items_of_a_list_are_checked_one_by_one(call: Any) -> None:
    code, lines, _ = call({"apiVersion": "v1", "kind": "List", "items": [dag("a"), dag("b")]})
    assert code == 0
    assert [line.split(": ")[1] for line in lines] == ["DAG a", "DAG b"]


def test_a_folder_is_walked_and_everything_else_in_it_left_alone(tmp_path: Path, call: Any) -> None:
    (tmp_path / "dags" / "team").mkdir(parents=True)
    write(tmp_path / "dags" / "b.yml", dag("b"))
    write(tmp_path / "dags" / "team" / "a.json", dag("a"))
    (tmp_path / "dags" / "notes.txt").write_text("[")
    code, lines, _ = call(files=("dags",))
    assert code == 0
    assert [line.split(": ")[0] for line in lines] == ["dags/b.yml", "dags/team/a.json"]


def test_standard_input_is_read_from_a_dash(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfkind: ConfigMap\napiVersion: v1\nmetadata: {name: cm}\n"))
    monkeypatch.setattr(sys, "stdin", text)
    assert call(files=("-",)) == (
        0,
        ["standard input: ConfigMap cm: skipped, as it is no object of Fencepost"],
        [],
    )


@pytest.mark.parametrize(
    ("content", "want"),
    [
        (b"a: 1\nb: [\n", "fencepost: a.yaml: line 3, column 1: "),
        (b"kind: \xff\n", "fencepost: a.yaml: byte 6 is not UTF-8; store it as UTF-8"),
        (b"# nothing\n---\n", "fencepost: a.yaml: it holds no object; write one, or name another file"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_and_the_next_one_looked_at(
    content: bytes, want: str, tmp_path: Path, call: Any
) -> None:
    (tmp_path / "a.yaml").write_bytes(content)
    write(tmp_path / "b.yaml", dag("etl"))
    code, lines, errors = call(files=("a.yaml", "b.yaml"))
    assert code == 2
    assert errors[0].startswith(want)
    assert lines == ["b.yaml: DAG etl: fine, 1 task, 1 job"]


def test_a_file_that_is_not_there_and_an_empty_folder_are_refused(tmp_path: Path, call: Any) -> None:
    (tmp_path / "empty").mkdir()
    code, lines, errors = call(files=("nix.yaml", "empty"))
    assert (code, lines) == (2, [])
    assert errors == [
        "fencepost: nix.yaml: it cannot be read: no such file or directory; name a file that you may read",
        "fencepost: empty: the folder holds no file that ends in .yaml, .yml, .json; name another",
    ]


def test_a_dag_larger_than_any_api_server_stores_is_refused(call: Any) -> None:
    code, lines, _ = call(dag("etl", *(task(f"t{n}", "x" * 8000) for n in range(200))))
    assert code == 2
    assert lines == ["a.yaml: DAG etl: the object has 1570 KiB, of 1536 KiB that an API server stores; split it"]


def test_a_dag_too_large_for_a_plain_kubectl_apply_says_so_and_is_fine(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "CLIENT_APPLY_BYTES_MAX", 4096)
    code, lines, _ = call(dag("etl", *(task(f"t{n}", "x" * 100) for n in range(40))))
    assert code == 0
    assert lines[0].endswith("KiB, so kubectl apply needs --server-side")


def test_every_example_is_fine(call: Any) -> None:
    code, lines, errors = call(files=(str(EXAMPLES),))
    assert (code, errors) == (0, [])
    assert len(lines) >= 4
