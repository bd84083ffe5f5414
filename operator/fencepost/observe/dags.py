"""All DAGs as this replica sees them: held small, read when somebody asks.

A hundred thousand DAGs must fit into a few hundred megabytes and be known within seconds, so the view of a DAG is its
compact JSON. What it says (valid or not, schedule, revision) is a function of its name and spec alone; it is computed
when it is asked for, and the latest answers are kept.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import orjson

from fencepost.api import names as wire
from fencepost.api.admission import checked_dag
from fencepost.api.revisions import definition_data, definition_hash
from fencepost.api.times import parse_time
from fencepost.core.check import CheckedDag
from fencepost.core.cron import Gap, Overlap
from fencepost.core.definition import Priority
from fencepost.core.graph import Graph
from fencepost.core.names import DagKey, content_hash, revision_name, shard_of
from fencepost.core.problems import Problem
from fencepost.kube.protocol import Obj
from fencepost.observe.reflector import ObjectName, version_of

log = logging.getLogger(__name__)

_PRIORITIES = {str(priority): priority for priority in Priority}
_NO_TASKS = Graph((), {}, {})
_NOTHING_MORE: list[object] = [(), Gap.RUN_AFTER, Overlap.FIRST, 0, None, None]


READINGS_KEPT_MAX = 8192
"""Of DAGs in use; each takes about 4 KB, and making it anew a few tenths of a millisecond."""


@dataclass(frozen=True, slots=True)
class DagReading:
    """What a DAG's spec says."""

    checked: CheckedDag | None
    """With its graph emptied: what the schedule needs. None when the DAG is not valid."""
    problems: tuple[Problem, ...]
    revision: str
    """The name of the revision that holds its definition; empty when it is not valid."""
    schedule_hash: str
    """Of what decides when it fires; another one means that nothing before now fires."""


@dataclass(slots=True)
class DagView:
    """One DAG at its last known version."""

    key: DagKey
    uid: str
    version: int
    shard: int
    generation: int
    created_s: float
    edited_s: float
    """When people last wrote the object, as the server has noted, in whole seconds; 0 if it has not."""
    spec_json: bytes
    """The spec as stored, compact."""
    status_json: bytes
    """The status as stored, compact."""
    deleting: bool = False
    """Somebody has asked for its deletion, and a finalizer still holds it: it makes no more runs."""

    @property
    def reading(self) -> DagReading:
        """What its spec says."""
        return _read(self.key, self.spec_json)

    @property
    def checked(self) -> CheckedDag | None:
        """See `DagReading`; so the next three."""
        return self.reading.checked

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self.reading.problems

    @property
    def revision(self) -> str:
        return self.reading.revision

    @property
    def schedule_hash(self) -> str:
        return self.reading.schedule_hash

    @property
    def priority(self) -> Priority:
        """Of the DAG itself; told without reading the rest."""
        spec = orjson.loads(self.spec_json)
        name = spec.get("priority") if isinstance(spec, dict) else None
        return _PRIORITIES.get(str(name), Priority.NORMAL)

    @property
    def status(self) -> dict[str, Any]:
        """The status as stored; a copy."""
        status = orjson.loads(self.status_json)
        return status if isinstance(status, dict) else {}

    @property
    def vouched_for(self) -> bool:
        """Whether an earlier leader has read this spec, found it valid, and stored so."""
        status = self.status
        return status.get("observedGeneration") == self.generation and status.get("state") in ("Ready", "Suspended")

    def definition_data(self) -> dict[str, Any]:
        """What its revision holds."""
        return definition_data(orjson.loads(self.spec_json))

    @property
    def record(self) -> Obj:
        """As much of the object as a write of its status needs."""
        namespace, name = self.key
        meta = {"namespace": namespace, "name": name, "uid": self.uid, "resourceVersion": str(self.version)}
        return {"apiVersion": wire.API_VERSION, "kind": wire.DAGS.kind, "metadata": meta}


