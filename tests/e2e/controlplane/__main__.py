"""python -m tests.e2e.controlplane {build,up,down,status,kind-up,kind-down}

An error is one message on standard error and exit code 1; `status` exits with 3 where the cluster isn't ready.
"""

from __future__ import annotations

import argparse
import sys

from tests.e2e.controlplane import cluster, kind
from tests.e2e.controlplane.build import build
from tests.e2e.controlplane.errors import ControlPlaneError

EXIT_FAILED = 1
EXIT_NOT_READY = 3
EXIT_INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    parsed = _parser().parse_args(arguments)
    try:
        return _run(parsed)
    except ControlPlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.controlplane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build the binaries, once; prints the folder they are in")
    up = commands.add_parser("up", help="start a control plane that stays; prints `export KUBECONFIG=…`")
    up.add_argument("--fresh", action="store_true", help="throw away the data of the last time")
    commands.add_parser("down", help="stop it, and nothing else")
    commands.add_parser("status", help="tell what runs of it")
    commands.add_parser("kind-up", help="create a cluster in containers by kind")
    commands.add_parser("kind-down", help="delete it")
    return parser


def _run(parsed: argparse.Namespace) -> int:
    match parsed.command:
        case "build":
            print(build())
        case "up":
            cluster.up(parsed.fresh)
        case "down":
            cluster.down()
        case "status":
            return 0 if cluster.status() else EXIT_NOT_READY
        case "kind-up":
            kind.kind_up()
        case "kind-down":
            kind.kind_down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
