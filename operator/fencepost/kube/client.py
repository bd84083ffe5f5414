"""The API server over HTTP: aiohttp and orjson, and nothing in between on the hot path.

Its rule: a write is sent once. aiohttp would send a PUT or DELETE again by itself when a kept connection turns out to
be dead, and the answer to the second one (409, 404) would hide that the first was carried out; here that is
ConnectionLostError, and the caller reads before it writes again. Only a 401 is answered by a second try, with a
fresh token, because then the first was certainly refused.

Not promised: retries, back-off, rate limits. They belong to the callers, who know what a request is worth.
"""

import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import lru_cache
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode

import aiohttp
import orjson
from yarl import URL

from fencepost.api.names import Kind
from fencepost.base.clock import Clock
from fencepost.kube.access import Access
from fencepost.kube.answers import error_of_answer, error_of_network, error_of_status
from fencepost.kube.bodies import encode_body
from fencepost.kube.credentials import UNAUTHORIZED, Bearer
from fencepost.kube.errors import ServerError, UnreachableError
from fencepost.kube.lines import LineSplitter, LineTooLongError
from fencepost.kube.protocol import EventType, Obj, ObjectList, OnDate, WatchEvent

CONNECTIONS_MAX_DEFAULT = 64
REQUEST_TIMEOUT_DEFAULT_S = 30.0
CONNECT_TIMEOUT_DEFAULT_S = 5.0
KEEP_ALIVE_S = 60.0
"""Less than the 90 s after which an API server ends an idle connection, so that it is we who end it."""
WATCH_SILENCE_MAX_S = 90.0
"""A watch on which nothing has come for so long is half open, or nothing has happened: bookmarks come about once a
minute, but not while the kind stands still. Nobody can tell the two apart, so we end it, and the caller opens another
where it left off."""
NAMES_KEPT_MAX = 4096
"""Quoted, for the next request of the same object: a run is written twice and deleted, its namespace is in each."""
WATCH_MARGIN_S = 15.0
"""After the time at which the server should have ended a watch, we end it."""

Observer = Callable[[str, Kind, int, float], None]
"""Called once for each request with verb, kind, HTTP status (0: no answer) and seconds until the answer was there."""


