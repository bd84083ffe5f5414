"""All Workers as this replica sees them."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from fencepost.api.read import read_worker
from fencepost.core.names import parse_mailbox_key
from fencepost.core.plan_workers import busy_slots, token_of
from fencepost.core.worker_record import WorkerRecord
from fencepost.kube.protocol import Obj
from fencepost.observe.reflector import ObjectName, version_of

log = logging.getLogger(__name__)

Item = tuple[str, str]
"""An entry or a result: key and text."""

_NOTHING = WorkerRecord(pool="", slots=1)


@dataclass(slots=True)
class WorkerView:
    """One worker at its last known version."""

    name: str
    uid: str
    version: int
    worker: WorkerRecord
    """Without the entries and results that cannot be read."""
    record: Obj
    garbled: frozenset[Item]
    busy: int
    """Slots that its entries without a result take."""


class WorkerCache:
    """The workers by name. One that cannot be read is treated as gone: it gets nothing, and its jobs run elsewhere."""

    def __init__(
        self,
        on_change: Callable[[WorkerView, WorkerView | None], None],
        on_gone: Callable[[WorkerView], None],
        on_set_aside: Callable[[str, str], None],
    ) -> None:
        self._on_change = on_change
        self._on_gone = on_gone
        self._on_set_aside = on_set_aside
        self._workers: dict[str, WorkerView] = {}

    def get(self, name: str) -> WorkerView | None:
        """The worker of this name, if there is one."""
        return self._workers.get(name)

    def all(self) -> Iterable[WorkerView]:
        """Every worker."""
        return self._workers.values()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._workers)

    def upsert(self, obj: Obj) -> None:
        """Take an object in, unless a newer version of it is known."""
        meta = obj["metadata"]
        name, version = meta["name"], version_of(obj)
        old = self._workers.get(name)
        if old is not None and version <= old.version:
            return
        if old is not None and old.uid != meta["uid"]:
            self._drop(old)
            old = None
        worker = read_worker(obj)
        if not isinstance(worker, WorkerRecord):
            problem = "; ".join(str(one) for one in worker)
            log.error("worker %s is set aside: %s", name, problem, extra={"worker": name})
            self._on_set_aside("Worker", problem)
            if old is not None:
                self._drop(old)
            return
        before = old.worker if old is not None else _NOTHING
        garbled = _garbled(worker.leases, before.leases) | _garbled(worker.results, before.results)
        if garbled:
            worker = replace(worker, leases=_without(worker.leases, garbled), results=_without(worker.results, garbled))
            self._say(name, garbled - (old.garbled if old is not None else frozenset()))
        busy = busy_slots(worker.leases, worker.results)
        view = WorkerView(name, meta["uid"], version, worker, obj, garbled, busy)
        self._workers[name] = view
        self._on_change(view, old)

    def remove(self, name: ObjectName, version: int) -> None:
        """The worker was gone at this version."""
        view = self._workers.get(name[1])
        if view is not None and view.version <= version:
            self._drop(view)

    def known(self) -> Iterable[tuple[ObjectName, int]]:
        """Names and versions, for the reflector."""
        return (
            ((view.record["metadata"].get("namespace", ""), name), view.version) for name, view in self._workers.items()
        )

    def _say(self, name: str, garbled: Iterable[Item]) -> None:
        for key, text in sorted(garbled):
            problem = f"{text[:80]!r} under {key!r} of worker {name} cannot be read: it is passed over"
            log.error("%s", problem, extra={"worker": name})
            self._on_set_aside("Worker", problem)

    def _drop(self, view: WorkerView) -> None:
        del self._workers[view.name]
        self._on_gone(view)


def _garbled(items: Mapping[str, str], before: Mapping[str, str]) -> frozenset[Item]:
    """What has no key or no token, as somebody has garbled it. What could be read before is not looked at again."""
    return frozenset(item for item in items.items() if before.get(item[0]) != item[1] and not _is_legible(*item))


def _without(items: Mapping[str, str], garbled: frozenset[Item]) -> Mapping[str, str]:
    return {key: text for key, text in items.items() if (key, text) not in garbled}


def _is_legible(key: str, text: str) -> bool:
    try:
        parse_mailbox_key(key)
        token_of(text)
    except ValueError:
        return False
    return True
