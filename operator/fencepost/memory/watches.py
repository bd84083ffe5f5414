"""History and watches: what has changed since a version, and what changes from now on.

A write is offered only to those whom it may concern: watches of one name are found by that name, so a thousand workers
that each watch themselves cost one write nothing. To a watch with a selector an object comes into being when it begins
to match, and is deleted when it ceases to.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from itertools import takewhile
from typing import NamedTuple

from fencepost.api.names import Kind
from fencepost.kube.errors import GoneError
from fencepost.kube.protocol import EventType, WatchEvent
from fencepost.memory.records import Change, Record
from fencepost.memory.selectors import parse_selector

WATCH_BACKLOG_MAX = 100_000
"""Events that wait to be read by one watch; the server ends a watch that is slower than that."""


class Pending(NamedTuple):
    """An event that waits to be read. Its object is made only then."""

    type: EventType
    change: Change | None
    """None for a bookmark."""
    version: int

    def event(self, kind: Kind) -> WatchEvent:
        """As the reader gets it."""
        if self.change is not None:
            return self.change.event(self.type)
        metadata = {"resourceVersion": str(self.version)}
        return WatchEvent(self.type, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata})


class Watch:
    """One client's watch: a queue between the server, which never waits, and the client."""

    def __init__(self, namespace: str = "", name: str = "", selector: str = "") -> None:
        """Each that is empty stands for any."""
        self.namespace = namespace
        self.name = name
        self._selector = parse_selector(selector) if selector else None
        self._queue: asyncio.Queue[Pending | None] = asyncio.Queue()
        self._ended = False

    def offer(self, change: Change) -> None:
        """Queue the event that the change is to this watch, if it is one."""
        before, after = self._sees(change.before), self._sees(change.after)
        if before and after:
            type = EventType.MODIFIED
        elif after:
            type = EventType.ADDED
        elif before:
            type = EventType.DELETED
        else:
            return
        self._put(Pending(type, change, change.version))

    def offer_bookmark(self, version: int) -> None:
        """Queue a bookmark behind all that has been offered."""
        self._put(Pending(EventType.BOOKMARK, None, version))

    def end(self) -> None:
        """Nothing more comes after what is queued."""
        if not self._ended:
            self._ended = True
            self._queue.put_nowait(None)

    async def next(self) -> Pending | None:
        """The next event; None at the end."""
        return await self._queue.get()

    def _put(self, pending: Pending) -> None:
        if self._ended:
            return
        self._queue.put_nowait(pending)
        if self._queue.qsize() >= WATCH_BACKLOG_MAX:
            self.end()

    def _sees(self, record: Record | None) -> bool:
        if record is None:
            return False
        if self.namespace and record.key.namespace != self.namespace:
            return False
        if self.name and record.key.name != self.name:
            return False
        return self._selector is None or self._selector(record.labels)


class KindHistory:
    """The last changes of one kind, and its watches."""

    def __init__(self, changes_max: int, version_first: int) -> None:
        self._changes: deque[Change] = deque(maxlen=changes_max)
        self._forgotten_version = version_first
        """Of the last change that is no longer kept."""
        self._broad: dict[Watch, None] = {}
        self._named: dict[str, dict[Watch, None]] = {}

    def append(self, change: Change) -> None:
        """Keep a change and tell the watches that it concerns."""
        if len(self._changes) == self._changes.maxlen:
            self._forgotten_version = self._changes[0].version
        self._changes.append(change)
        for watch in self._broad:
            watch.offer(change)
        for watch in self._named.get(change.record.key.name, ()):
            watch.offer(change)

    def subscribe(self, watch: Watch, version: int) -> None:
        """Give it all changes after `version`, then those to come; GoneError if some of them are no longer kept."""
        if version < self._forgotten_version:
            raise GoneError(
                f"watch: too old resource version: {version} ({self._forgotten_version}); list again",
                reason="Expired",
            )
        for change in self._since(version):
            watch.offer(change)
        self._group(watch)[watch] = None

    def unsubscribe(self, watch: Watch) -> None:
        """Tell it nothing more."""
        self._group(watch).pop(watch, None)
        if watch.name and not self._named[watch.name]:
            del self._named[watch.name]

    def _since(self, version: int) -> Iterable[Change]:
        newer = list(takewhile(lambda change: change.version > version, reversed(self._changes)))
        return reversed(newer)

    def _group(self, watch: Watch) -> dict[Watch, None]:
        return self._named.setdefault(watch.name, {}) if watch.name else self._broad
