"""Definitions by revision: read once, kept while they are in use.

A run names its revision. The definition comes from the DAG itself while the DAG still has that content, else from the
ControllerRevision. A revision is stored before the first run that names it; that it is stored is remembered in the
DAG's status, so that a restart does not ask for each of a hundred thousand DAGs again.

The status names earlier revisions as well, until they are known to be gone. It does so in writes that are made anyway,
and a leader that takes the DAG up finds there what the one before has not come to delete.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from fencepost.api import names as wire
from fencepost.api.dag_status_models import EARLIER_REVISIONS_MAX
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
DAGS_KNOWN_MAX = 200_000
REVISIONS_KNOWN_MAX = 2 * EARLIER_REVISIONS_MAX
"""Of one DAG: those that are gone count too, until its status has been written without them."""


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
        self._known: OrderedDict[str, dict[str, bool]] = OrderedDict()
        """By a DAG's UID: what has become of its revisions under this leadership: stored, or gone."""

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
        if self.stored_revision(view) == view.revision:
            return Answer.DONE
        return await self._create(view, authority)

    async def restore(self, view: DagView | None, revision: str, authority: Authority) -> Answer:
        """Store a revision again that somebody has deleted while in use. DONE: it is there now. GONE: the DAG does
        not have that content any more."""
        if view is None or view.revision != revision:
            return Answer.GONE
        return await self._create(view, authority)

    def stored_revision(self, view: DagView) -> str:
        """The DAG's revision as its status may tell it: the present one only once it is stored."""
        known, told = self._known.get(view.uid, {}), str(view.status.get("revision", ""))
        if known.get(view.revision, False):
            return view.revision
        return told if known.get(told, True) else ""

    def known_revisions(self, view: DagView) -> list[str]:
        """Revisions of the DAG's present and earlier definitions that may be stored, the latest last."""
        status, known = view.status, self._known.get(view.uid, {})
        earlier = status.get("earlierRevisions")
        told = [*(earlier if isinstance(earlier, list) else ()), status.get("revision")]
        of_earlier_leaders = [str(name) for name in told if name and name not in known]
        return of_earlier_leaders + [name for name, stored in known.items() if stored]

    def earlier_revisions(self, view: DagView) -> list[str]:
        """The same, as the DAG's status may tell it beside the present one."""
        stored = self.stored_revision(view)
        return [name for name in self.known_revisions(view) if name != stored][-EARLIER_REVISIONS_MAX:]

    def gone(self, view: DagView, revision: str) -> None:
        """A revision of this DAG that nobody uses has been deleted, or was gone already."""
        self._note(view.uid, revision, stored=False)

    def forget(self) -> None:
        """Something is no longer led here: others may store revisions, or delete them."""
        self._known.clear()

    async def _create(self, view: DagView, authority: Authority) -> Answer:
        data = view.definition_data()
        written = await self._executor.execute(CreateRevision(authority, view.key, view.uid, view.revision, data))
        if written.answer not in (Answer.DONE, Answer.EXISTS):
            return written.answer
        self._note(view.uid, view.revision, stored=True)
        return Answer.DONE

    def _note(self, dag_uid: str, revision: str, *, stored: bool) -> None:
        known = self._known.setdefault(dag_uid, {})
        known.pop(revision, None)
        known[revision] = stored
        if len(known) > REVISIONS_KNOWN_MAX:
            del known[next(iter(known))]
        if len(self._known) > DAGS_KNOWN_MAX:
            self._known.popitem(last=False)

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
