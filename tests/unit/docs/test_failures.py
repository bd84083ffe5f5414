"""The table of failures in DESIGN.md: what shows each row is there."""

import re
from pathlib import Path

import pytest

from tests.unit.docs.pages import DESIGN, OPERATOR, ROOT, Row, rows, section

ROWS = [row for row in rows(section(DESIGN, "## Failures")) if len(row) == 5]
NOT_SHOWN = {
    "etcd is restored from a backup",
    "a user deletes a scheduled run, and the leader dies before it has stored the mark",
}
"""Told as what it is: not handled, and lost."""
PLACES = {
    "drills/": ROOT / "tests/e2e/drills",
    "e2e/": ROOT / "tests/e2e",
    "plays/": ROOT / "tests/unit/loops/plays",
    "model/": OPERATOR / "model",
}


def place_of(name: str) -> Path:
    """The file that a name in the last column stands for, as the text above the table says."""
    for prefix, folder in PLACES.items():
        if name.startswith(prefix):
            rest = name.removeprefix(prefix)
            ending = {"plays/": ".txt", "model/": ""}.get(prefix, ".py")
            return folder / f"{rest}{ending}"
    return ROOT / f"tests/unit/{name}.py"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_shows_a_failure_is_there(row: Row) -> None:
    shown_by = re.findall(r"`([^`]+)`", row[4])
    assert bool(shown_by) == (row[0] not in NOT_SHOWN)
    missing = [name for name in shown_by if not place_of(name).is_file()]
    assert not missing


def test_there_are_rows_to_look_at() -> None:
    assert len(ROWS) > 40
    assert {row[0] for row in ROWS} >= NOT_SHOWN
