"""A run's record as the cluster holds it, with the definition that it executes."""

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.api.codec import decode_run_status
from fencepost.api.names import CONTROLLER_REVISIONS, DAG_RUNS
from fencepost.api.revisions import read_definition
from fencepost.cli.cluster import Cluster, Obj
from fencepost.cli.errors import RefusedError
from fencepost.cli.waiting import summary
from fencepost.core.definition import Definition
from fencepost.core.graph import Graph, compile_graph
from fencepost.core.inputs import run_values
from fencepost.core.names import RunKey
from fencepost.core.run_state import RunState


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run, read once."""

    object: Obj
    state: RunState
    graph: Graph
    definition: Definition
    values: Mapping[str, str]
    """What params and the run stand for, by reference."""


def read_run(cluster: Cluster, name: str) -> RunRecord | Obj:
    """The run; the bare object where nobody has taken it up yet. RefusedError where it cannot be read."""
    run = cluster.get(DAG_RUNS, name)
    revision = run["spec"].get("revision")
    if not revision or "status" not in run:
        return run
    where = f"ControllerRevision {cluster.namespace}/{revision} of DAGRun {name}"
    stored = cluster.find(CONTROLLER_REVISIONS, revision)
    if stored is None:
        raise RefusedError(
            f"{where} is gone, so its graph is not known; `kubectl describe dagrun {name}` shows the rest"
        )
    definition = read_definition(stored.get("data"))
    graph = compile_graph(definition) if isinstance(definition, Definition) else definition
    if isinstance(definition, list) or isinstance(graph, list):
        raise RefusedError(f"{where} cannot be read; this command may be older than the operator: update it")
    state = read_state(run)
    spec, key = run["spec"], RunKey(cluster.namespace, name)
    time = spec.get("scheduledTime") or run["metadata"]["creationTimestamp"]
    values = run_values(key, spec["dag"], time, definition.params, spec.get("params", {}).items())
    return RunRecord(run, state, graph, definition, values)


def read_state(run: Obj) -> RunState:
    """The record itself, empty where nobody has taken the run up yet; RefusedError where it cannot be read."""
    try:
        return decode_run_status(run["status"]) if "status" in run else RunState()
    except (ValueError, KeyError, TypeError) as error:
        where = f"DAGRun {run['metadata']['namespace']}/{run['metadata']['name']}"
        raise RefusedError(f"the status of {where} cannot be read ({error})") from None


def headline(run: Obj) -> str:
    """`nightly-etl-4k2 of DAG nightly-etl: Running 3/102: …`."""
    name, _, rest = summary(run).partition(": ")
    return f"{name} of DAG {run['spec']['dag']}: {rest}"
