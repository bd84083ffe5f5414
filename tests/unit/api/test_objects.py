"""Bodies of writes, as far as no server in memory could tell whether they are right."""

from typing import Any

import pytest

from fencepost.api.objects import fenced_object, mailbox_object, run_object
from fencepost.core.intents import Authority, WriteMailbox, WriteRun
from fencepost.core.names import DagKey
from fencepost.core.run_state import RunState

UPDATE = {"manager": "kubectl-create", "operation": "Update", "fieldsV1": {"f:spec": {}}}
APPLY = {"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:spec": {}}}
DROPPED: list[dict[str, Any]] = [{}]


def bodies(notes: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Each body of a whole run or Worker, written over one with these notes on who wrote which field."""
    meta: dict[str, Any] = {"namespace": "demo", "name": "r1", "resourceVersion": "7", "labels": {"team": "a"}}
    record = {"metadata": meta if notes is None else {**meta, "managedFields": notes}, "spec": {"dag": "etl"}}
    return [
        run_object(WriteRun(Authority(0, 1), record, DagKey("demo", "etl"), "", "", RunState(epoch=1))),
        mailbox_object(WriteMailbox(record, {}, 10)),
        fenced_object(record),
    ]


@pytest.mark.parametrize(
    ("notes", "want"),
    [
        pytest.param([UPDATE], DROPPED, id="dropped"),
        pytest.param(None, None, id="not there any more"),
        pytest.param([UPDATE, APPLY], None, id="left to the server, as somebody applies it on the server's side"),
    ],
)
def test_notes_on_who_wrote_which_field_are_dropped_unless_somebody_goes_by_them(
    notes: list[dict[str, Any]] | None, want: list[dict[str, Any]] | None
) -> None:
    for body in bodies(notes):
        assert body["metadata"].get("managedFields") == want
        assert body["metadata"]["resourceVersion"] == "7"
        assert body["metadata"]["labels"]["team"] == "a"
