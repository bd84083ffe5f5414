"""The display on a terminal: which tasks it shows, in which order, and what it keeps away from the screen."""

import io
from dataclasses import replace

from rich.console import Console

from fencepost.api.codec import encode_run_status
from fencepost.cli.ledger import Ledger
from fencepost.cli.live import INDENT_MAX, WAITING_LENGTH_MAX, LiveDisplay, most_important, tree_order
from fencepost.core.graph import Graph
from fencepost.core.names import JobKey, RunKey
from fencepost.core.run_state import Outcome, RunState, TaskState
from fencepost.worker.output import OutputLine
from fencepost.worker.runner import JobSource
from tests.unit.cli.test_ledger import NOW_S, RUNNING, Story, ended, graph, job, lease, result

SOURCE = JobSource(RunKey("demo", "etl-1"), JobKey("load", 0), 1)


class Screen:
    """A display, and all that it has written so far."""

    def __init__(self, tasks: Graph, *, height: int = 24, show_output: bool = True) -> None:
        self._file = io.StringIO()
        console = Console(file=self._file, force_terminal=True, color_system=None, width=80, height=height)
        self.display = LiveDisplay(console, tasks, "run etl-1", lambda: NOW_S + 2, show_output=show_output)
        self.ledger = Ledger(tasks)

    def run(self, tasks: dict[str, TaskState]) -> None:
        state: RunState = replace(RUNNING, tasks=tasks)
        self.display.update(self.ledger.see_run({"status": encode_run_status(state)}), self.ledger)

    def frame(self) -> str:
        """What the next refresh writes."""
        self._file.truncate(0)
        self._file.seek(0)
        self.display.refresh()
        return self._file.getvalue()


def test_tasks_stand_below_their_last_parent() -> None:
    tasks = graph(job("a"), job("b", "a"), job("c", "a"), job("d", "b", "c"), job("e"))
    assert tree_order(tasks) == [("a", 0), ("b", 1), ("c", 1), ("d", 2), ("e", 0)]


def test_a_long_chain_does_not_walk_off_the_screen() -> None:
    chain = [job("t0")] + [job(f"t{n}", f"t{n - 1}") for n in range(1, 2000)]
    order = tree_order(graph(*chain))
    assert [name for name, _ in order] == [f"t{n}" for n in range(2000)]
    assert max(level for _, level in order) == INDENT_MAX


def test_a_frame_shows_each_task_with_state_and_counts() -> None:
    screen = Screen(graph(job("load", count=3), job("report", "load")))
    screen.run({"load": ended(succeeded="0-1")})
    lines = screen.frame().splitlines()
    assert any("run etl-1: Running, 0 of 4 jobs" in line for line in lines)
    assert any(line.split()[:3] == ["load", "2/3", "Queued"] for line in lines)
    assert any(line.startswith("  report") and "Pending" in line for line in lines)


def test_a_frame_shows_the_last_words_of_what_failed() -> None:
    story = Story(job("load"))
    story.run(leases={JobKey("load", 0): lease(1)})
    story.result("load", 0, result(1, Outcome.FAILED, 3, "one\ntwo\nthree\nfour"))
    screen = Screen(story.ledger.graph)
    screen.display.update(RUNNING, story.ledger)
    frame = screen.frame()
    assert "load: exit code 3" in frame
    assert "  four" in frame
    assert "  one" not in frame


def test_where_there_is_no_room_for_all_tasks_those_in_trouble_come_first_and_the_rest_is_counted() -> None:
    tasks = graph(*(job(f"t{n}") for n in range(100)))
    screen = Screen(tasks, height=10)
    screen.run({f"t{n}": ended(succeeded="0") for n in range(98)} | {"t98": ended(failed="0")})
    frame = screen.frame()
    assert "t98" in frame
    assert "t99" in frame
    assert "and 94 Succeeded" in frame
    assert len(frame.splitlines()) <= 10


def test_the_most_important_are_as_many_as_there_is_room_for() -> None:
    rows = Ledger(graph(job("a"), job("b", "a"))).rows()
    assert most_important(rows, 1) == {"a"}
    assert most_important(rows, 5) == {"a", "b"}


def test_what_jobs_print_appears_under_their_name_with_colours_but_without_moving_the_cursor() -> None:
    screen = Screen(graph(job("load")))
    screen.display.write(SOURCE, [OutputLine("\x1b[2J\x1b[31mred\x1b]0;title\x07\r\x1b[Aer\x1b7")])
    assert "load | \x1b[31mreder\x1b[0m\n" in screen.frame()


def test_a_quiet_display_shows_no_output_but_its_own_notes() -> None:
    screen = Screen(graph(job("load")), show_output=False)
    screen.display.write(SOURCE, [OutputLine("secret")])
    screen.display.note("cancelling")
    frame = screen.frame()
    assert "secret" not in frame
    assert "cancelling" in frame


def test_more_output_than_can_be_shown_makes_the_jobs_wait() -> None:
    screen = Screen(graph(job("load")))
    assert not screen.display.full
    screen.display.write(SOURCE, [OutputLine("x" * WAITING_LENGTH_MAX)])
    assert screen.display.full
    screen.display.refresh()
    assert not screen.display.full


def test_what_was_printed_last_is_shown_at_the_end() -> None:
    screen = Screen(graph(job("load")))
    screen.frame()
    screen.display.write(SOURCE, [OutputLine("last words")])
    screen.display.close()
    assert "load | last words" in screen._file.getvalue()
