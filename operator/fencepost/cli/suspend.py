"""`fencepost suspend` and `fencepost resume`: a DAG's scheduled runs, or the jobs of one run."""

import argparse

from fencepost.api.names import DAG_RUNS, DAGS
from fencepost.base.clock import Clock
from fencepost.cli.cluster import Cluster, add_cluster_options, named
from fencepost.cli.errors import RefusedError
from fencepost.cli.waiting import EXIT_SUCCEEDED, is_finished, phase_of

SUSPEND = """Suspend a DAG: it makes no new scheduled runs, and those under way go on. Or, with --run, one run: it
starts no more jobs, and those that run go on. Exit code 0: it is suspended; 2: refused."""
RESUME = """Let a suspended DAG, or with --run a suspended run, go on. Exit code 0: it goes on; 2: refused."""


def add_suspend_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]", help_: str) -> None:
    """Declare `suspend` and its options."""
    _add_options(subparsers.add_parser("suspend", help=help_, description=SUSPEND))


def add_resume_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]", help_: str) -> None:
    """Declare `resume` and its options."""
    _add_options(subparsers.add_parser("resume", help=help_, description=RESUME))


async def suspend(args: argparse.Namespace, cluster: Cluster, _clock: Clock) -> int:
    """Set `spec.suspend`."""
    return _set(args, cluster, True)


async def resume(args: argparse.Namespace, cluster: Cluster, _clock: Clock) -> int:
    """Take `spec.suspend` back."""
    return _set(args, cluster, False)


def _add_options(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("dag", nargs="?", metavar="DAG")
    which.add_argument("--run", metavar="RUN", help="one run instead of a DAG")
    add_cluster_options(parser)


def _set(args: argparse.Namespace, cluster: Cluster, wanted: bool) -> int:
    kind, name = (DAG_RUNS, args.run) if args.run else (DAGS, args.dag)
    obj = cluster.get(kind, name)
    if kind is DAG_RUNS and is_finished(obj):
        raise RefusedError(f"DAGRun {cluster.namespace}/{name} has {phase_of(obj).lower()} already; name one under way")
    done = "suspended" if wanted else "resumed"
    if bool(obj["spec"].get("suspend")) == wanted:
        print(f"{named(kind, name)} was {done} before" if wanted else f"{named(kind, name)} is not suspended")
    else:
        cluster.patch(kind, name, {"spec": {"suspend": wanted}})
        print(f"{named(kind, name)} {done}")
    return EXIT_SUCCEEDED
