"""`fencepost check`: all that admission and the operator would say of some objects, with no cluster.

The schema is asked through the models, the graph, schedule and size through the core's own check, and the policies
through the functions that the API server in memory keeps them by: nothing is decided here, so that nothing can differ.

What only a cluster knows is not said: whether the pool exists, or the DAG that a run names.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fencepost.api import admission
from fencepost.api.names import API_VERSION, DAG_RUNS, DAGS, GROUP, WORKER_POOLS
from fencepost.api.read import check_run, read_pool
from fencepost.api.schema import NAME_LENGTH_MAX
from fencepost.api.validation import name_problems
from fencepost.base.clock import Clock
from fencepost.cli.errors import RefusedError
from fencepost.cli.next import format_local
from fencepost.cli.sources import Document, find_files, read_documents
from fencepost.core.check import CheckedDag
from fencepost.core.problems import Problem
from fencepost.memory.identity import USER
from fencepost.memory.laws import run_of_a_slot_is_complete_and_named_by_it
from fencepost.memory.policies import POLICIES
from fencepost.memory.records import ObjectKey
from fencepost.memory.writes import write_of

_DESCRIPTION = """Say of each object in the files what the cluster would say of it, offline: path, fact, remedy.
A FILE may hold several documents, or be a folder, or - for standard input.
Exit code 0: all fine; 2: something is refused, or cannot be read."""
EXIT_FINE = 0
EXIT_REFUSED = 2
OUR_KINDS = (DAGS.kind, DAG_RUNS.kind, WORKER_POOLS.kind)
"""What a person writes."""
TOP_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
OBJECT_BYTES_MAX = 1536 * 1024
"""Of one object as JSON: what etcd takes by default."""
CLIENT_APPLY_BYTES_MAX = 256 * 1024
"""kubectl apply, unless it is told --server-side, keeps a copy of the object in an annotation, which holds no more."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said of one document."""

    problems: tuple[Problem, ...] = ()
    summary: str = "fine"
    """Of one that has no problems."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the command and its options."""
    parser = subparsers.add_parser("check", help="what the cluster would say of a file", description=_DESCRIPTION)
    parser.add_argument("files", nargs="+", metavar="FILE", help="YAML or JSON; a folder; - for standard input")
    return parser


def run(args: argparse.Namespace, clock: Clock) -> int:
    """Print a line for each problem, and one for each object that has none."""
    now_s = clock.now_s()
    fine = True
    for path in args.files:
        try:
            for file in find_files([path]):
                fine &= _check_file(file, now_s)
        except RefusedError as error:
            print(f"fencepost: {error}", file=sys.stderr)
            fine = False
    return EXIT_FINE if fine else EXIT_REFUSED


def checked_dag(document: Document) -> CheckedDag | list[Problem]:
    """A document that calls itself a DAG, ready to run, or all that is wrong with it."""
    problems = _envelope_problems(document)
    checked = admission.checked_dag(document.value) if isinstance(document.value, Mapping) else []
    if isinstance(checked, list):
        return problems + checked
    return problems or checked


def _check_file(file: str, now_s: float) -> bool:
    """Whether all is well with a file; one that cannot be read is no reason not to look at the next."""
    try:
        documents = read_documents(file)
    except RefusedError as error:
        print(f"fencepost: {error}", file=sys.stderr)
        return False
    fine = True
    for document in documents:
        verdict = _verdict(document, now_s)
        fine &= not verdict.problems
        for problem in verdict.problems:
            print(f"{document.file}: {document}: {problem}")
        if not verdict.problems:
            print(f"{document.file}: {document}: {verdict.summary}")
    return fine


def _verdict(document: Document, now_s: float) -> Verdict:
    api_version, kind = document.says("apiVersion"), document.says("kind")
    if kind not in OUR_KINDS and isinstance(api_version, str) and isinstance(kind, str):
        if api_version.partition("/")[0] != GROUP:
            return Verdict(summary="skipped, as it is no object of Fencepost")
        remedy = f"write one of {', '.join(OUR_KINDS)}, or leave it to the operator"
        return Verdict((Problem("UnknownKind", "kind", f"{kind!r} is not a kind that people write", remedy),))
    if kind == DAGS.kind:
        checked = checked_dag(document)
        if isinstance(checked, list):
            return Verdict(tuple(checked))
        return Verdict(summary=_summary(checked, now_s) + _apply_note(document))
    problems = _envelope_problems(document)
    if isinstance(document.value, Mapping) and kind == WORKER_POOLS.kind:
        pool = read_pool(document.value)
        problems += pool if isinstance(pool, list) else []
    elif isinstance(document.value, Mapping) and kind == DAG_RUNS.kind:
        problems += _run_problems(document)
    return Verdict(tuple(problems))


