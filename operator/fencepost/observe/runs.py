"""All DAGRuns as this replica sees them: parsed when they change, indexed by DAG.

A run that has finished keeps only what history and concurrency need: its maps are empty and its object is dropped, so
that fifty thousand kept runs cost little. One that a person wants to be run again is held whole. A run that cannot be
read is held with its problem and planned by nobody.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from fencepost.api import names as wire
from fencepost.api.codec import decode_run_status
from fencepost.api.read import read_run_spec
from fencepost.api.times import parse_time
from fencepost.core.names import DagKey, RunKey, shard_of
from fencepost.core.rounds import round_due
from fencepost.core.run_spec import RunSpec
from fencepost.core.run_state import RunState, Trigger
from fencepost.kube.protocol import Obj
from fencepost.observe.index import Index
from fencepost.observe.reflector import ObjectName, version_of

log = logging.getLogger(__name__)


@dataclass(slots=True)
class RunView:
    """One run at its last known version."""

    key: RunKey
    uid: str
    version: int
    dag: DagKey
    shard: int
    created_s: float
    spec: RunSpec | None
    state: RunState | None
    """None: no leader has taken it up."""
    record: Obj | None
    """The object itself; None once the run has finished, or when it cannot be read."""
    problem: str = ""
    """Why it cannot be read."""
    deleting: bool = False
    """Somebody has asked for its deletion."""
    backfill: str = ""
    """The name of the backfill that has made it, or has had it run again."""

    @property
    def finished(self) -> bool:
        """It takes no part in planning: ended with no other round asked for, or set aside."""
        return bool(self.problem) or (self.state is not None and self.state.phase.finished and not self.round_due)

    @property
    def round_due(self) -> bool:
        """It has ended, and a person has asked for another round of it: it counts as active from then on."""
        return self.spec is not None and self.state is not None and round_due(self.spec, self.state)

    @property
    def in_background(self) -> bool:
        """It belongs to a backfill: with low priority, and beside the concurrency limit."""
        return self.spec is not None and self.spec.trigger is Trigger.BACKFILL

    @property
    def wishes(self) -> set[str]:
        """What a person asks of it while it is under way."""
        spec = self.spec
        return {name for name in ("cancel", "suspend") if spec is not None and getattr(spec, name)}


class RunCache:
    """The runs, by name and by DAG."""

    def __init__(
        self,
        shards: int,
        on_change: Callable[[RunView, RunView | None], None],
        on_gone: Callable[[RunView], None],
        on_set_aside: Callable[[str, str], None],
    ) -> None:
        """`on_change` gets the new view and the one before; `on_set_aside` the kind and what is wrong."""
        self._shards = shards
        self._on_change = on_change
        self._on_gone = on_gone
        self._on_set_aside = on_set_aside
        self._runs: dict[RunKey, RunView] = {}
        self._by_dag: Index[DagKey, RunKey, RunView] = Index()
        self._unfinished: Index[DagKey, RunKey, RunView] = Index()
        """Of the runs of each DAG, those that had not finished when they last changed."""

    def get(self, key: RunKey) -> RunView | None:
        """The run of this name, if there is one."""
        return self._runs.get(key)

    def of_dag(self, dag: DagKey) -> Iterable[RunView]:
        """All runs of a DAG, in no order."""
        return self._by_dag.of(dag)

    def unfinished(self, dag: DagKey) -> Iterable[RunView]:
        """The DAG's runs that have not finished, in no order. Costs nothing for those that have."""
        return (view for view in self._unfinished.of(dag) if not view.finished)

    def active_count(self, dag: DagKey) -> int:
        """How many these are."""
        return sum(1 for _ in self.unfinished(dag))

    def has_any(self, dag: DagKey) -> bool:
        """Whether the DAG has runs."""
        return dag in self._by_dag

    @property
    def count(self) -> int:
        """How many runs there are."""
        return len(self._runs)

    def all(self) -> Iterable[RunView]:
        """Every run."""
        return self._runs.values()

    def upsert(self, obj: Obj) -> None:
        """Take an object in, unless a newer version of it is known."""
        meta = obj["metadata"]
        key = RunKey(meta.get("namespace", ""), meta["name"])
        version = version_of(obj)
        old = self._runs.get(key)
        if old is not None and version <= old.version:
            return
        if old is not None and old.uid != meta["uid"]:
            self._drop(old)
            old = None
        view = self._view(key, version, obj)
        if view.problem and (old is None or old.problem != view.problem):
            log.error("run %s is set aside: %s", key, view.problem, extra={"run": str(key)})
            self._on_set_aside("DAGRun", view.problem)
        if old is not None and old.dag != view.dag:
            self._by_dag.drop(old.dag, key)
            self._unfinished.discard(old.dag, key)
        self._runs[key] = view
        self._by_dag.put(view.dag, key, view)
        if view.finished:
            self._unfinished.discard(view.dag, key)
        else:
            self._unfinished.put(view.dag, key, view)
        self._on_change(view, old)

    def remove(self, name: ObjectName, version: int) -> None:
        """The run was gone at this version."""
        view = self._runs.get(RunKey(*name))
        if view is not None and view.version <= version:
            self._drop(view)

    def known(self) -> Iterable[tuple[ObjectName, int]]:
        """Names and versions, for the reflector."""
        return (((key.namespace, key.name), view.version) for key, view in self._runs.items())

    def _drop(self, view: RunView) -> None:
        del self._runs[view.key]
        self._by_dag.drop(view.dag, view.key)
        self._unfinished.discard(view.dag, view.key)
        self._on_gone(view)

    def whole(self, obj: Obj) -> RunView:
        """A run as it stands in this object, with all of its record though it has finished; not taken in."""
        meta = obj["metadata"]
        return self._view(RunKey(meta.get("namespace", ""), meta["name"]), version_of(obj), obj, whole=True)

    def _view(self, key: RunKey, version: int, obj: Obj, *, whole: bool = False) -> RunView:
        meta = obj["metadata"]
        spec = read_run_spec(obj)
        if isinstance(spec, RunSpec):
            dag = DagKey(key.namespace, spec.dag)
        else:
            dag = DagKey(key.namespace, meta.get("labels", {}).get(wire.DAG_LABEL, key.name))
        view = RunView(
            key=key,
            uid=meta["uid"],
            version=version,
            dag=dag,
            shard=shard_of(dag, self._shards),
            created_s=parse_time(meta["creationTimestamp"]),
            spec=spec if isinstance(spec, RunSpec) else None,
            state=None,
            record=None,
            deleting="deletionTimestamp" in meta,
            backfill=meta.get("labels", {}).get(wire.BACKFILL_LABEL, ""),
        )
        if view.spec is None:
            view.problem = "; ".join(str(problem) for problem in spec) if isinstance(spec, list) else ""
            return view
        try:
            view.state = decode_run_status(obj["status"]) if "status" in obj else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            view.problem = f"its status cannot be read ({error!r}); delete the run, or restore its status"
            return view
        if view.state is not None and view.finished and not whole:
            view.state = replace(view.state, leases={}, waiting={}, tasks={}, failures={}, outputs={}, message="")
        else:
            view.record = obj
        return view
