"""What keeps a run from beginning. One that waits for its DAG or its pool waits for a day, and then ends as Failed."""

from fencepost.core.names import DagKey
from fencepost.core.placement import PoolSpec
from fencepost.core.run_spec import RunSpec
from fencepost.observe.dags import DagView

BEGIN_WITHIN_S = 24 * 3600.0
"""Of its creation. Nothing belongs to a run that has no DAG, so nothing would ever take it away."""


def pool_problem(key: DagKey, name: str, spec: PoolSpec | None) -> str:
    """Why the pool of this name is of no use to a DAG; empty when it is."""
    if spec is None:
        return f"there is no WorkerPool {name!r}; create it or name another in spec.pool"
    if not spec.admits(key.namespace):
        return f"WorkerPool {name!r} does not admit namespace {key.namespace!r}; add it or name another pool"
    return ""


def why_not_begun(key: DagKey, dag: DagView | None, pool: PoolSpec | None) -> tuple[str, str]:
    """Reason and message for a run of this DAG, which is not there, not valid, or has no use of its pool."""
    if dag is None:
        return "DAGNotFound", f"there is no DAG {key}; create it, or delete this run"
    if dag.checked is None:
        return "DAGNotValid", f"DAG {key} is not valid: {dag.problems[0]}"
    return "PoolNotUsable", pool_problem(key, dag.checked.spec.definition.pool, pool)


def unknown_params(spec: RunSpec, dag: DagView | None) -> str:
    """What is wrong with the params of a run that is about to be taken up; empty when nothing is."""
    if spec.revision or dag is None or dag.checked is None:
        return ""
    known = [name for name, _ in dag.checked.spec.definition.params]
    unknown = sorted(name for name, _ in spec.params if name not in known)
    has = f"it has {', '.join(known)}" if known else "it has none"
    return f"DAG {dag.key} has no param {', '.join(unknown)}; {has}: correct spec.params" if unknown else ""
