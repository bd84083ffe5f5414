"""A client of the engine, whatever lies between the two: each call as a request, and what it does once it arrives.

What carries a request there and its answer back is left to who inherits; so are watches, which are connections.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

import orjson

from fencepost.api.names import Kind
from fencepost.kube.protocol import Obj, ObjectList
from fencepost.memory.engine import Engine
from fencepost.memory.faults import Request
from fencepost.memory.identity import Identity
from fencepost.memory.records import ObjectKey

T = TypeVar("T")


class EngineApi(ABC):
    """`kube.protocol.Api` as one identity, but for watches. What is sent is what it was at the moment of sending."""

    def __init__(self, engine: Engine, identity: Identity) -> None:
        self._engine = engine
        self._identity = identity

    @abstractmethod
    async def _perform(self, request: Request, act: Callable[[], T]) -> T:
        """Carry a request to the engine, which carries out `act`, and its answer back."""

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Obj:
        where = namespace or ""
        request = Request(self._identity, "get", kind, where, name)
        return await self._perform(request, lambda: self._engine.get(self._identity, kind, where, name))

    async def list(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ObjectList:
        where = namespace or ""

        def act() -> ObjectList:
            return self._engine.list(self._identity, kind, where, label_selector, limit, continue_token)

        return await self._perform(Request(self._identity, "list", kind, where, ""), act)

    async def create(self, kind: Kind, obj: Obj) -> Obj:
        metadata, content = obj["metadata"], orjson.dumps(obj)
        request = Request(self._identity, "create", kind, metadata.get("namespace", ""), metadata.get("name", ""))
        return await self._perform(request, lambda: self._engine.create(self._identity, kind, content))

    async def replace(self, kind: Kind, obj: Obj, *, subresource: str = "") -> Obj:
        metadata, content = obj["metadata"], orjson.dumps(obj)
        request = Request(self._identity, "update", kind, metadata.get("namespace", ""), metadata["name"], subresource)
        return await self._perform(request, lambda: self._engine.replace(self._identity, kind, content, subresource))

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
        key = ObjectKey(namespace or "", name)
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        request = Request(self._identity, "delete", kind, *key)
        await self._perform(request, lambda: self._engine.delete(self._identity, kind, key, preconditions, propagation))
