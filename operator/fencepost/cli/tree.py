"""`fencepost tree RUN`: the run's graph with states, times and the critical path.

A graph is no tree, so each task is drawn once, below the parent that held it up longest (or may yet), and names its
other parents. A single child stands below its parent behind an arrow, without being moved in: a chain is a column,
whatever its length, and only where the graph branches do the lines move to the right.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence

from fencepost.api.times import format_duration
from fencepost.base.clock import Clock
from fencepost.cli.cluster import Cluster, add_cluster_options
from fencepost.cli.explain import counts_text
from fencepost.cli.record import RunRecord, headline, read_run
from fencepost.cli.streams import accept_any_text
from fencepost.core.explain import TaskAccount, explain_run
from fencepost.core.run_state import RunState

DESCRIPTION = """Draw the graph of a run: each task below the one it waited for last, with state and times.
Tasks marked with * are the critical path: they decided how long the run took. Exit code 0, or 2: refused."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]", help_: str) -> None:
    """Declare the command and its options."""
    parser = subparsers.add_parser("tree", help=help_, description=DESCRIPTION)
    parser.add_argument("run", metavar="RUN")
    add_cluster_options(parser)


async def run(args: argparse.Namespace, cluster: Cluster, clock: Clock) -> int:
    """Print the drawing."""
    accept_any_text()
    record = read_run(cluster, args.run)
    if not isinstance(record, RunRecord):
        print(headline(record))
        return 0
    print(headline(record.object))
    accounts = explain_run(record.state, record.graph, record.values, clock.now_s())
    rows = [(f"{stem}{account.task.name}", *_facts(account, record.state)) for stem, account in draw(accounts)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for name, state, times, more in rows:
        print(f"{name:{widths[0]}}  {state:{widths[1]}}  {times:{widths[2]}}  {more}".rstrip())
    return 0


def draw(accounts: Sequence[TaskAccount]) -> Iterator[tuple[str, TaskAccount]]:
    """Each task with what is drawn before its name. Accounts come in topological order."""
    by_name = {account.task.name: account for account in accounts}
    below: dict[str, list[TaskAccount]] = {}
    for account in accounts:
        below.setdefault(upper_of(account, by_name), []).append(account)
    # what is still to be drawn, the next one last: how far it is moved in, what stands there, and the task
    left = [("", "", account) for account in reversed(below[""])]
    while left:
        margin, branch, account = left.pop()
        yield margin + branch, account
        children = below.get(account.task.name, [])
        inner = margin + {"": "", "↓ ": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        if len(children) == 1:
            left.append((inner, "↓ ", children[0]))
            continue
        for place, child in enumerate(reversed(children)):
            left.append((inner, "├─ " if place else "└─ ", child))


def upper_of(account: TaskAccount, by_name: Mapping[str, TaskAccount]) -> str:
    """The parent that a task is drawn below: one that is not over, else the one that ended last; empty for a root."""
    parents = [by_name[name] for name in account.task.depends_on]
    held_up = max(parents, key=lambda each: (not each.over, each.end_s or 0.0), default=None)
    return "" if held_up is None else held_up.task.name


def _facts(account: TaskAccount, state: RunState) -> tuple[str, str, str]:
    times = ""
    if account.start_s is not None and account.end_s is not None:
        after_s = account.start_s - (state.start_s or account.start_s)
        times = f"{_seconds(account.end_s - account.start_s)} from +{_seconds(after_s)}"
    more = ["*"] if account.critical else []
    if len(account.task.depends_on) > 1:
        more.append(f"after {', '.join(account.task.depends_on)}")
    return counts_text(account), times, "  ".join(more)


def _seconds(seconds: float) -> str:
    return format_duration(max(0.0, seconds)) if seconds >= 10 else f"{max(0.0, seconds):.1f}s"