def _envelope_problems(document: Document) -> list[Problem]:
    """What is wrong around the spec, in words that fit every kind."""
    value = document.value
    if not isinstance(value, Mapping):
        return [Problem("NotAnObject", "", "it is not a map", "begin with apiVersion, kind, metadata and spec")]
    problems = [
        Problem("UnknownField", name, "there is no such field", "correct its name or remove it")
        for name in value
        if name not in TOP_FIELDS
    ]
    if not isinstance(value.get("kind"), str):
        problems.append(Problem("MissingField", "kind", "it is missing", f"write one of {', '.join(OUR_KINDS)}"))
    if value.get("apiVersion") != API_VERSION:
        fact = f"{value['apiVersion']!r} does not exist" if "apiVersion" in value else "it is missing"
        problems.append(Problem("WrongVersion", "apiVersion", fact, f"write {API_VERSION}"))
    if (size := _size_bytes(value)) > OBJECT_BYTES_MAX:
        fact = f"the object has {size // 1024} KiB, of {OBJECT_BYTES_MAX // 1024} KiB that an API server stores"
        problems.append(Problem("TooLarge", "", fact, "split it"))
    for field in ("labels", "annotations"):
        texts = document.metadata.get(field) or {}
        if not isinstance(texts, Mapping):
            problems.append(Problem("InvalidValue", f"metadata.{field}", "it is not a map", "write names and texts"))
            continue
        problems += [
            Problem("InvalidValue", f"metadata.{field}.{name}", f"{text!r} is not a text", "put it in quotes")
            for name, text in texts.items()
            if not isinstance(text, str)
        ]
    return problems


def _run_problems(document: Document) -> list[Problem]:
    """Of a run made by hand: its spec, its name, and what the policies keep for the operator."""
    run: dict[str, Any] = dict(document.value)
    problems = check_run(run)
    if not isinstance(document.metadata.get("generateName"), str):
        problems += name_problems(run, NAME_LENGTH_MAX)
    if "status" in run:
        fact = "only the operator writes it, as the record of every lease"
        problems.append(Problem("Refused", "status", fact, "remove it"))
    if problems:
        return problems
    key = ObjectKey(str(document.metadata.get("namespace", "")), str(document.metadata.get("name", "")))
    write = write_of(USER, "create", DAG_RUNS, key, None, run, shard_epoch=lambda _shard: None)
    refusals = (law(write) for law in (run_of_a_slot_is_complete_and_named_by_it, *POLICIES[DAG_RUNS]))
    facts = (refusal.partition("; ") for refusal in refusals if refusal)
    return [Problem("Refused", "", fact, remedy or "correct it") for fact, _, remedy in facts]


def _summary(checked: CheckedDag, now_s: float) -> str:
    """`fine, 12 tasks, 102 jobs, next 2026-12-01T02:00:00+00:00`, the time with the offset of the DAG's own zone."""
    definition = checked.spec.definition
    words = ["fine", counted(len(definition.tasks), "task"), counted(definition.size, "job")]
    if checked.schedule:
        next_s = checked.schedule.next_slot(now_s)
        zone = checked.schedule.zone
        moment = "never" if next_s is None else format_local(datetime.fromtimestamp(next_s, UTC), zone)
        words.append("suspended" if checked.spec.suspend else f"next {moment}")
    return ", ".join(words)


def _apply_note(document: Document) -> str:
    """A warning where the object is too large for a plain `kubectl apply`."""
    size = _size_bytes(document.value)
    if size <= CLIENT_APPLY_BYTES_MAX:
        return ""
    return f"; it has {size // 1024} KiB, so kubectl apply needs --server-side"


def _size_bytes(value: Any) -> int:
    """As JSON. Not by orjson, which refuses numbers that YAML may hold and the models then name."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace"))


def counted(number: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
