"""What jobs have really done, in a file that they themselves append to.

A job of `ledger.job(...)` writes a line when it starts and one when it ends, with its token, attempt and execution id.
The scheduler knows nothing of it, so it is a witness: a job that ran twice stands there twice. Lines are short and
appended in one write each, so jobs on several workers do not tear each other's.

A job of `ledger.careful(...)` does what a careful job does wherever it writes: the ledger takes its lines, `start` and
`commit`, only if it has never seen a higher token for this execution. What comes too late stands there as `refused`.

A job of `ledger.careful(...)` does what a careful job does wherever it writes: the ledger takes its lines, `start` and
`commit`, only if it has seen no higher token for this execution. What comes too late stands there as `refused`.

A gate is a file that a job waits for: until it is opened the job runs.
"""

import contextlib
import shlex
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

NOTE = (
    'note() { echo "$1 $FENCEPOST_TOKEN $FENCEPOST_ATTEMPT $FENCEPOST_EXECUTION_ID $$(date +%s.%N)" >> {file}; }; '
    "note start; {body}; code=$?; note end; exit $code"
)
"""Of a job; `$$(` is a DAG's way to write the shell's own `$(`."""
CAREFUL = (
    "note() { ( flock 9; word=$1; "
    "awk -v token=$FENCEPOST_TOKEN -v execution=$FENCEPOST_EXECUTION_ID "
    "'$4 == execution && $2 + 0 > token + 0 { late = 1 } END { exit late }' {file} || word=refused; "
    'echo "$word $FENCEPOST_TOKEN $FENCEPOST_ATTEMPT $FENCEPOST_EXECUTION_ID $$(date +%s.%N)" >&9; '
    '[ "$word" != refused ]; ) 9>> {file}; }; note start && {body} && note commit'
)
"""Of a careful job: its lines go through one gate, which is a lock and a look at what was written before."""


@dataclass(frozen=True)
class Line:
    """One thing that a job has noted."""

    what: str
    """`start`, `end`, `commit`, `refused`, or a word of the job's own."""
    token: int
    attempt: int
    execution: str
    """`<run UID>/<task>/<index>`."""
    at_s: float
    """Unix seconds."""

    @property
    def task(self) -> str:
        """The job's task."""
        return self.execution.split("/")[1]

    @property
    def job(self) -> str:
        """`task/index`."""
        return self.execution.partition("/")[2]


@dataclass(frozen=True)
class Ledger:
    """The file, and the commands of jobs that write into it."""

    file: Path

    def job(self, body: str = "true") -> list[str]:
        """A command that does `body` (of shell, in which `note WORD` adds a line) between its two lines."""
        return self._script(NOTE, body)

    def careful(self, body: str = "true") -> list[str]:
        """A command that does `body` between its two lines, if the ledger takes them."""
        return self._script(CAREFUL, body)

    def sleep(self, seconds: float) -> list[str]:
        """A command that takes so long."""
        return self.job(f"sleep {seconds:.3f}")

    def gated(self, gate: str = "gate") -> list[str]:
        """A command that runs until its gate is opened."""
        return self.job(self.until_open(gate))

    def until_open(self, gate: str = "gate") -> str:
        """Shell that waits for a gate."""
        return f"while [ ! -e {shlex.quote(str(self._gate(gate)))} ]; do sleep 0.05; done"

    def until_own_open(self) -> str:
        """Shell that waits for the gate that is named by the job's index."""
        return f"while [ ! -e {shlex.quote(str(self._gate('')))}$FENCEPOST_INDEX ]; do sleep 0.1; done"

    def open(self, gate: str = "gate") -> None:
        """Let the jobs of a gate end, now and later."""
        self._gate(gate).touch()

    def lines(self, what: str = "", task: str = "") -> list[Line]:
        """What has been noted so far, in order; all, or only these words of this task."""
        if not self.file.exists():
            return []
        found = [_parse(text) for text in self.file.read_text().splitlines()]
        return [line for line in found if what in ("", line.what) and task in ("", line.task)]

    def count(self, what: str = "", task: str = "") -> int:
        """How many lines there are of this kind."""
        return len(self.lines(what, task))

    def starts(self) -> dict[str, list[Line]]:
        """Of each job by its execution id: its starts, in order."""
        found: dict[str, list[Line]] = defaultdict(list)
        for line in self.lines("start"):
            found[line.execution].append(line)
        return dict(found)

    def repeated(self) -> dict[str, list[Line]]:
        """The jobs that have started more than once."""
        return {execution: lines for execution, lines in self.starts().items() if len(lines) > 1}

    def unfinished(self) -> set[str]:
        """The jobs that have started and not ended."""
        return {line.execution for line in self.lines("start")} - {line.execution for line in self.lines("end")}

    def _script(self, frame: str, body: str) -> list[str]:
        return ["sh", "-c", frame.replace("{file}", shlex.quote(str(self.file))).replace("{body}", body)]

    def _gate(self, name: str) -> Path:
        return self.file.with_name(f"{self.file.stem}.gate-{name}")


def processes_of(run: str) -> list[int]:
    """The living processes of a run's jobs, and whatever they have started, wherever it has moved: by environment."""
    marker = f"FENCEPOST_RUN={run}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if marker in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def _parse(text: str) -> Line:
    what, token, attempt, execution, at_s = text.split()
    return Line(what, int(token), int(attempt), execution, float(at_s))
