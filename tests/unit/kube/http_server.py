"""An HTTP server on loopback whose answers a test writes, one handler at a time."""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer

from fencepost.base.clock import SystemClock
from fencepost.kube.access import Access
from fencepost.kube.client import HttpApi

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpServer:
    """Answers every request with `handler`, and keeps the requests that it has seen."""

    def __init__(self, handler: Handler) -> None:
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []
        self._handler = handler
        self._server: TestServer | None = None

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._server = TestServer(application)
        await self._server.start_server()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        await self._server.close()

    @property
    def url(self) -> str:
        """Without a slash at its end."""
        assert self._server is not None
        return str(self._server.make_url("")).rstrip("/")

    def client(self, access: Access | None = None, **options: Any) -> HttpApi:
        """A client of it; `options` are HttpApi's."""
        seen = Access(self.url, token=access.token, token_file=access.token_file) if access else Access(self.url)
        return HttpApi(seen, SystemClock(), component="test", **options)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        return await self._handler(request)


def answer(body: object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """A JSON answer."""
    return web.Response(body=orjson.dumps(body), status=status, headers=headers, content_type="application/json")


def refusal(status: int, reason: str, message: str = "no", headers: dict[str, str] | None = None) -> web.Response:
    """A Status answer, as an API server gives it."""
    return answer({"kind": "Status", "code": status, "reason": reason, "message": message}, status, headers)


def cut(request: web.Request) -> web.StreamResponse:
    """End the connection with no answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def stream(request: web.Request, *chunks: bytes) -> web.StreamResponse:
    """A chunked answer; the caller ends it."""
    response = web.StreamResponse()
    response.enable_chunked_encoding()
    await response.prepare(request)
    for chunk in chunks:
        await response.write(chunk)
    return response
