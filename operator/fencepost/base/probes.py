"""/livez, /readyz and /metrics over HTTP.

Alive means that every loop has made progress lately; ready means that the caches are filled. Each check answers with
its reasons, so that a failing probe says what failed.
"""

from collections.abc import Awaitable, Callable
from types import TracebackType

from aiohttp import web

Check = Callable[[], str]
"""Empty when all is well, else what is not."""


class Probes:
    """An HTTP server for the kubelet and Prometheus, as an async context manager. Port 0: any free one."""

    def __init__(self, host: str, port: int, *, alive: Check, ready: Check, metrics: Callable[[], bytes]) -> None:
        self._host = host
        self.port = port
        self._alive = alive
        self._ready = ready
        self._metrics = metrics
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> "Probes":
        app = web.Application()
        app.router.add_get("/livez", self._answer(self._alive))
        app.router.add_get("/readyz", self._answer(self._ready))
        app.router.add_get("/metrics", self._serve_metrics)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def _answer(self, check: Check) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handler(_: web.Request) -> web.Response:
            wrong = check()
            return web.Response(text=f"{wrong or 'ok'}\n", status=503 if wrong else 200)

        return handler

    async def _serve_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})
