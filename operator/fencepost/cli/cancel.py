"""`fencepost cancel RUN`: stop its jobs and end it."""

import argparse

from fencepost.api.names import DAG_RUNS
from fencepost.base.clock import Clock
from fencepost.cli.cluster import Cluster, add_cluster_options, named
from fencepost.cli.errors import RefusedError
from fencepost.cli.waiting import EXIT_FAILED, EXIT_SUCCEEDED, is_finished, phase_of, wait_for_end
from fencepost.core.phases import RunPhase

DESCRIPTION = """Ask the jobs of a run to end (SIGTERM, after the DAG's terminationGracePeriod SIGKILL) and end the run.
Exit code 0: it is being cancelled, or with --wait is Cancelled; 1: with --wait, it ended otherwise; 2: refused."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]", help_: str) -> None:
    """Declare the command and its options."""
    parser = subparsers.add_parser("cancel", help=help_, description=DESCRIPTION)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--wait", action="store_true", help="until it has ended")
    add_cluster_options(parser)


async def run(args: argparse.Namespace, cluster: Cluster, clock: Clock) -> int:
    """Set `spec.cancel`; RefusedError for a run that has ended otherwise."""
    before = cluster.get(DAG_RUNS, args.run)
    phase = phase_of(before)
    if is_finished(before) and phase is not RunPhase.CANCELLED:
        raise RefusedError(
            f"DAGRun {cluster.namespace}/{args.run} has {phase.lower()} already; there is nothing to cancel"
        )
    if is_finished(before) or before["spec"].get("cancel"):
        print(f"{named(DAG_RUNS, args.run)} was cancelled before")
    else:
        cluster.patch(DAG_RUNS, args.run, {"spec": {"cancel": True}})
        print(f"{named(DAG_RUNS, args.run)} is being cancelled", flush=True)
    if not args.wait:
        return EXIT_SUCCEEDED
    ended = await wait_for_end(cluster, clock, args.run)
    return EXIT_SUCCEEDED if phase_of(ended) is RunPhase.CANCELLED else EXIT_FAILED
