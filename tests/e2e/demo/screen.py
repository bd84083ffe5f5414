"""Where the demo is told: a terminal gets lines that run upwards above a picture that changes, all else lines only."""

import contextlib
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase, RunPhase
from fencepost.core.run_state import TaskState
from tests.e2e.demo.picture import Picture, Run, Worker

RUNS_SHOWN = 3
MARKS = {
    JobPhase.SUCCEEDED: ("●", "green"),
    JobPhase.FAILED: ("●", "red"),
    JobPhase.SKIPPED: ("●", "dim"),
    JobPhase.CANCELLED: ("●", "magenta"),
    JobPhase.RUNNING: ("◐", "cyan"),
    JobPhase.QUEUED: ("○", "yellow"),
    JobPhase.PENDING: ("○", "dim"),
}
PHASE_STYLES = {RunPhase.SUCCEEDED: "green", RunPhase.RUNNING: "cyan"}


class Screen(Protocol):
    """Tells the demo to somebody."""

    def step(self, doing: str) -> AbstractContextManager[object]:
        """Something that takes a few seconds, in the present tense."""
        ...

    def say(self, line: str, *, loud: bool = False) -> None:
        """Something that has happened; `loud`: what the demo is about."""
        ...

    def command(self, line: str) -> None:
        """A command that is carried out now."""
        ...

    def quote(self, line: str) -> None:
        """What a job has printed."""
        ...

    def show(self, picture: Picture, replicas: Collection[str], dead: Collection[str]) -> None:
        """What stands there now. `dead`: processes that the demo has killed."""
        ...

    def close(self) -> None:
        """Nothing more changes; `write` comes after this."""
        ...


class Lines:
    """For whoever reads it later: a line for each thing that happens."""

    @contextlib.contextmanager
    def step(self, doing: str) -> Iterator[None]:
        self.say(doing)
        yield

    def say(self, line: str, *, loud: bool = False) -> None:
        print(f"{_clock()}  {line}", flush=True)

    def command(self, line: str) -> None:
        self.say(f"$ {line}")

    def quote(self, line: str) -> None:
        self.say(line)

    def show(self, picture: Picture, replicas: Collection[str], dead: Collection[str]) -> None:
        pass

    def close(self) -> None:
        pass


class Terminal:
    """For whoever watches."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None

    def step(self, doing: str) -> AbstractContextManager[object]:
        return self._console.status(doing)

    def say(self, line: str, *, loud: bool = False) -> None:
        self._print(line, "bold" if loud else "")

    def command(self, line: str) -> None:
        self._print(f"$ {line}", "blue")

    def quote(self, line: str) -> None:
        self._print(line, "dim")

    def _print(self, line: str, style: str) -> None:
        self._console.print(Text(f"{_clock()}  ", style="dim") + Text(line, style=style))

    def show(self, picture: Picture, replicas: Collection[str], dead: Collection[str]) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, redirect_stdout=False)
            self._live.start()
        frame = Group(Text(), _operators(picture, replicas, dead), _workers(picture, dead), _runs(picture))
        self._live.update(frame, refresh=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()


def open_screen() -> Screen:
    """A terminal where standard output is one."""
    console = Console(highlight=False)
    if console.is_terminal and not console.is_dumb_terminal:
        return Terminal(console)
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    return Lines()


def _clock() -> str:
    return time.strftime("%H:%M:%S")


def _operators(picture: Picture, replicas: Collection[str], dead: Collection[str]) -> Table:
    table = Table.grid(padding=(0, 2))
    for name in replicas:
        count = picture.shards_of(name)
        state = Text("killed", style="bold red") if name in dead else Text(f"leads {count} shards")
        if name in dead and count:
            state.append(f", {count} shards wait for another leader", style="yellow")
        table.add_row(Text(name, style="bold"), state)
    return table


def _workers(picture: Picture, dead: Collection[str]) -> Table:
    table = Table.grid(padding=(0, 2))
    for pod, worker in sorted(picture.workers.items()):
        table.add_row(Text(pod, style="bold"), _slots(worker), _doing(worker, pod in dead))
    return table


def _slots(worker: Worker) -> Text:
    busy = min(len(worker.jobs), worker.slots)
    return Text("■" * busy, style="cyan") + Text("□" * (worker.slots - busy), style="dim")


def _doing(worker: Worker, dead: bool) -> Text:
    jobs = Text(" ".join(f"{job.task}/{job.index}" for job in worker.jobs), style="dim")
    if worker.fenced:
        return Text("fenced ", style="bold red") + jobs
    return Text("killed ", style="bold red") + jobs if dead else jobs


def _runs(picture: Picture) -> Group:
    return Group(*(_run(run) for run in list(picture.runs.values())[-RUNS_SHOWN:]))


def _run(run: Run) -> Group:
    state = run.state
    head = Text(f"{run.name}  ", style="bold")
    head.append(f"{state.phase} {state.done}/{state.total}", style=PHASE_STYLES.get(state.phase, "yellow"))
    return Group(head, Text("  ") + _graph(run))


def _graph(run: Run) -> Text:
    """Each task's jobs, a mark for each."""
    text = Text()
    for task, count in run.tasks.items():
        text.append(f"{task} ", style="dim")
        for index in range(1 if count is None else count):
            text.append(*MARKS[_phase(run, JobKey(task, index))])
        text.append("  ")
    return text


def _phase(run: Run, job: JobKey) -> JobPhase:
    ended = run.state.tasks.get(job.task, TaskState()).phase_of(job.index)
    if ended is not None:
        return ended
    if job in run.state.leases:
        return JobPhase.RUNNING
    return JobPhase.QUEUED if job in run.state.waiting else JobPhase.PENDING
