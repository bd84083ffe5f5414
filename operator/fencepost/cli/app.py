"""The command `fencepost`, which is `kubectl fencepost` as well.

Each command lives in a module of its own, and only the one that is called is imported: `fencepost check` in a hook must
not wait for what the operator needs.
"""

import argparse
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.base.clock import Clock, SystemClock
from fencepost.cli.errors import CommandError
from fencepost.cli.streams import discard

if TYPE_CHECKING:
    from fencepost.cli.cluster import Cluster

EXIT_FAILED = 1
PLUGIN_SCRIPT = "kubectl-fencepost"

Subparsers = argparse._SubParsersAction
Run = Callable[[argparse.Namespace], int]
Asked = Callable[[argparse.Namespace, "Cluster", Clock], Coroutine[None, None, int]]
"""A command that asks a cluster."""


@dataclass(frozen=True, slots=True)
class OnCluster:
    """Carries out a command on the cluster that its options name."""

    ask: Asked

    def __call__(self, args: argparse.Namespace) -> int:
        import asyncio

        from fencepost.cli.cluster import open_cluster

        return asyncio.run(self.ask(args, open_cluster(args), SystemClock()))


@dataclass(frozen=True, slots=True)
class Command:
    """One command by name."""

    help: str
    load: "Callable[[Subparsers[argparse.ArgumentParser]], Run]"
    """Imports it, declares its options, and gives what carries it out."""


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out a command line; the exit code. SystemExit (0 or 2) from help and from options that do not exist."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        return _carry_out(words)
    except CommandError as error:
        for line in error.args:
            print(f"fencepost: {line}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        discard(sys.stdout)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_FAILED


def _carry_out(words: Sequence[str]) -> int:
    script = Path(sys.argv[0]).name
    parser = argparse.ArgumentParser(
        prog="kubectl fencepost" if script == PLUGIN_SCRIPT else "fencepost",
        description="A job scheduler with DAGs for Kubernetes in which every lease is fenced.",
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    called = next((word for word in words if not word.startswith("-")), "")
    run: Run | None = None
    for name, command in COMMANDS.items():
        if name == called:
            run = command.load(subparsers)
        else:
            subparsers.add_parser(name, help=command.help)
    args = parser.parse_args(words)
    assert run is not None, "argparse lets no command through that is none"
    return run(args)


def _load_check(subparsers: "Subparsers[argparse.ArgumentParser]") -> Run:
    from fencepost.cli import check

    check.add_parser(subparsers)
    return lambda args: check.run(args, SystemClock())


def _load_run(subparsers: "Subparsers[argparse.ArgumentParser]") -> Run:
    from fencepost.cli import run

    run.add_parser(subparsers)
    return lambda args: run.run(args, SystemClock())


def _load_next(subparsers: "Subparsers[argparse.ArgumentParser]") -> Run:
    from fencepost.cli import next as next_command

    next_command.add_parser(subparsers)
    return lambda args: next_command.run(args, now=lambda: datetime.fromtimestamp(SystemClock().now_s(), UTC))


def _load_operator(subparsers: "Subparsers[argparse.ArgumentParser]") -> Run:
    from fencepost import main as root

    root.add_operator_parser(subparsers)
    return root.run_operator


def _load_worker(subparsers: "Subparsers[argparse.ArgumentParser]") -> Run:
    from fencepost import main as root

    root.add_worker_parser(subparsers)
    return root.run_worker


def _load_trigger(subparsers: "Subparsers[argparse.ArgumentParser]") -> Run:
    from fencepost.cli import trigger

    trigger.add_parser(subparsers, COMMANDS["trigger"].help)
    return OnCluster(trigger.run)


def _load_cancel(subparsers: "Subparsers[argparse.ArgumentParser]") -> Run:
    from fencepost.cli import cancel

    cancel.add_parser(subparsers, COMMANDS["cancel"].help)
    return OnCluster(cancel.run)


def _load_backfill(subparsers: "Subparsers[argparse.ArgumentParser]") -> Run:
    from fencepost.cli import backfill

    backfill.add_parser(subparsers, COMMANDS["backfill"].help)
    return OnCluster(backfill.run)


def _load_explain(subparsers: "Subparsers[argparse.ArgumentParser]") -> Run:
    from fencepost.cli import explain

    explain.add_parser(subparsers, COMMANDS["explain"].help)
    return OnCluster(explain.run)


def _load_tree(subparsers: "Subparsers[argparse.ArgumentParser]") -> Run:
    from fencepost.cli import tree

    tree.add_parser(subparsers, COMMANDS["tree"].help)
    return OnCluster(tree.run)


def _load_logs(subparsers: "Subparsers[argparse.ArgumentParser]") -> Run:
    from fencepost.cli import logs

    logs.add_parser(subparsers, COMMANDS["logs"].help)
    return OnCluster(logs.run)


def _load_suspend(subparsers: "Subparsers[argparse.ArgumentParser]") -> Run:
    from fencepost.cli import suspend

    suspend.add_suspend_parser(subparsers, COMMANDS["suspend"].help)
    return OnCluster(suspend.suspend)


def _load_resume(subparsers: "Subparsers[argparse.ArgumentParser]") -> Run:
    from fencepost.cli import suspend

    suspend.add_resume_parser(subparsers, COMMANDS["resume"].help)
    return OnCluster(suspend.resume)


def _load_rerun(subparsers: "Subparsers[argparse.ArgumentParser]") -> Run:
    from fencepost.cli import repair

    repair.add_rerun_parser(subparsers, COMMANDS["rerun"].help)
    return OnCluster(repair.rerun)


def _load_mark(subparsers: "Subparsers[argparse.ArgumentParser]") -> Run:
    from fencepost.cli import repair

    repair.add_mark_parser(subparsers, COMMANDS["mark"].help)
    return OnCluster(repair.mark)


def _load_replay(subparsers: "Subparsers[argparse.ArgumentParser]") -> Run:
    from fencepost.cli import replay

    replay.add_parser(subparsers, COMMANDS["replay"].help)
    return OnCluster(replay.run)


def _load_shards(subparsers: "Subparsers[argparse.ArgumentParser]") -> Run:
    from fencepost.cli import shards

    shards.add_parser(subparsers, COMMANDS["shards"].help)
    return OnCluster(shards.run)


COMMANDS = {
    "check": Command("what the cluster would say of a file, offline", _load_check),
    "run": Command("a DAG on this machine, with no cluster", _load_run),
    "next": Command("the coming times of a schedule", _load_next),
    "trigger": Command("a run of a DAG now", _load_trigger),
    "backfill": Command("runs of a DAG for times in the past", _load_backfill),
    "cancel": Command("stop a run", _load_cancel),
    "suspend": Command("no new runs of a DAG, or no more jobs of a run, for now", _load_suspend),
    "resume": Command("let what was suspended go on", _load_resume),
    "rerun": Command("run a finished run again, or a part of it", _load_rerun),
    "mark": Command("say of a job how it ended", _load_mark),
    "replay": Command("run jobs again that failed for good, by their dead letters", _load_replay),
    "explain": Command("why the jobs of a run that do not run do not", _load_explain),
    "tree": Command("the graph of a run, with states, times and the critical path", _load_tree),
    "logs": Command("what a job has printed", _load_logs),
    "shards": Command("who leads which shard of a cluster", _load_shards),
    "operator": Command("one replica of the operator", _load_operator),
    "worker": Command("one worker of a pool", _load_worker),
}
