"""A kind kept in sight: list, then watch, then list again whenever the watch can no longer vouch for what it missed.

A cache behind a reflector never goes back: each object is taken only if its resourceVersion is above the one that is
known, so an event that was delayed cannot undo what our own write has already told. What a list no longer holds is
gone, unless it is known at a version that is newer than the list itself.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from fencepost.api.names import Kind
from fencepost.base.clock import Clock
from fencepost.kube.errors import ApiError, GoneError
from fencepost.kube.protocol import Api, EventType, Obj

log = logging.getLogger(__name__)

PAGE_SIZE = 500
RETRY_FIRST_S = 0.5
RETRY_MAX_S = 15.0

ObjectName = tuple[str, str]
"""Namespace (empty for a cluster's own objects) and name."""


class Cache(Protocol):
    """What a reflector fills. All calls are synchronous and must not fail on any object, however garbled."""

    def upsert(self, obj: Obj) -> None:
        """The object as it stands at its resourceVersion; to be ignored if a newer version is known."""
        ...

    def remove(self, name: ObjectName, version: int) -> None:
        """The object was gone at this version; to be ignored if a newer version is known."""
        ...

    def known(self) -> Iterable[tuple[ObjectName, int]]:
        """Names and versions of all that is held."""
        ...


def name_of(obj: Obj) -> ObjectName:
    """Namespace and name."""
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


def version_of(obj: Obj) -> int:
    """The resourceVersion as the number that it is on every supported server."""
    return int(obj["metadata"]["resourceVersion"])


async def list_page_by_page(
    api: Api,
    kind: Kind,
    cache: Cache,
    *,
    namespace: str | None = None,
    label_selector: str = "",
    gone_if: Callable[[ObjectName], bool],
) -> str:
    """A consistent list into a cache; its resourceVersion. What is held, not listed, and `gone_if` is taken out."""
    seen: set[ObjectName] = set()
    token = ""
    while True:
        page = await api.list(kind, namespace, label_selector=label_selector, limit=PAGE_SIZE, continue_token=token)
        for obj in page.items:
            seen.add(name_of(obj))
            take_in(kind, cache, obj)
        token = page.continue_token
        if not token:
            break
    for name, known in list(cache.known()):
        if name not in seen and known <= int(page.resource_version) and gone_if(name):
            cache.remove(name, int(page.resource_version))
    return page.resource_version


def take_in(kind: Kind, cache: Cache, obj: Obj) -> None:
    """Hand an object to a cache. Whatever it fails on concerns that object alone and never ends a list or a watch."""
    try:
        cache.upsert(obj)
    except Exception:
        log.exception("%s %s could not be taken in", kind, "/".join(name_of(obj)))


class Reflector:
    """Keeps one cache in step with one kind, for as long as it runs."""

    def __init__(
        self,
        api: Api,
        kind: Kind,
        cache: Cache,
        clock: Clock,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        on_contact: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_contact` is called whenever the API server has said anything at all on this watch."""
        self._api = api
        self._kind = kind
        self._cache = cache
        self._clock = clock
        self._namespace = namespace
        self._label_selector = label_selector
        self._on_contact = on_contact
        self.synced = asyncio.Event()
        """Set once the first list is in the cache."""

    async def run(self) -> None:
        """List and watch until cancelled; waits with back-off while the API server does not answer."""
        failures = 0
        version = ""
        while True:
            try:
                if not version:
                    version = await self._relist()
                    self.synced.set()
                version = await self._follow(version)
                failures = 0
            except GoneError:
                version = ""
            except ApiError as error:
                failures += 1
                delay_s = min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(failures - 1, 10))
                log.warning("watch of %s: %s; again in %.1f s", self._kind, error, delay_s)
                await self._clock.sleep(delay_s)

    async def _relist(self) -> str:
        version = await list_page_by_page(
            self._api,
            self._kind,
            self._cache,
            namespace=self._namespace,
            label_selector=self._label_selector,
            gone_if=lambda _: True,
        )
        self._on_contact()
        return version

    async def _follow(self, version: str) -> str:
        """Watch from `version`; the version reached when the server ended the watch, or it broke after events."""
        reached = version
        try:
            async for event in self._api.watch(
                self._kind, self._namespace, label_selector=self._label_selector, resource_version=version
            ):
                self._on_contact()
                reached = event.object["metadata"]["resourceVersion"]
                if event.type is EventType.DELETED:
                    self._cache.remove(name_of(event.object), int(reached))
                elif event.type is not EventType.BOOKMARK:
                    take_in(self._kind, self._cache, event.object)
        except GoneError:
            raise
        except ApiError:
            if reached == version:
                raise
        return reached
