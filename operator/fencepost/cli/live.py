"""A run on a terminal: its tasks as a tree that changes in place, jobs' output running upwards above it.

The tree is drawn again a few times a second, whatever happens meanwhile, so a run of ten thousand quick jobs costs no
more to show than one of three. It never grows beyond the screen: tasks at work and tasks in trouble come first.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from fencepost.cli.ledger import Ledger, TaskRow
from fencepost.cli.narration import failure_text, job_label, reason_text, span_text
from fencepost.core.graph import Graph
from fencepost.core.phases import JobPhase
from fencepost.core.run_state import Outcome, RunState
from fencepost.worker.output import OutputLine
from fencepost.worker.runner import JobSource

STYLES: Final = {
    JobPhase.PENDING: "dim",
    JobPhase.QUEUED: "yellow",
    JobPhase.RUNNING: "cyan",
    JobPhase.SUCCEEDED: "green",
    JobPhase.FAILED: "bold red",
    JobPhase.SKIPPED: "dim",
    JobPhase.CANCELLED: "magenta",
}
IMPORTANCE: Final = (
    JobPhase.FAILED,
    JobPhase.RUNNING,
    JobPhase.QUEUED,
    JobPhase.CANCELLED,
    JobPhase.PENDING,
    JobPhase.SUCCEEDED,
    JobPhase.SKIPPED,
)
"""Which tasks are shown when there is no room for all."""
INDENT_MAX: Final = 8
"""Levels of the tree; what is deeper stands at the deepest."""
TAILS_SHOWN: Final = 3
TAIL_LINES: Final = 3
LINES_BESIDE: Final = 4
"""Of the screen, for what is neither task nor tail."""
_MOVES: Final = re.compile(
    r"\x1b\[[0-9;:?]*[ -/]*[@-ln-~]"  # every sequence but those that end in m, the colours
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles and links
    r"|\x1b[^\[\]]"
    r"|[\x00-\x08\x0b-\x1a\x1c-\x1f]"
)
_COLOURS_OFF: Final = "\x1b[0m"
WAITING_LENGTH_MAX: Final = 256 * 1024


class _Raw:
    """Text for the terminal as it is: rich would look at every character, and a job may print millions of them."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Segment(self._text)


class LiveDisplay:
    """A display on a terminal."""

    def __init__(self, console: Console, graph: Graph, title: str, now_s: Callable[[], float], *, show_output: bool):
        self._console = console
        self._graph = graph
        self._title = title
        self._now_s = now_s
        self._start_s = now_s()
        self._show_output = show_output
        self._order = tree_order(graph)
        self._ledger = Ledger(graph)
        self._waiting: list[str] = []
        self._waiting_length = 0
        self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)
        self._live.start()

    @property
    def full(self) -> bool:
        return self._waiting_length > WAITING_LENGTH_MAX

    def write(self, source: JobSource, lines: Sequence[OutputLine]) -> None:
        if self._show_output:
            label = job_label(self._graph, source.job)
            self._put("\n".join(f"{label} | {_harmless(line.text)}" for line in lines))

    def note(self, line: str) -> None:
        self._put(line)

    def update(self, _before: RunState, ledger: Ledger) -> None:
        self._ledger = ledger

    def refresh(self) -> None:
        self._flush()
        self._live.update(self._frame(), refresh=True)

    def close(self) -> None:
        self._flush()
        self._live.stop()

    def _put(self, text: str) -> None:
        self._waiting.append(text)
        self._waiting_length += len(text)

    def _flush(self) -> None:
        if self._waiting:
            text, self._waiting, self._waiting_length = "\n".join(self._waiting), [], 0
            self._console.print(_Raw(f"{text}\n"), end="", soft_wrap=True)

    def _frame(self) -> Group:
        state = self._ledger.state
        head = Text(f"{self._title}: {state.phase}, {state.done} of {state.total or self._graph.size} jobs, ")
        head.append(span_text(self._now_s() - self._start_s))
        head.append(f"  {reason_text(state)}", style="yellow")
        tails = self._tails()
        room = max(1, self._console.height - LINES_BESIDE - len(tails))
        rows = {row.task.name: row for row in self._ledger.rows()}
        shown = most_important(list(rows.values()), room)
        table = Table.grid(padding=(0, 2))
        for name, level in self._order:
            if name in shown:
                table.add_row(*self._cells(rows[name], level))
        hidden = Counter(str(row.phase) for name, row in rows.items() if name not in shown)
        rest = [Text(f"and {', '.join(f'{n} {phase}' for phase, n in hidden.items())}", style="dim")] if hidden else []
        return Group(head, table, *rest, *tails)

    def _cells(self, row: TaskRow, level: int) -> tuple[Text, ...]:
        style = STYLES[row.phase]
        took = ""
        if row.start_s is not None:
            took = span_text((row.end_s or self._now_s()) - row.start_s)
        state = f"{row.phase} {row.running}" if row.running > 1 else str(row.phase)
        return (
            Text("  " * level + row.task.name, overflow="ellipsis", no_wrap=True),
            Text(f"{row.done}/{row.size}", justify="right"),
            Text(state, style=style),
            Text(took, style="dim", justify="right"),
        )

    def _tails(self) -> list[Text]:
        """The last words of the attempts that failed last."""
        failed = [
            (job, result)
            for job, result in self._ledger.results.items()
            if result.outcome in (Outcome.FAILED, Outcome.TIMED_OUT, Outcome.INVALID, Outcome.MISSING)
        ]
        lines: list[Text] = []
        for job, result in failed[-TAILS_SHOWN:]:
            lines.append(Text(f"{job_label(self._graph, job)}: {failure_text(result)}", style="red"))
            lines += [Text(f"  {text}", no_wrap=True) for text in result.message.splitlines()[-TAIL_LINES:]]
        return lines


def _harmless(line: str) -> str:
    """A job's colours may pass; what would move the cursor may not, or it would draw over the tree."""
    return _MOVES.sub("", line) + (_COLOURS_OFF if "\x1b" in line else "")


def tree_order(graph: Graph) -> list[tuple[str, int]]:
    """Every task with its level: below that of its parents which comes last, roots first."""
    place = {task.name: at for at, task in enumerate(graph.order)}
    below: dict[str | None, list[str]] = {}
    for task in graph.order:
        parent = max(task.depends_on, key=place.__getitem__, default=None)
        below.setdefault(parent, []).append(task.name)
    order: list[tuple[str, int]] = []
    open_ones = [(name, 0) for name in reversed(below.get(None, []))]
    while open_ones:
        name, level = open_ones.pop()
        order.append((name, level))
        deeper = min(level + 1, INDENT_MAX)
        open_ones += [(child, deeper) for child in reversed(below.get(name, []))]
    return order


def most_important(rows: Sequence[TaskRow], room: int) -> set[str]:
    """The names of the tasks to be shown where there is room for so many."""
    ranked = sorted(rows, key=lambda row: IMPORTANCE.index(row.phase))
    return {row.task.name for row in ranked[:room]}
