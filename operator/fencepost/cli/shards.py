"""`fencepost shards`: who leads which shard, since when, and how often it has changed hands."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fencepost.api.names import ROLE_LABEL, SHARD_LABEL, SYSTEM_NAMESPACE_DEFAULT

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

COLUMNS = ("SHARD", "LEADER", "EPOCH", "SINCE")
EXIT_REFUSED = 2
NOBODY = "<none>"


def add_parser(subparsers: "Subparsers") -> None:
    """Declare the command and its options."""
    parser = subparsers.add_parser("shards", help="who leads which shard", description=__doc__)
    parser.add_argument("--kubeconfig", help="file to reach the API server with; default: as kubectl")
    parser.add_argument("--namespace", default=SYSTEM_NAMESPACE_DEFAULT, help="where the Leases live [%(default)s]")


def run(args: argparse.Namespace) -> int:
    """Print the table; 2 if the cluster cannot be asked."""
    import pykube  # slow to import, and only needed here
    import requests

    try:
        config = pykube.KubeConfig.from_file(args.kubeconfig) if args.kubeconfig else pykube.KubeConfig.from_env()
        client = pykube.HTTPClient(config)
        leases = client.get(
            base="/apis/coordination.k8s.io",
            version="v1",
            namespace=args.namespace,
            url="leases",
            params={"labelSelector": f"{ROLE_LABEL}=shard"},
        )
        leases.raise_for_status()
    except (requests.RequestException, pykube.exceptions.PyKubeError) as error:
        fact = f"the Leases of {args.namespace} cannot be read: {error}"
        print(f"fencepost: {fact}; check the kubeconfig and your rights", file=sys.stderr)
        return EXIT_REFUSED
    print(table(leases.json()["items"]))
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
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
