"""`fencepost run`: one run of a DAG on this machine, shown while it goes on; its exit code says how it went.

1. Read the file and refuse what a cluster would refuse. 2. Bring up a cluster in this process and make a manual run.
3. Follow it, and cancel it when somebody interrupts. 4. Take the cluster down, whatever happened, and sum up.
"""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from fencepost.api.read import check_run
from fencepost.base.clock import Clock
from fencepost.base.identity import nonce
from fencepost.cli.check import checked_dag, counted
from fencepost.cli.errors import LocalClusterError, RefusedError
from fencepost.cli.interrupts import Interrupts
from fencepost.cli.ledger import Ledger
from fencepost.cli.local import LocalCluster
from fencepost.cli.narration import span_text
from fencepost.cli.progress import Display, PlainDisplay
from fencepost.cli.sources import pick_dag
from fencepost.cli.streams import accept_any_text
from fencepost.cli.summary import summary_json, summary_lines
from fencepost.core.check import CheckedDag
from fencepost.core.phases import RunPhase
from fencepost.core.worker_record import WORKER_SLOTS_MAX

_DESCRIPTION = """Run a DAG on this machine, with no cluster; jobs run in the present folder.
Ctrl-C cancels the run, a second one kills it.
Exit code 0: Succeeded; 1: Failed, Cancelled or killed; 2: refused."""
EXIT_SUCCEEDED = 0
EXIT_FAILED = 1
SLOTS_MIN_DEFAULT = 4
NAMESPACE_DEFAULT = "default"
REFRESH_S = 0.1


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be done."""

    name: str
    """Of the run."""
    namespace: str
    dag: dict[str, Any]
    checked: CheckedDag
    params: dict[str, str]
    slots: int


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the command and its options."""
    parser = subparsers.add_parser("run", help="a DAG on this machine, with no cluster", description=_DESCRIPTION)
    parser.add_argument("file", metavar="FILE", help="YAML or JSON with the DAG; - for standard input")
    parser.add_argument("--dag", metavar="NAME", help="which DAG, where the file holds several")
    parser.add_argument(
        "--param", action="append", default=[], metavar="K=V", help="a param of the run; may be given several times"
    )
    parser.add_argument(
        "--output",
        choices=("text", "json"),
        default="text",
        help="json: nothing on standard output but the DAGRun and its jobs, at the end (default: %(default)s)",
    )
    parser.add_argument("--quiet", action="store_true", help="do not show what jobs print")
    parser.add_argument("--slots", type=int, metavar="N", help=f"jobs at a time, 1 to {WORKER_SLOTS_MAX}")
    return parser


def run(args: argparse.Namespace, clock: Clock) -> int:
    """Carry out the run that the parsed options ask for; RefusedError where it cannot be begun."""
    accept_any_text()
    return asyncio.run(_carry_out(read_job(args), args, clock))


def read_job(args: argparse.Namespace) -> Job:
    """The run that the options ask for, everything checked; RefusedError naming the first thing that is wrong."""
    document = pick_dag(args.file, args.dag)
    checked = checked_dag(document)
    if isinstance(checked, list):
        raise RefusedError(*(f"{document}: {problem}" for problem in checked))
    declared = dict(checked.spec.definition.params)
    params = dict(_param(text) for text in args.param)
    for name in params.keys() - declared.keys():
        remedy = f"choose one of {', '.join(declared)}" if declared else "declare it in spec.params"
        raise RefusedError(f"{document}: it has no param {name!r}; {remedy}")
    dag_name = document.metadata["name"]
    for problem in check_run({"spec": {"dag": dag_name, "params": params}}):
        raise RefusedError(f"{document}: {problem}")
    slots = default_slots(os.cpu_count()) if args.slots is None else args.slots
    if not 1 <= slots <= WORKER_SLOTS_MAX:
        raise RefusedError(f"--slots: {slots} is not possible; write a number from 1 to {WORKER_SLOTS_MAX}")
    namespace = str(document.metadata.get("namespace") or NAMESPACE_DEFAULT)
    return Job(f"{dag_name}-{nonce()}", namespace, document.value, checked, params, slots)


