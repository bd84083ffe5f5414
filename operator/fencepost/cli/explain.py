"""`fencepost explain RUN`: why each job that does not run does not, with numbers."""

import argparse

from fencepost.base.clock import Clock
from fencepost.cli.cluster import Cluster, add_cluster_options
from fencepost.cli.record import RunRecord, headline, read_run
from fencepost.core.explain import TaskAccount, explain_run

DESCRIPTION = """Tell where each task of a run stands: which jobs run where, and why the others do not.
Exit code 0, or 2: refused."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]", help_: str) -> None:
    """Declare the command and its options."""
    parser = subparsers.add_parser("explain", help=help_, description=DESCRIPTION)
    parser.add_argument("run", metavar="RUN")
    add_cluster_options(parser)


async def run(args: argparse.Namespace, cluster: Cluster, clock: Clock) -> int:
    """Print the account."""
    record = read_run(cluster, args.run)
    if not isinstance(record, RunRecord):
        print(headline(record))
        if "status" not in record:
            print("  no operator has looked at it yet; `fencepost shards` shows whether its shard is led")
        return 0
    print(headline(record.object))
    for account in explain_run(record.state, record.graph, record.values, clock.now_s()):
        print(f"{account.task.name}: {counts_text(account)}")
        for why in account.why:
            print(f"  {why}")
    return 0


def counts_text(account: TaskAccount) -> str:
    """`2 Succeeded, 20 Running`; of a task of one job just its phase."""
    if account.size == 1:
        return ", ".join(str(phase) for phase in account.counts)
    counts = ", ".join(f"{count} {phase}" for phase, count in account.counts.items())
    return counts or ("no jobs" if account.over else "not known yet how many jobs")
