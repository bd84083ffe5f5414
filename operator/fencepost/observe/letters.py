"""All DeadLetters as this replica sees them, indexed by DAG and by the run that they concern: held small."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fencepost.api import names as wire
from fencepost.api.letters import read_letter
from fencepost.api.times import parse_time
from fencepost.core.dead_letters import SUCCEEDED, Letter, Stored
from fencepost.core.names import DagKey, shard_of
from fencepost.kube.protocol import Obj
from fencepost.observe.index import Index
from fencepost.observe.reflector import ObjectName, version_of

log = logging.getLogger(__name__)


@dataclass(slots=True)
class LetterView:
    """One dead letter at its last known version."""

    name: ObjectName
    uid: str
    version: int
    dag: DagKey
    shard: int
    created_s: float
    letter: Letter

    @property
    def record(self) -> Obj:
        """As much of the object as a write of its status needs."""
        namespace, name = self.name
        meta = {"namespace": namespace, "name": name, "uid": self.uid, "resourceVersion": str(self.version)}
        return {"apiVersion": wire.API_VERSION, "kind": wire.DEAD_LETTERS.kind, "metadata": meta}

    @property
    def stored(self) -> Stored:
        """As it matters for who makes room."""
        return Stored(self.name[1], self.created_s, self.letter.replayed.phase == SUCCEEDED)


class LetterCache:
    """The letters by name. One that cannot be read is left out, and stays for a person to look at."""

    def __init__(
        self,
        shards: int,
        on_change: Callable[[LetterView, LetterView | None], None],
        on_gone: Callable[[LetterView], None],
        on_set_aside: Callable[[str, str], None],
    ) -> None:
        self._shards = shards
        self._on_change = on_change
        self._on_gone = on_gone
        self._on_set_aside = on_set_aside
        self._letters: dict[ObjectName, LetterView] = {}
        self._by_dag: Index[DagKey, ObjectName, LetterView] = Index()
        self._waiting: Counter[DagKey] = Counter()
        self._by_run: Index[str, ObjectName, LetterView] = Index()
        """By the UID of the run in which the job died, or is run again."""

    def get(self, name: ObjectName) -> LetterView | None:
        """The letter of this name, if there is one."""
        return self._letters.get(name)

    def all(self) -> Iterable[LetterView]:
        """Every letter."""
        return self._letters.values()

    def of_dag(self, dag: DagKey) -> Iterable[LetterView]:
        """The letters of a DAG, in no order."""
        return self._by_dag.of(dag)

    def waiting_count(self, dag: DagKey) -> int:
        """How many letters of a DAG were not replayed with success: they make room for no other."""
        return self._waiting[dag]

    def of_run(self, uid: str) -> Iterable[LetterView]:
        """The letters that concern the run of this UID: its jobs died there, or are run again there."""
        return self._by_run.of(uid)

    def upsert(self, obj: Obj) -> None:
        """Take an object in, unless a newer version of it is known."""
        meta = obj["metadata"]
        name, version = (meta.get("namespace", ""), meta["name"]), version_of(obj)
        old = self._letters.get(name)
        if old is not None and version <= old.version:
            return
        letter = read_letter(obj)
        if old is not None:
            self._forget(old)
            if old.uid != meta["uid"]:
                self._on_gone(old)
        if isinstance(letter, list):
            log.error("dead letter %s/%s is set aside: %s", *name, letter[0])
            self._on_set_aside("DeadLetter", str(letter[0]))
            return
        dag = DagKey(name[0], letter.dag)
        created_s = parse_time(meta["creationTimestamp"])
        view = LetterView(name, meta["uid"], version, dag, shard_of(dag, self._shards), created_s, letter)
        self._letters[name] = view
        self._by_dag.put(dag, name, view)
        self._waiting[dag] += not view.stored.replayed_well
        for uid in _runs(view):
            self._by_run.put(uid, name, view)
        self._on_change(view, old if old is not None and old.uid == view.uid else None)

    def remove(self, name: ObjectName, version: int) -> None:
        """The letter was gone at this version."""
        view = self._letters.get(name)
        if view is not None and view.version <= version:
            self._forget(view)
            self._on_gone(view)

    def known(self) -> Iterable[tuple[ObjectName, int]]:
        """Names and versions, for the reflector."""
        return ((name, view.version) for name, view in self._letters.items())

    def _forget(self, view: LetterView) -> None:
        del self._letters[view.name]
        self._by_dag.drop(view.dag, view.name)
        self._waiting[view.dag] -= not view.stored.replayed_well
        if not self._waiting[view.dag]:
            del self._waiting[view.dag]
        for uid in _runs(view):
            self._by_run.drop(uid, view.name)


def _runs(view: LetterView) -> set[str]:
    return {view.letter.run_uid, view.letter.replayed.run_uid} - {""}
