"""Definitions by revision: read once, kept while they are in use.

A run names its revision. The definition comes from the DAG itself while the DAG still has that content, else from the
ControllerRevision. A revision is stored before the first run that names it; that it is stored is remembered in the
DAG's status, so that a restart does not ask for each of a hundred thousand DAGs again.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from fencepost.api import names as wire
from fencepost.api.revisions import definition_hash, read_definition
from fencepost.apply.executor import Answer, Executor
from fencepost.core.definition import Definition
from fencepost.core.graph import Graph, compile_graph
from fencepost.core.intents import Authority, CreateRevision
from fencepost.core.names import DagKey, RunKey, revision_name
from fencepost.kube.errors import NotFoundError
from fencepost.kube.protocol import Api
from fencepost.observe.dags import DagCache, DagView

DEFINITIONS_CACHED_MAX = 2048
STORED_KNOWN_MAX = 200_000


@dataclass(frozen=True, slots=True)
class Compiled:
    """A definition ready to be planned with."""

    definition: Definition
    graph: Graph


class DefinitionMissingError(Exception):
    """A run's definition is nowhere to be had, or is not what its name says; `str()` says which and what to do."""


class Definitions:
    """Compiled definitions, and which of them are stored as revisions."""

    def __init__(self, api: Api, dags: DagCache, executor: Executor) -> None:
        self._api = api
        self._dags = dags
        self._executor = executor
        self._compiled: OrderedDict[tuple[str, str], Compiled] = OrderedDict()
        self._stored: OrderedDict[tuple[str, str], None] = OrderedDict()

    async def of_run(self, run: RunKey, dag: DagKey, revision: str) -> Compiled:
        """What a run executes; DefinitionMissingError if it cannot be had, ApiError if the server does not answer."""
        cached = self._cached(run.namespace, revision)
        if cached is not None:
            return cached
        view = self._dags.get(dag)
        if view is not None and view.revision == revision:
            return self.of_dag(view)
        try:
            stored = await self._api.get(wire.CONTROLLER_REVISIONS, run.namespace, revision)
        except NotFoundError:
            raise DefinitionMissingError(
                f"ControllerRevision {run.namespace}/{revision} is gone and DAG {dag} has another content by now; "
                f"create the run again"
            ) from None
        return self._keep(run.namespace, revision, dag, stored.get("data"))

    def of_dag(self, view: DagView) -> Compiled:
        """What a run of this DAG made now would execute."""
        cached = self._cached(view.key.namespace, view.revision)
        return cached or self._keep(view.key.namespace, view.revision, view.key, view.definition_data())

    async def store(self, view: DagView, authority: Authority) -> Answer:
        """See to it that the DAG's revision is stored; DONE if it is."""
        key = (view.key.namespace, view.revision)
        if key in self._stored or view.status.get("revision") == view.revision:
            return Answer.DONE
        data = view.definition_data()
        written = await self._executor.execute(CreateRevision(authority, view.key, view.uid, view.revision, data))
        if written.answer not in (Answer.DONE, Answer.EXISTS):
            return written.answer
        self._stored[key] = None
        if len(self._stored) > STORED_KNOWN_MAX:
            self._stored.popitem(last=False)
        return Answer.DONE

    async def restore(self, view: DagView | None, revision: str, authority: Authority) -> Answer:
        """Store a revision again that somebody has deleted while in use. DONE: it is there now. GONE: the DAG does
        not have that content any more."""
        if view is None or view.revision != revision:
            return Answer.GONE
        self._stored.pop((view.key.namespace, revision), None)
        data = view.definition_data()
        written = await self._executor.execute(CreateRevision(authority, view.key, view.uid, revision, data))
        return Answer.DONE if written.answer is Answer.EXISTS else written.answer

    def stored_revision(self, view: DagView) -> str:
        """The DAG's revision as its status may tell it: the present one only once it is stored."""
        known = str(view.status.get("revision", ""))
        return view.revision if (view.key.namespace, view.revision) in self._stored else known

    def _cached(self, namespace: str, revision: str) -> Compiled | None:
        compiled = self._compiled.get((namespace, revision))
        if compiled is not None:
            self._compiled.move_to_end((namespace, revision))
        return compiled

    def _keep(self, namespace: str, revision: str, dag: DagKey, data: Any) -> Compiled:
        name = f"ControllerRevision {namespace}/{revision}"
        if not isinstance(data, dict) or revision_name(dag.name, definition_hash(data)) != revision:
            raise DefinitionMissingError(f"{name} does not hold what its name says; delete it and create the run again")
        definition = read_definition(data)
        graph = compile_graph(definition) if isinstance(definition, Definition) else definition
        if isinstance(definition, list) or isinstance(graph, list):
            problems = "; ".join(str(problem) for problem in (graph if isinstance(graph, list) else ()))
            raise DefinitionMissingError(f"{name} cannot be read: {problems}")
        compiled = self._compiled[(namespace, revision)] = Compiled(definition, graph)
        if len(self._compiled) > DEFINITIONS_CACHED_MAX:
            self._compiled.popitem(last=False)
        return compiled
