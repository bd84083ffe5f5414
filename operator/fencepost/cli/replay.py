"""`fencepost replay`: jobs that failed for good are run again, by their dead letters."""

import argparse
import re

from fencepost.api.names import DAG_LABEL, DEAD_LETTERS, RUN_LABEL
from fencepost.base.clock import Clock
from fencepost.cli.cluster import Cluster, Obj, add_cluster_options, named
from fencepost.cli.errors import RefusedError
from fencepost.cli.waiting import EXIT_SUCCEEDED
from fencepost.core.dead_letters import REPLAYING, SUCCEEDED

DESCRIPTION = f"""Have the jobs of dead letters run again, each in its own run, or in a new one where that is gone. With
a selector, letters that were replayed with success are left out; they are labelled {DAG_LABEL} and {RUN_LABEL}.
Exit code 0: asked for; 2: refused."""
RATE_DEFAULT = "10/s"
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:/s)?")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]", help_: str) -> None:
    """Declare the command and its options."""
    parser = subparsers.add_parser("replay", help=help_, description=DESCRIPTION)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a DeadLetter")
    parser.add_argument("-l", "--selector", metavar="LABELS", help="instead of names, such as fencepost.dev/dag=etl")
    parser.add_argument("--rate", metavar="N/s", default=RATE_DEFAULT, help="so many each second [%(default)s]")
    add_cluster_options(parser)


async def run(args: argparse.Namespace, cluster: Cluster, clock: Clock) -> int:
    """Raise `spec.replay` of each letter; RefusedError where it is not said of which, or one is not there."""
    pause_s = _pause_s(args.rate)
    if bool(args.names) == bool(args.selector):
        raise RefusedError("name dead letters, or give a --selector; `kubectl get deadletters` shows them")
    if args.names:
        letters = [cluster.get(DEAD_LETTERS, name) for name in args.names]
    else:
        found = cluster.list(DEAD_LETTERS, args.selector)
        letters = [letter for letter in found if letter.get("status", {}).get("phase") != SUCCEEDED]
        if not letters:
            print(f"no dead letter of {cluster.namespace} is to be replayed")
    for place, letter in enumerate(letters):
        if _replay(cluster, letter) and place < len(letters) - 1:
            await clock.sleep(pause_s)
    return EXIT_SUCCEEDED


def _replay(cluster: Cluster, letter: Obj) -> bool:
    """Ask for one more replay, unless one is under way; whether it was asked for."""
    name, spec, status = letter["metadata"]["name"], letter["spec"], letter.get("status", {})
    replay = spec.get("replay", 0)
    if replay > status.get("replay", 0) or status.get("phase") == REPLAYING:
        print(f"{named(DEAD_LETTERS, name)} is being replayed already", flush=True)
        return False
    job = spec["job"]
    cluster.patch(DEAD_LETTERS, name, {"spec": {"replay": replay + 1}})
    where = f"job {job['task']}/{job.get('index', 0)} of run {job['run']}"
    print(f"{named(DEAD_LETTERS, name)} is replayed: {where}", flush=True)
    return True


def _pause_s(rate: str) -> float:
    found = _RATE.fullmatch(rate)
    if found is None or float(found[1]) == 0:
        raise RefusedError(f"--rate {rate!r} is no rate; write one such as 5/s or 0.5/s")
    return 1 / float(found[1])
