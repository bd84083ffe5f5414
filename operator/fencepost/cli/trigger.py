"""`fencepost trigger DAG`: a run by hand, and its end if one waits for it."""

import argparse
import sys
from collections.abc import Sequence

from fencepost.api.names import API_VERSION, DAG_RUNS, DAGS
from fencepost.base.clock import Clock
from fencepost.cli.cluster import Cluster, Obj, add_cluster_options, named
from fencepost.cli.errors import RefusedError
from fencepost.cli.waiting import EXIT_SUCCEEDED, exit_code, wait_for_end

DESCRIPTION = """Start a run of a DAG now, and print its name.
Exit code 0: it has been started, or with --wait has Succeeded; 1: it Failed or was Cancelled; 2: refused."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]", help_: str) -> None:
    """Declare the command and its options."""
    parser = subparsers.add_parser("trigger", help=help_, description=DESCRIPTION)
    parser.add_argument("dag", metavar="DAG")
    parser.add_argument(
        "--param", action="append", default=[], metavar="K=V", help="over the DAG's own; may be given several times"
    )
    parser.add_argument("--name", metavar="NAME", help="of the run; default: the DAG's and five characters")
    parser.add_argument("--wait", action="store_true", help="until it has ended, and tell how it goes on")
    add_cluster_options(parser)


async def run(args: argparse.Namespace, cluster: Cluster, clock: Clock) -> int:
    """Create the run; RefusedError where the DAG is not there or does not declare a param."""
    dag = cluster.get(DAGS, args.dag)
    params = read_params(args.param, dag)
    metadata = {"name": args.name} if args.name else {"generateName": f"{args.dag}-"}
    spec: Obj = {"dag": args.dag, **({"params": params} if params else {})}
    body = {"apiVersion": API_VERSION, "kind": DAG_RUNS.kind, "metadata": metadata, "spec": spec}
    made = cluster.create(DAG_RUNS, body)
    name = made["metadata"]["name"]
    print(f"{named(DAG_RUNS, name)} created", flush=True)
    if problem := unready(dag):
        print(
            f"warning: DAG {args.dag} is not ready: {problem}; the run waits until that is put right", file=sys.stderr
        )
    return exit_code(await wait_for_end(cluster, clock, name)) if args.wait else EXIT_SUCCEEDED


def read_params(texts: Sequence[str], dag: Obj) -> dict[str, str]:
    """`K=V` by name; RefusedError for what is none, or what the DAG does not declare."""
    declared = dag["spec"].get("params", {})
    params: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise RefusedError(f"--param {text!r}: there is no = in it; write it as name=value")
        if name not in declared:
            has = f"it has {', '.join(sorted(declared))}" if declared else "it has none"
            raise RefusedError(f"--param {text!r}: DAG {dag['metadata']['name']} declares no param {name!r}; {has}")
        if name in params:
            raise RefusedError(f"--param {text!r}: {name!r} is given twice; leave one out")
        params[name] = value
    return params


def unready(dag: Obj) -> str:
    """Why the DAG makes no runs; empty if it does, or nobody has looked at it yet."""
    conditions = dag.get("status", {}).get("conditions", ())
    return next((each["message"] for each in conditions if (each["type"], each["status"]) == ("Ready", "False")), "")