@lru_cache(maxsize=READINGS_KEPT_MAX)
def _read(key: DagKey, spec_json: bytes) -> DagReading:
    stored = orjson.loads(spec_json)
    checked = checked_dag({"metadata": {"namespace": key.namespace, "name": key.name}, "spec": stored})
    if isinstance(checked, list):
        return DagReading(None, tuple(checked), "", "")
    revision = revision_name(key.name, definition_hash(definition_data(stored)))
    return DagReading(_slim(checked), (), revision, _schedule_hash(checked))


def _compact(value: Any) -> bytes:
    """As JSON in no more memory than it needs: what orjson returns keeps its buffer, four kilobytes at least."""
    return bytes(memoryview(orjson.dumps(value)))


def _slim(checked: CheckedDag) -> CheckedDag:
    """Without the tasks, which only runs need."""
    definition = replace(checked.spec.definition, tasks=())
    return replace(checked, graph=_NO_TASKS, spec=replace(checked.spec, definition=definition))


def _schedule_hash(checked: CheckedDag) -> str:
    """Fields that came later count only where they are used: an upgrade of the operator is no edit."""
    spec = checked.spec.schedule
    when: list[object] = [spec.crons, spec.time_zone, checked.spec.suspend]
    rest = [spec.at, spec.gap, spec.overlap, spec.offset_s, spec.not_before_s, spec.not_after_s]
    return content_hash(orjson.dumps(when + rest if rest != _NOTHING_MORE else when))


def _edited_s(meta: Mapping[str, Any]) -> float:
    """Of whoever writes spec or metadata; a write of the status has a note of its own."""
    notes = meta.get("managedFields") or ()
    texts = (note.get("time") for note in notes if not note.get("subresource"))
    return max((parse_time(text) for text in texts if isinstance(text, str)), default=0.0)


@dataclass(slots=True)
class DagCache:
    """The DAGs by name."""

    shards: int
    on_change: Callable[[DagView, DagView | None], None]
    on_gone: Callable[[DagView], None]
    on_set_aside: Callable[[str, str], None]
    _dags: dict[DagKey, DagView] = field(default_factory=dict)

    def get(self, key: DagKey) -> DagView | None:
        """The DAG of this name, if there is one."""
        return self._dags.get(key)

    def all(self) -> Iterable[DagView]:
        """Every DAG."""
        return self._dags.values()

    def upsert(self, obj: Obj) -> None:
        """Take an object in, unless a newer version of it is known."""
        meta = obj["metadata"]
        key = DagKey(meta.get("namespace", ""), meta["name"])
        version = version_of(obj)
        old = self._dags.get(key)
        if old is not None and version <= old.version:
            return
        if old is not None and old.uid != meta["uid"]:
            self.on_gone(old)
            old = None
        view = self._view(key, version, obj, old)
        if _news(view, old) and view.problems and (old is None or old.problems != view.problems):
            log.warning("DAG %s is not valid: %s", key, view.problems[0], extra={"dag": str(key)})
            self.on_set_aside("DAG", str(view.problems[0]))
        self._dags[key] = view
        self.on_change(view, old)

    def remove(self, name: ObjectName, version: int) -> None:
        """The DAG was gone at this version."""
        view = self._dags.get(DagKey(*name))
        if view is not None and view.version <= version:
            del self._dags[view.key]
            self.on_gone(view)

    def known(self) -> Iterable[tuple[ObjectName, int]]:
        """Names and versions, for the reflector."""
        return (((key.namespace, key.name), view.version) for key, view in self._dags.items())

    def _view(self, key: DagKey, version: int, obj: Obj, old: DagView | None) -> DagView:
        meta = obj["metadata"]
        generation = meta.get("generation", 0)
        return DagView(
            key=key,
            uid=meta["uid"],
            version=version,
            shard=shard_of(key, self.shards),
            generation=generation,
            created_s=parse_time(meta["creationTimestamp"]),
            edited_s=_edited_s(meta),
            spec_json=old.spec_json if old and old.generation == generation else _compact(obj.get("spec")),
            status_json=_compact(obj.get("status") or {}),
            deleting="deletionTimestamp" in meta,
        )


def _news(view: DagView, old: DagView | None) -> bool:
    """Whether nobody has read this spec yet, neither here nor, as far as its status tells, elsewhere."""
    return old.generation != view.generation if old is not None else not view.vouched_for
