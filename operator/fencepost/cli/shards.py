"""`fencepost shards`: who leads which shard, since when, and how often it has changed hands."""

import argparse
from collections.abc import Sequence
from typing import Any

from fencepost.api.names import LEASES, ROLE_LABEL, SHARD_LABEL, SYSTEM_NAMESPACE_DEFAULT
from fencepost.base.clock import Clock
from fencepost.cli.cluster import Cluster, add_cluster_options
from fencepost.cli.tables import table_lines

COLUMNS = ("SHARD", "LEADER", "EPOCH", "SINCE")
NOBODY = "<none>"


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]", help_: str) -> None:
    """Declare the command and its options."""
    parser = subparsers.add_parser("shards", help=help_, description=__doc__)
    add_cluster_options(parser, namespace=SYSTEM_NAMESPACE_DEFAULT)


async def run(_args: argparse.Namespace, cluster: Cluster, _clock: Clock) -> int:
    """Print the table."""
    print(table(cluster.list(LEASES, f"{ROLE_LABEL}=shard")))
    return 0


def table(leases: Sequence[dict[str, Any]]) -> str:
    """The shard Leases as lines, by number. A shard whose leader has gone keeps its name until another takes it."""
    rows = [COLUMNS]
    for lease in sorted(leases, key=lambda lease: int(lease["metadata"]["labels"][SHARD_LABEL])):
        spec = lease.get("spec", {})
        holder, since = spec.get("holderIdentity") or NOBODY, spec.get("acquireTime") or ""
        rows.append(
            (lease["metadata"]["labels"][SHARD_LABEL], holder, str(spec.get("leaseTransitions", 0)), since[:19])
        )
    return "\n".join(table_lines(rows))
