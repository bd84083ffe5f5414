"""One JSON object a line, or a line for people; whatever is given as extra stands in both."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.base.logs import JsonFormatter, TextFormatter, configure_logging

NOON_S = 1_800_000_000.5


def record(message: str, *args: object, error: BaseException | None = None, **extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {"name": "fencepost.loops.leadership", "levelname": "WARNING", "msg": message, "args": args, **extra}
    )
    made.created = NOON_S
    if error is not None:
        made.exc_info = (type(error), error, error.__traceback__)
    return made


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, put back afterwards."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


def as_json(made: logging.LogRecord) -> dict[str, Any]:
    line = JsonFormatter().format(made)
    assert "\n" not in line
    parsed: dict[str, Any] = json.loads(line)
    return parsed


def test_a_record_is_one_line_of_json_with_its_extra_fields() -> None:
    assert as_json(record("leading shard %d", 3, shard=3, epoch=7)) == {
        "time": "2027-01-15T08:00:00.500Z",
        "level": "warning",
        "logger": "fencepost.loops.leadership",
        "message": "leading shard 3",
        "shard": 3,
        "epoch": 7,
    }


def test_an_exception_stands_in_the_same_line() -> None:
    assert "ValueError: two\nlines" in as_json(record("failed", error=ValueError("two\nlines")))["exception"]


def test_what_json_does_not_know_is_written_as_text() -> None:
    assert as_json(record("failed", error_type=ValueError))["error_type"] == "<class 'ValueError'>"


def test_of_kopfs_own_fields_only_the_object_is_kept() -> None:
    kopfs = as_json(record("handled", settings=object(), k8s_skip=True, k8s_ref={"name": "default"}))

    assert kopfs["k8s_ref"] == {"name": "default"}
    assert not {"settings", "k8s_skip"} & set(kopfs)


def test_a_line_for_people_has_the_time_of_day_and_the_extra_fields_at_its_end() -> None:
    line = TextFormatter().format(record("leading shard %d", 3, shard=3))

    assert line == "08:00:00 warning loops.leadership   leading shard 3  shard=3"


def test_a_traceback_stands_below_its_line() -> None:
    first, *rest = TextFormatter().format(record("failed", error=ValueError("no"))).splitlines()

    assert first.endswith("failed")
    assert rest[-1] == "ValueError: no"


@pytest.mark.parametrize(
    ("form", "terminal", "want"),
    [
        ("auto", True, TextFormatter),
        ("auto", False, JsonFormatter),
        ("json", True, JsonFormatter),
        ("text", False, TextFormatter),
    ],
)
def test_on_a_terminal_lines_are_for_people_unless_asked_otherwise(
    root: logging.Logger, monkeypatch: pytest.MonkeyPatch, form: str, terminal: bool, want: type[logging.Formatter]
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logging(form, "debug")

    (handler,) = root.handlers
    assert type(handler.formatter) is want
    assert root.level == logging.DEBUG


def test_an_unknown_form_is_refused_with_those_there_are(root: logging.Logger) -> None:
    with pytest.raises(ValueError, match="log format 'xml' is unknown; use one of auto, json, text"):
        configure_logging("xml")
