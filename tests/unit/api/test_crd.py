"""What the CRDs promise to the server, to people and to each other. Whether they work is tried on a real server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.api import generate
from fencepost.api.crd import RESOURCES, crd

REPOSITORY = Path(__file__).parents[3]
CRDS = {resource.kind.kind: crd(resource) for resource in RESOURCES}


def version_of(kind: str) -> dict[str, Any]:
    version: dict[str, Any] = CRDS[kind]["spec"]["versions"][0]
    return version


def root_of(kind: str) -> dict[str, Any]:
    root: dict[str, Any] = version_of(kind)["schema"]["openAPIV3Schema"]
    return root


def parts_of(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema within a schema, by its path."""
    yield path, schema
    for name, below in schema.get("properties", {}).items():
        yield from parts_of(below, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from parts_of(schema[word], f"{path}[*]")


def part_of(kind: str, path: str) -> dict[str, Any]:
    return dict(parts_of(root_of(kind)))[path]


def test_the_committed_files_are_those_that_the_models_make() -> None:
    assert generate.drifted(REPOSITORY) == [], "run `make generate` and commit what it writes"


@pytest.mark.parametrize(
    "path", [".status.leases", ".status.waiting", ".status.tasks", ".status.failures", ".status.dying", ".spec.params"]
)
def test_the_maps_of_a_run_are_atomic_maps_of_strings(path: str) -> None:
    made = part_of("DAGRun", path)

    assert made["x-kubernetes-map-type"] == "atomic"
    assert made["additionalProperties"]["type"] == "string"


@pytest.mark.parametrize("path", [".spec.leases", ".status.results"])
def test_a_mailbox_is_an_atomic_map_of_64_short_strings_token_first(path: str) -> None:
    made = part_of("Worker", path)

    assert made["x-kubernetes-map-type"] == "atomic"
    assert made["maxProperties"] == 64
    assert made["additionalProperties"]["pattern"] == "^[0-9]{1,18} "


@pytest.mark.parametrize("kind", CRDS)
def test_every_list_says_how_it_is_merged(kind: str) -> None:
    lists = {path: part for path, part in parts_of(root_of(kind)) if part.get("type") == "array"}

    assert {path for path, part in lists.items() if "x-kubernetes-list-type" not in part} <= {
        path for path, part in lists.items() if is_refused(part)
    }


def is_refused(part: dict[str, Any]) -> bool:
    return any(each["rule"] == "false" for each in part.get("x-kubernetes-validations", ()))


def test_what_comes_later_is_in_the_schema_and_refused() -> None:
    refused = {kind: {path for path, part in parts_of(root_of(kind)) if is_refused(part)} for kind in CRDS}

    assert refused == {
        "DAG": {
            *(f".spec.tasks[*].{name}" for name in ("executor", "pod")),
        },
        "DAGRun": set(),
        "DeadLetter": set(),
        "WorkerPool": set(),
        "Worker": set(),
    }


@pytest.mark.parametrize("kind", CRDS)
def test_every_rule_says_the_fact_and_the_remedy_on_one_line(kind: str) -> None:
    rules = [each for _, part in parts_of(root_of(kind)) for each in part.get("x-kubernetes-validations", ())]

    assert rules
    assert all(each["message"] and "\n" not in each["message"] and "\n" not in each["rule"] for each in rules)


def test_no_part_of_a_status_that_carries_a_law_can_be_left_out() -> None:
    never_decreasing = {"epoch", "leaseCounter", "round"}
    status = part_of("DAGRun", ".status")

    assert never_decreasing <= set(status["required"])


def test_only_a_run_has_no_status_subresource_so_that_its_create_carries_the_first_leases() -> None:
    assert {kind for kind in CRDS if "subresources" not in version_of(kind)} == {"DAGRun"}


def test_people_see_the_columns_that_the_handbook_shows() -> None:
    columns = {kind: [each["name"] for each in version_of(kind)["additionalPrinterColumns"]] for kind in CRDS}

    assert columns["DAG"] == ["Schedule", "Zone", "Suspended", "Last", "Next", "Active", "State"]
    assert columns["DeadLetter"] == ["DAG", "Run", "Task", "Index", "Reason", "Attempts", "Replay", "Age"]
    assert columns["DAGRun"] == ["DAG", "Phase", "Done", "Reason", "Age", "Duration"]


@pytest.mark.parametrize("kind", CRDS)
def test_every_column_shows_a_field_that_exists(kind: str) -> None:
    known = {path for path, _ in parts_of(root_of(kind))} | {".metadata.creationTimestamp"}

    assert {each["jsonPath"] for each in version_of(kind)["additionalPrinterColumns"]} <= known


@pytest.mark.parametrize("kind", CRDS)
def test_every_kind_is_listed_by_kubectl_get_fencepost(kind: str) -> None:
    assert CRDS[kind]["spec"]["names"]["categories"] == ["fencepost"]


def test_a_missing_or_edited_file_is_named_and_fails_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generate.write(tmp_path)
    assert generate.main(["--check", "--repository", str(tmp_path)]) == 0

    (tmp_path / "crds/dags.yaml").write_text("edited")
    (tmp_path / "crds/workers.yaml").unlink()

    assert generate.main(["--check", "--repository", str(tmp_path)]) == 1
    complaints = capsys.readouterr().err
    assert "crds/dags.yaml differs" in complaints
    assert "crds/workers.yaml differs" in complaints
    assert generate.main(["--repository", str(tmp_path)]) == 0
    assert generate.drifted(tmp_path) == []
