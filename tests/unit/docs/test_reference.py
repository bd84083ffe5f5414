"""Names in the documents are those of the code, and those of the code that users meet stand in the documents."""

import argparse
import ast
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from fencepost.api import names
from fencepost.base.metrics import Metrics
from fencepost.cli.app import COMMANDS
from fencepost.loops.dag_memory import EVENT_REASONS, LETTERS_FULL
from fencepost.main import add_operator_parser, add_worker_parser
from fencepost.worker.metrics import WorkerCounters
from tests.unit.docs.pages import (
    ALL,
    DESIGN,
    DOCS,
    FOR_USERS,
    OPERATOR,
    README,
    ROOT,
    SOURCE,
    rows,
    section,
    text_of,
    words,
)

OPERATING = DOCS / "operating.md"
PASCAL_CASE = re.compile(r"(?:[A-Z][a-z]+|DAG){2,}")
NO_REASONS = {
    "AdmissionReview AlreadyExists ConfigMap CustomResourceDefinition DeleteOptions ExecCredential NotFound NotIn"
    " SelfSubjectReview ValidatingAdmissionPolicyBinding": "Kubernetes' own",
    "DagMemory IntervalSet LocalCluster MemoryApi ProcessJob PykubeCluster RunRead": "types of ours",
    "HandedBack NotLeading RealTime": "words between our own parts",
    "InvalidCommand InvalidCount InvalidTime NotAnObject TooLarge UnknownKind WrongVersion": "of the command",
}
"""Texts in PascalCase in the source that no user meets as a code."""
PROCESSES = {"operator", "worker"}
"""Commands that a cluster starts, told of by their flags."""


def test_every_metric_stands_in_the_table_and_every_one_in_the_table_is_counted() -> None:
    metrics = Metrics()
    metrics.watch_queue(lambda: [])
    metrics.watch_letters(dict)
    metrics.watch_clock_skew(lambda: 0.0)
    counted = {
        family.name + ("_total" if family.type == "counter" else "")
        for registry in (metrics.registry, WorkerCounters(1).registry)
        for family in registry.collect()
    }
    told = {name for row in rows(section(OPERATING, "## Metrics")) for name in words(row[0])}
    assert told == counted
    elsewhere = set(re.findall(r"\bfencepost_[a-z_]+[a-z]", text_of(*ALL)))
    assert elsewhere <= counted


def flags_of(add_parser: Callable[[Any], None]) -> set[str]:
    parser = argparse.ArgumentParser()
    add_parser(subparsers := parser.add_subparsers())
    (command,) = subparsers.choices.values()
    return {flag for action in command._actions for flag in action.option_strings} - {"-h", "--help"}


def test_every_flag_of_the_processes_stands_in_the_table_and_every_one_in_the_table_is_there() -> None:
    told = [(row[0].partition(":")[0], words(row[0])) for row in rows(section(OPERATING, "## Flags"))]
    for process, add_parser in (("operator", add_operator_parser), ("worker", add_worker_parser)):
        for_it = {flag for whose, flags in told for flag in flags if whose == process or whose.startswith("`")}
        assert for_it == flags_of(add_parser)


def test_every_command_is_told_of_and_every_one_that_is_told_of_is_there() -> None:
    told = set(re.findall(r"`fencepost ([a-z]+)", text_of(*FOR_USERS)))
    in_a_list = next(row[0] for row in rows(text_of(README)) if row[0].startswith("`trigger`"))
    assert told | set(words(in_a_list)) == set(COMMANDS) - PROCESSES


def options_of_commands() -> set[str]:
    """All that the commands of people take."""
    options = set()
    for name in set(COMMANDS) - PROCESSES:
        parser = argparse.ArgumentParser()
        COMMANDS[name].load(subparsers := parser.add_subparsers())
        options |= {option for action in subparsers.choices[name]._actions for option in action.option_strings}
    return {option for option in options if option.startswith("--")} - {"--help"}


def test_every_option_of_a_command_is_told_of_and_what_is_typed_in_an_example_is_one() -> None:
    text = text_of(*FOR_USERS)
    there = options_of_commands()
    assert there - set(re.findall(r"(?<![\w-])--[a-z][-a-z]*", text)) == set()
    typed = re.findall(r"(?m)(?:^\$ |^|`)(?:kubectl |\.venv/bin/)?fencepost ([^`\n]*)", text)
    assert len(typed) > 30
    assert {option for line in typed for option in re.findall(r"(?<![\w-])--[a-z][-a-z]*", line)} <= there


