"""What an audit log tells of the versions of an object, when some askers did not wait for their answers."""

import json
from pathlib import Path
from typing import Any

from fencepost.api.names import DAG_RUNS
from tests.e2e.support.audit import AuditLog

Obj = dict[str, Any]


def run_at(version: str, done: int) -> Obj:
    metadata = {"name": "r1", "resourceVersion": version}
    return {"apiVersion": DAG_RUNS.api_version, "kind": DAG_RUNS.kind, "metadata": metadata, "status": {"done": done}}


def log_of(folder: Path, *writes: tuple[int, Obj]) -> AuditLog:
    """A log of PUTs, each with the status of its answer."""
    events = [
        {
            "verb": "update",
            "objectRef": {"resource": "dagruns", "name": "r1"},
            "responseStatus": {"code": code},
            "sourceIPs": ["127.0.1.1"],
            "requestReceivedTimestamp": "2026-11-30T12:00:00.000000Z",
            "requestObject": body,
        }
        for code, body in writes
    ]
    log = AuditLog(folder / "audit.log")
    log.file.write_text("".join(json.dumps(event) + "\n" for event in events))
    return log


def done(versions: list[Obj]) -> list[int]:
    return [version["status"]["done"] for version in versions]


def test_what_was_refused_was_not_stored(tmp_path: Path) -> None:
    log = log_of(tmp_path, (200, run_at("1", 1)), (409, run_at("1", 7)), (200, run_at("2", 2)))

    assert done(log.versions(run_at("3", 2))) == [1, 2]


def test_an_unanswered_write_counts_if_the_next_one_was_built_on_it(tmp_path: Path) -> None:
    log = log_of(tmp_path, (504, run_at("1", 1)), (200, run_at("2", 2)))

    assert done(log.versions(run_at("3", 2))) == [1, 2]


def test_an_unanswered_write_does_not_count_if_the_next_one_was_built_on_the_same(tmp_path: Path) -> None:
    log = log_of(tmp_path, (504, run_at("1", 1)), (200, run_at("1", 1)))

    assert done(log.versions(run_at("2", 1))) == [1]


def test_the_last_write_is_held_against_the_object_as_it_is(tmp_path: Path) -> None:
    log = log_of(tmp_path, (0, run_at("1", 1)))

    assert done(log.versions(run_at("2", 1))) == [1]
    assert done(log.versions(run_at("1", 0))) == []


def test_a_write_whose_body_never_came_was_not_stored(tmp_path: Path) -> None:
    log = log_of(tmp_path, (200, run_at("1", 1)), (504, {}), (200, run_at("2", 2)))

    assert done(log.versions(run_at("3", 2))) == [1, 2]


def test_a_half_written_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    log = log_of(tmp_path, (200, run_at("1", 1)), (200, run_at("2", 2)))
    text = log.file.read_text()
    log.file.write_text(text[:-5])
    assert len(log.requests()) == 1
    log.file.write_text(text)

    assert len(log.requests(source="127.0.1.1")) == 2
    assert log.requests(source="127.0.1.2") == []