def _param(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise RefusedError(f"--param: {text!r} is not of the form K=V; write it like region=eu")
    return name, value


def default_slots(cpus: int | None) -> int:
    """One for each CPU, at least a few, since most jobs wait more than they compute."""
    return min(WORKER_SLOTS_MAX, max(SLOTS_MIN_DEFAULT, cpus or 0))


async def _carry_out(job: Job, args: argparse.Namespace, clock: Clock) -> int:
    """The run from beginning to end; the exit code."""
    began_s = clock.steady_s()
    ledger = Ledger(job.checked.graph)
    display = _open_display(job, args, clock)
    ended = False
    try:
        with Interrupts() as interrupts, _logs_shown(display):
            pool = job.checked.spec.definition.pool
            async with LocalCluster(clock, pool=pool, slots=job.slots, job_log=display, salt=nonce()) as cluster:
                ended = await _follow_to_end(cluster, job, ledger, display, interrupts, clock)
                took_s = clock.steady_s() - began_s
    except ExceptionGroup as group:
        # What a part of the cluster ended of is one of those, whatever else failed when it was gone.
        broken, _ = group.split(LocalClusterError)
        raise group if broken is None else broken.exceptions[0] from None
    finally:
        display.close()
    if args.output == "json":
        print(summary_json(ledger.run, ledger))
        return _exit_code(ledger)
    for line in summary_lines(ledger):
        print(line)
    print(f"run {job.name}: {ledger.state.phase} in {span_text(took_s)}" if ended else f"run {job.name}: killed")
    return _exit_code(ledger)


async def _follow_to_end(
    cluster: LocalCluster, job: Job, ledger: Ledger, display: Display, interrupts: Interrupts, clock: Clock
) -> bool:
    """Until the run has finished; False if somebody did not want to wait for that."""
    definition = job.checked.spec.definition
    size = f"{counted(len(definition.tasks), 'task')}, {counted(definition.size, 'job')}"
    display.note(f"run {job.name}: {size}, {counted(job.slots, 'slot')}")
    async with asyncio.TaskGroup() as group:
        ledger.see_run(await cluster.start_run(job.name, job.dag, job.namespace, job.params))
        following = group.create_task(_follow_run(cluster, ledger, display))
        insisting = group.create_task(interrupts.insisted.wait())
        others = [
            group.create_task(cluster.broken()),
            group.create_task(_follow_results(cluster, ledger)),
            group.create_task(_cancel_when_asked(cluster, ledger, display, interrupts, definition.grace_s)),
            group.create_task(_refresh(display, clock)),
        ]
        await asyncio.wait({following, insisting}, return_when=asyncio.FIRST_COMPLETED)
        for task in (following, insisting, *others):
            task.cancel()
    return ledger.state.phase.finished


async def _follow_run(cluster: LocalCluster, ledger: Ledger, display: Display) -> None:
    async for version in cluster.run_versions(ledger.run):
        before = ledger.see_run(version)
        display.update(before, ledger)
        if ledger.state.phase.finished:
            return


async def _follow_results(cluster: LocalCluster, ledger: Ledger) -> None:
    """A result is seen here before the run that it is folded into: the loop wakes its sleepers in order."""
    async for version in cluster.worker_versions():
        ledger.see_worker(version)


async def _cancel_when_asked(
    cluster: LocalCluster, ledger: Ledger, display: Display, interrupts: Interrupts, grace_s: float
) -> None:
    await interrupts.asked.wait()
    display.note(f"cancelling the run: its jobs get {span_text(grace_s)} to end; interrupt again to kill them")
    await cluster.cancel(ledger.run)


async def _refresh(display: Display, clock: Clock) -> NoReturn:
    while True:
        display.refresh()
        await clock.sleep(REFRESH_S)


def _open_display(job: Job, args: argparse.Namespace, clock: Clock) -> Display:
    graph, show_output = job.checked.graph, not args.quiet
    if args.output == "json":
        return PlainDisplay(sys.stderr, graph, show_output=show_output)
    if sys.stdout.isatty():
        from rich.console import Console

        from fencepost.cli.live import LiveDisplay

        console = Console()
        if not console.is_dumb_terminal:
            return LiveDisplay(console, graph, f"run {job.name}", clock.now_s, show_output=show_output)
    return PlainDisplay(sys.stdout, graph, show_output=show_output)


@contextmanager
def _logs_shown(display: Display) -> Iterator[None]:
    """What the parts of the cluster warn of goes through the display, which owns the terminal."""

    class Shown(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            display.note(f"fencepost: {record.getMessage()}")

    logger, handler = logging.getLogger("fencepost"), Shown(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _exit_code(ledger: Ledger) -> int:
    return EXIT_SUCCEEDED if ledger.state.phase is RunPhase.SUCCEEDED else EXIT_FAILED