def fields_of(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Paths such as `schedule.cron` and `tasks[].env`, inner ones included."""
    for name, part in schema.get("properties", {}).items():
        yield (inner := f"{path}{name}")
        yield from fields_of(part, f"{inner}.")
        yield from fields_of(part.get("items", {}), f"{inner}[].")


@lru_cache
def schema_of(plural: str) -> Mapping[str, Any]:
    crd = yaml.safe_load((ROOT / "crds" / f"{plural}.yaml").read_text())
    schema: Mapping[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def told_fields() -> set[str]:
    """Of a row such as ``| `schedule.notBefore`, `notAfter` |`` the second is a sister of the first."""
    told = set()
    for row in rows(section(DOCS / "fields.md", "# The fields of a DAG")):
        first, *sisters = words(row[0])
        parent = first.rpartition(".")[0]
        told |= {first, *(f"{parent}.{sister}" if parent and "." not in sister else sister for sister in sisters)}
    return told


def test_every_field_of_a_dag_that_may_be_written_stands_in_the_table_of_fields() -> None:
    properties = schema_of("dags")["properties"]["spec"]
    there, told = set(fields_of(properties)), told_fields()
    assert told <= there
    later = {"executor", "tasks[].executor", "tasks[].pod"}
    explained_elsewhere = (
        "schedule.dst.",
        "schedule.catchUp.",
        "retries.backoff.",
        "tasks[].retries.",
        "tasks[].env[].",
    )
    leaves = {field for field in there if not any(other.startswith((f"{field}.", f"{field}[].")) for other in there)}
    untold = {field for field in leaves - told if not field.startswith(explained_elsewhere)}
    assert {field for field in untold if not any(field.startswith(f"{late}") for late in later)} <= NAMED_IN_A_CELL


NAMED_IN_A_CELL = {"tasks[].forEach.count", "tasks[].forEach.items", "tasks[].forEach.from"}
"""In the row of the field that they are below."""


def test_every_field_of_a_status_that_is_told_of_is_there() -> None:
    there = {
        f"{part}.{path}"
        for plural in ("dags", "dagruns", "deadletters", "workers", "workerpools")
        for part in ("status", "spec")
        for path in fields_of(schema_of(plural)["properties"].get(part, {}))
    }
    told = {
        word
        for page in ALL
        for word in words(page.read_text())
        if re.fullmatch(r"(?:status|spec)(?:\.[a-zA-Z]+)+", word)
    }
    assert len(told) > 20
    assert told <= there


def reasons() -> set[str]:
    """Every text in PascalCase of the source, but for documentation."""
    found = set()
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= {node.value} & set(PASCAL_CASE.findall(node.value))
    return found


def test_every_code_that_people_may_read_is_explained() -> None:
    explained = set(PASCAL_CASE.findall(text_of(*FOR_USERS)))
    left_out = {word for several in NO_REASONS for word in several.split()}
    assert reasons() - explained == left_out
    assert explained >= {*EVENT_REASONS.values(), LETTERS_FULL}


def test_every_code_in_the_page_of_reasons_is_given_somewhere() -> None:
    page = section(DOCS / "reasons.md", "# Reasons")
    told = {word for row in rows(page) for word in words(row[0]) if PASCAL_CASE.fullmatch(word)}
    assert len(told) > 40
    source = text_of(*SOURCE.rglob("*.py"))
    assert {word for word in told if f'"{word}"' not in source and f'"{word}:' not in source} == set()


def test_every_label_that_is_told_of_is_one_of_ours() -> None:
    told = set(re.findall(rf"(?<![a-z.]){re.escape(names.GROUP)}/([a-z][-a-z0-9]*)", text_of(*ALL)))
    known = {value.partition("/")[2] for name, value in vars(names).items() if name.endswith(("_LABEL", "_ANNOTATION"))}
    assert told - {names.VERSION} <= known


def test_every_make_target_that_is_told_of_is_there() -> None:
    told = set(re.findall(r"\bmake ([a-z][-a-z0-9]+)", "\n".join(words(text_of(*ALL)))))
    assert len(told) > 10
    assert told <= set(re.findall(r"(?m)^([a-z][-a-z0-9]+):", (ROOT / "Makefile").read_text()))


def test_every_library_that_is_installed_stands_in_the_decision_on_libraries() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    libraries = {match[0] for each in asked if (match := re.match(r"[\w-]+", each))}
    told = {name for row in rows(text_of(OPERATOR / "decisions/0001-libraries.md")) for name in row[0].split(", ")}
    assert {name.removeprefix("types-") for name in libraries} == told


def test_what_is_installed_with_the_operator_is_what_it_imports() -> None:
    """What only tests need would be in the image for nothing."""
    names_of = {
        "PyYAML": "yaml",
        "cel-expr-python": "cel_expr_python",
        "prometheus-client": "prometheus_client",
        "pykube-ng": "pykube",
    }
    imported = set(re.findall(r"(?m)^\s*(?:from|import) (\w+)", text_of(*SOURCE.rglob("*.py"))))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    installed = {match[0] for each in project["dependencies"] if (match := re.match(r"[\w-]+", each))}
    data_only = {"tzdata"}
    assert {name for name in installed - data_only if names_of.get(name, name) not in imported} == set()


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        assert other.exists(), target
        if anchor:
            headings = re.findall(r"(?m)^#+ (.+)$", other.read_text())
            assert anchor in {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_design_says_what_each_loop_is_for() -> None:
    told = text_of(DESIGN)
    loops = {file.name for file in (SOURCE / "loops").glob("*.py")} - {"__init__.py"}
    assert {name for name in loops if f"{name}`" not in told} == set()


def test_every_file_that_the_design_names_is_there() -> None:
    told = {word for word in words(DESIGN.read_text()) if re.fullmatch(r"[a-z_]+/[a-z_/]+\.(?:py|md|pml)", word)}
    assert len(told) > 30
    missing = {name for name in told if not any((place / name).is_file() for place in (SOURCE, OPERATOR, ROOT))}
    assert missing == set()
