"""Logs: one JSON object a line in a cluster, readable lines on a terminal; the same extra fields in both."""

import json
import logging
import sys
from typing import Any

from fencepost.api.times import format_time

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_KOPFS_OWN = frozenset({"settings", "k8s_skip"})
"""What kopf tells its own handlers by extra fields; which object it is about (`k8s_ref`) is kept."""
_FORMATS = ("auto", "json", "text")


class JsonFormatter(logging.Formatter):
    """One object a record: time, level, logger, message, then whatever was given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON."""
        entry: dict[str, Any] = {
            "time": format_time(record.created, millis=True),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """`14:02:11 info    loops.leadership  leading shard 3 at epoch 7  shard=3`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback below it where there is one."""
        clock = format_time(record.created)[11:19]
        name = record.name.removeprefix("fencepost.")
        extra = "".join(f"  {key}={value}" for key, value in _extra(record).items())
        line = f"{clock} {record.levelname.lower():<7} {name:<18} {record.getMessage()}{extra}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure_logging(form: str = "auto", level: str = "info") -> None:
    """Send everything to standard error. `auto`: text on a terminal, else JSON. ValueError for another form."""
    if form not in _FORMATS:
        raise ValueError(f"log format {form!r} is unknown; use one of {', '.join(_FORMATS)}")
    as_text = form == "text" or (form == "auto" and sys.stderr.isatty())
    handler = logging.StreamHandler()
    handler.setFormatter(TextFormatter() if as_text else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("kopf", "aiohttp", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD | _KOPFS_OWN}
