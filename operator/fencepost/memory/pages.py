"""Lists in pages: every page of one list shows the objects as they were when its first page was read.

What is kept for it is the list of records, at the cost of a pointer each; the oldest of them is forgotten when there
are too many, and then its next page is refused with 410, as in a cluster after a compaction.
"""

from collections import OrderedDict

from fencepost.api.names import Kind
from fencepost.kube.errors import GoneError
from fencepost.kube.protocol import ObjectList
from fencepost.memory.records import Record

LISTS_KEPT_MAX = 64


class Pages:
    """The lists that have been read in part."""

    def __init__(self) -> None:
        self._lists: OrderedDict[str, tuple[int, list[Record]]] = OrderedDict()
        self._count = 0

    def first(self, records: list[Record], version: int, limit: int) -> ObjectList:
        """The first page of a list at this version."""
        if not limit or len(records) <= limit:
            return ObjectList([record.object() for record in records], str(version))
        self._count += 1
        name = str(self._count)
        self._lists[name] = (version, records)
        if len(self._lists) > LISTS_KEPT_MAX:
            self._lists.popitem(last=False)
        return self._page(name, 0, limit)

    def next(self, kind: Kind, token: str, limit: int) -> ObjectList:
        """The page that a token stands for; GoneError if its list is no longer kept."""
        name, _, start = token.partition("/")
        if name not in self._lists or not start.isdecimal():
            raise GoneError(f"list {kind}: the continue token {token!r} is too old; list again", reason="Expired")
        return self._page(name, int(start), limit)

    def _page(self, name: str, start: int, limit: int) -> ObjectList:
        version, records = self._lists[name]
        end = start + limit if limit else len(records)
        token = f"{name}/{end}" if end < len(records) else ""
        return ObjectList([record.object() for record in records[start:end]], str(version), token)