class HttpApi:
    """`kube.protocol.Api` over HTTP, as one user. Use it as an async context manager, from one event loop.

    `component` names us to the server (`fencepost/<component>`). At most `connections_max` requests are under way at a
    time, others wait; watches have connections of their own and do not count.
    """

    def __init__(
        self,
        access: Access,
        clock: Clock,
        *,
        component: str,
        connections_max: int = CONNECTIONS_MAX_DEFAULT,
        request_timeout_s: float = REQUEST_TIMEOUT_DEFAULT_S,
        connect_timeout_s: float = CONNECT_TIMEOUT_DEFAULT_S,
        watch_silence_max_s: float = WATCH_SILENCE_MAX_S,
        observer: Observer | None = None,
        on_date: OnDate | None = None,
    ) -> None:
        self._access = access
        self._clock = clock
        self._component = component
        self._connections_max = connections_max
        self._request_timeout = aiohttp.ClientTimeout(total=request_timeout_s, sock_connect=connect_timeout_s)
        self._connect_timeout_s = connect_timeout_s
        self._watch_silence_max_s = watch_silence_max_s
        self._observer = observer
        self._on_date = on_date
        self._bearer = Bearer(access, clock)
        self._date_seen = ""
        self._requests: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None
        self._streams: set[aiohttp.ClientResponse] = set()
        """Of the watches that are open."""

    async def __aenter__(self) -> Self:
        tls = self._access.ssl_context()
        self._requests = self._session(tls, self._connections_max)
        self._watches = self._session(tls, 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections: what is under way raises ConnectionLostError, and so does whatever is asked later."""
        for response in self._streams:
            response.close()  # aiohttp would let its reader wait for ever
        for session in (self._requests, self._watches):
            if session is not None:
                await session.close()

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Obj:
        return await self._call("get", kind, "GET", _path(kind, namespace, name))

    async def list(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ObjectList:
        query = {"labelSelector": label_selector, "limit": str(limit or ""), "continue": continue_token}
        page = await self._call("list", kind, "GET", _path(kind, namespace), query)
        metadata = page["metadata"]
        items: list[Obj] = page.get("items") or []
        for item in items:  # built-in kinds leave these two out
            item.setdefault("apiVersion", kind.api_version)
            item.setdefault("kind", kind.kind)
        return ObjectList(
            items=items,
            resource_version=metadata["resourceVersion"],
            continue_token=metadata.get("continue", ""),
        )

    async def create(self, kind: Kind, obj: Obj) -> Obj:
        namespace = obj["metadata"].get("namespace")
        assert namespace or not kind.namespaced, f"a {kind.kind} to create names no namespace"
        path = _path(kind, namespace)
        return await self._call("create", kind, "POST", path, body=encode_body(kind, obj))

    async def replace(self, kind: Kind, obj: Obj, *, subresource: str = "") -> Obj:
        metadata = obj["metadata"]
        path = _path(kind, metadata.get("namespace"), metadata["name"], subresource)
        return await self._call("update", kind, "PUT", path, body=encode_body(kind, obj))

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
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
            "preconditions": {key: value for key, value in preconditions.items() if value},
        }
        await self._call("delete", kind, "DELETE", _path(kind, namespace, name), body=orjson.dumps(options))

    async def watch(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        name: str = "",
        label_selector: str = "",
        resource_version: str,
        timeout_s: float = 300.0,
    ) -> AsyncGenerator[WatchEvent, None]:
        path = _path(kind, namespace)
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, round(timeout_s))),
            "labelSelector": label_selector,
            "fieldSelector": f"metadata.name={name}" if name else "",
        }
        timeout = aiohttp.ClientTimeout(
            total=timeout_s + WATCH_MARGIN_S,
            sock_connect=self._connect_timeout_s,
            sock_read=self._watch_silence_max_s,
        )
        request = f"watch {path}"
        try:
            response = await self._open("watch", kind, "GET", path, query, timeout=timeout)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise error_of_network(request, error) from error
        self._streams.add(response)
        try:
            splitter = LineSplitter()
            async for chunk in response.content.iter_any():
                for line in splitter.feed(chunk):
                    yield _event(request, line)
        except TimeoutError:
            return  # silent for too long
        except (aiohttp.ClientError, LineTooLongError) as error:
            raise error_of_network(request, error) from error
        finally:
            self._streams.discard(response)
            response.close()

    def _session(self, tls: ssl.SSLContext, connections_max: int) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls, limit=connections_max, keepalive_timeout=KEEP_ALIVE_S),
            headers={
                "User-Agent": f"fencepost/{self._component}",
                "Accept": "application/json",
                "Accept-Encoding": "identity",  # compressing costs the server more than a local network is worth
            },
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def _call(
        self,
        verb: str,
        kind: Kind,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: bytes | None = None,
    ) -> Obj:
        """One request and its whole answer."""
        try:
            response = await self._open(verb, kind, method, path, query, body, timeout=self._request_timeout)
            async with response:
                content = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise error_of_network(f"{verb} {path}", error) from error
        return _parse_object(f"{verb} {path}", content)

    async def _open(
        self,
        verb: str,
        kind: Kind,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: bytes | None = None,
        *,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """Send a request until its answer begins; answers of 400 or more are raised."""
        session = self._watches if verb == "watch" else self._requests
        assert session is not None, "HttpApi is used outside of `async with`"
        if session.closed:
            raise UnreachableError(f"{verb} {path}: this client has been closed")
        url = _url(self._access.server, path, query)
        for last_try in (False, True):
            started_s, status = self._clock.steady_s(), 0
            headers = {"Content-Type": "application/json"} if body is not None else {}
            if token := await self._bearer.token():
                headers["Authorization"] = f"Bearer {token}"
            try:
                response = await session.request(
                    method,
                    url,
                    data=body,
                    headers=headers,
                    timeout=timeout,
                    allow_redirects=False,
                    server_hostname=self._access.tls_server_name or None,
                    middlewares=() if method == "GET" else (_send_once,),
                )
                status = response.status
            finally:
                if self._observer is not None:
                    self._observer(verb, kind, status, self._clock.steady_s() - started_s)
            self._note_date(response.headers.get("Date", ""), started_s)
            if status < 300:
                break
            async with response:
                content = await response.read()
            if status == UNAUTHORIZED and not last_try and self._bearer.doubt():
                continue
            raise error_of_answer(f"{verb} {path}", status, content, response.headers)
        return response

    def _note_date(self, date: str, sent_s: float) -> None:
        if self._on_date is None or date == self._date_seen:  # it has whole seconds: most answers repeat the last one
            return
        self._date_seen = date
        with suppress(ValueError):  # whoever answers without a date, or a garbled one, tells us nothing
            self._on_date(parsedate_to_datetime(date).timestamp(), sent_s, self._clock.steady_s())


class _AnswerLostError(aiohttp.ClientError):
    """A connection broke under a write. Not one of the errors after which aiohttp sends a request again."""


async def _send_once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    try:
        return await send(request)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        raise  # there was no connection yet
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _AnswerLostError(str(error)) from error


@lru_cache(maxsize=64)
def _prefix(kind: Kind) -> str:
    return f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.api_version}"


@lru_cache(maxsize=NAMES_KEPT_MAX)
def _quoted(name: str) -> str:
    return quote(name, safe="")


def _path(kind: Kind, namespace: str | None, name: str = "", subresource: str = "") -> str:
    """The path of an object, or of a collection; quoted."""
    assert namespace is None or kind.namespaced, f"{kind} have no namespace, got {namespace!r}"
    assert namespace or not (name and kind.namespaced), f"{kind} {name!r} needs a namespace"
    parts = [_prefix(kind)]
    if namespace:
        parts += ["namespaces", _quoted(namespace)]
    parts.append(kind.plural)
    if name:
        parts.append(_quoted(name))
    if subresource:
        parts.append(subresource)
    return "/".join(parts)


def _url(server: str, path: str, query: dict[str, str] | None) -> URL:
    present = {key: value for key, value in query.items() if value} if query else {}
    text = f"{server}{path}?{urlencode(present)}" if present else f"{server}{path}"
    return URL(text, encoded=True)


def _parse_object(request: str, content: bytes) -> Obj:
    try:
        parsed = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise ServerError(f"{request}: the answer is not JSON ({error}): is a proxy in the way?") from error
    if not isinstance(parsed, dict):
        raise ServerError(f"{request}: the answer is not an object but {type(parsed).__name__}: is a proxy in the way?")
    return parsed


def _event(request: str, line: bytes) -> WatchEvent:
    """One line of a watch; an ERROR in it is raised, as GoneError where the version is too old."""
    parsed: dict[str, Any] = _parse_object(request, line)
    if parsed.get("type") == "ERROR":
        status = parsed.get("object") or {}
        raise error_of_status(request, int(status.get("code") or 500), status)
    try:
        return WatchEvent(EventType(parsed["type"]), parsed["object"])
    except (KeyError, ValueError) as error:
        raise ServerError(f"{request}: a line is no watch event ({error!r}): is a proxy in the way?") from error
