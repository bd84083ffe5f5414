"""What jobs print, from the workers' logs: lines of JSON, among which are those of the worker itself."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from fencepost.core.names import JobKey


class JobOutput:
    """Follows some logs from their beginnings."""

    def __init__(self, logs: Iterable[Path]) -> None:
        self._files = [log.open() for log in logs]
        self._parts = [""] * len(self._files)

    def fresh(self) -> Iterator[tuple[str, JobKey, str]]:
        """Run, job and text of each line that has been printed since the last time."""
        for place, file in enumerate(self._files):
            *lines, self._parts[place] = (self._parts[place] + file.read()).split("\n")
            for entry in map(json.loads, lines):
                if "line" in entry:
                    yield entry["run"], JobKey(entry["task"], entry["index"]), entry["line"]

    def close(self) -> None:
        """Follow them no more."""
        for file in self._files:
            file.close()
