"""What we need of an API server, as one protocol with two servers behind it: the real one and the one in memory.

Objects are plain JSON dictionaries as on the wire; a caller owns what it gets and may change it. Every write that
changes an object is conditional: `replace` on `metadata.resourceVersion`, `delete` on the preconditions given.
There is no patch and no apply: they cost the server more and say less about what the writer has seen.
"""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from fencepost.api.names import Kind

Obj = dict[str, Any]
"""An object as JSON."""


OnDate = Callable[[float, float, float], None]
"""Called with an answer's Date, in whole Unix seconds by the server's clock, and the moments on our steady clock before
the request was sent and after the answer came; for the first answer of each second at least."""


class EventType(StrEnum):
    """Of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    """Carries only a resourceVersion: all events up to it have been sent."""


class WatchEvent(NamedTuple):
    """One line of a watch."""

    type: EventType
    object: Obj


@dataclass(frozen=True, slots=True)
class ObjectList:
    """One page of a list."""

    items: list[Obj]
    resource_version: str
    """Of the whole list: a watch may start here."""
    continue_token: str = ""
    """For the next page; empty on the last one."""


class Api(Protocol):
    """An API server as one identity sees it. Every method raises the errors of `kube.errors`."""

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Obj:
        """The stored object now (a consistent read)."""
        ...

    async def list(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ObjectList:
        """A consistent list (resourceVersion unset), or its next page; namespace None: all of them."""
        ...

    def watch(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        name: str = "",
        label_selector: str = "",
        resource_version: str,
        timeout_s: float = 300.0,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Events after `resource_version`, with bookmarks, in order; ends silently when the server ends it.

        Who leaves it early closes it (`contextlib.aclosing`), as it holds a connection.
        `name`: of that one object only. Raises GoneError when the version is too old, ConnectionLostError when the
        connection breaks. A watch on which nothing has come for so long that it may be half open ends silently too.
        """
        ...

    async def create(self, kind: Kind, obj: Obj) -> Obj:
        """POST into the object's own namespace; the stored object."""
        ...

    async def replace(self, kind: Kind, obj: Obj, *, subresource: str = "") -> Obj:
        """PUT on the object's own resourceVersion; ConflictError if it has moved. The stored object."""
        ...

    async def delete(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "Background",
    ) -> None:
        """DELETE under preconditions; ConflictError if they do not hold, NotFoundError if it is gone."""
        ...
