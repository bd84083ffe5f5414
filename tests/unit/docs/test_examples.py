"""Objects in the documents are as good as they look, and what a command is said to print it prints."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from fencepost.cli import app
from tests.unit.docs.pages import ALL, FOR_USERS, text_of

OBJECTS = [block for block in re.findall(r"(?ms)^```yaml\n(.*?)^```$", text_of(*ALL)) if "kind:" in block]
FRAGMENTS = [block for block in re.findall(r"(?ms)^```yaml\n(.*?)^```$", text_of(*ALL)) if "kind:" not in block]
TYPED = re.findall(r"(?ms)^```console\n(.*?)^```$", text_of(*FOR_USERS))
NEXT = [
    (line, output.splitlines())
    for block in TYPED
    for line, output in re.findall(r"(?m)^\$ (?:\.venv/bin/)?fencepost (next .*--from .*)\n((?:[^$\n].*\n)+)", block)
]


@pytest.mark.parametrize("block", OBJECTS, ids=lambda block: yaml.safe_load(block.split("\n---\n")[0])["kind"])
def test_an_object_is_one_that_a_cluster_takes(block: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text(block)
    assert app.main(["check", str(tmp_path / "a.yaml")]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("block", FRAGMENTS)
def test_a_part_of_a_task_is_one_too(block: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = yaml.safe_load(block)
    tasks = part if isinstance(part, list) else [{"name": "only", "command": ["true"], **part}]
    spec = {"params": {"region": "eu"}, "tasks": tasks}
    dag = {"apiVersion": "fencepost.dev/v1alpha1", "kind": "DAG", "metadata": {"name": "a"}, "spec": spec}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(dag))
    assert app.main(["check", str(tmp_path / "a.yaml")]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(("line", "want"), NEXT, ids=lambda value: value if isinstance(value, str) else "")
def test_the_times_that_a_schedule_is_said_to_have_are_its_times(
    line: str, want: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(shlex.split(line)) == 0
    assert capsys.readouterr().out.splitlines() == want


def test_there_is_something_to_look_at() -> None:
    assert (len(OBJECTS), len(FRAGMENTS), len(NEXT)) == (3, 2, 2)


def test_what_check_is_said_to_find_it_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The README shows what it says, and not of what; this is what."""
    (block,) = [block for block in TYPED if "fencepost check broken.yaml" in block]
    want = [line.removeprefix("broken.yaml") for line in block.splitlines() if line.startswith("broken.yaml: ")]
    tasks = [{"name": name, "command": ["true"], "dependsOn": [parent]} for name, parent in ("ab", "ba")]
    spec = {"schedule": {"cron": ["61 * * * *"], "timeZone": "Europe/Berln"}, "tasks": tasks}
    dag = {"apiVersion": "fencepost.dev/v1alpha1", "kind": "DAG", "metadata": {"name": "broken"}, "spec": spec}
    (tmp_path / "broken.yaml").write_text(yaml.safe_dump(dag))
    assert app.main(["check", str(tmp_path / "broken.yaml")]) == 2
    said = capsys.readouterr().out.splitlines()
    assert [line.partition("broken.yaml")[2] for line in said] == want
