"""The validating webhook: refuses at apply what no schema can see of a DAG.

It is a convenience and no fence: where it is down, slow, or not set up, a DAG that is not valid is stored, and its
condition says the same words. So it needs no caches, no leadership and no writes: any replica answers, from the request
alone. The certificate is whoever deploys us's to make; its files are read again when they change, so that one that is
renewed is in use within a minute.
"""

import asyncio
import logging
import ssl
from pathlib import Path
from types import TracebackType

import orjson
from aiohttp import web

from fencepost.api.admission import NoReviewError, review_dag
from fencepost.base.clock import Clock
from fencepost.base.metrics import Metrics

log = logging.getLogger(__name__)

PATH = "/validate-dag"
REVIEW_BYTES_MAX = 8 * 1024 * 1024
"""Of a request: the object as it is and as it was, each of up to 1.5 MiB, and what is said about them."""
RELOAD_PERIOD_S = 30.0


class CertificateError(ValueError):
    """The certificate cannot be used; `str()` names the files."""


class Webhook:
    """An HTTPS server for the API server, as an async context manager. Port 0: any free one."""

    def __init__(self, host: str, port: int, certificate: Path, key: Path, clock: Clock, metrics: Metrics) -> None:
        """`certificate`: a PEM file with its chain. CertificateError if the two files do not fit together."""
        self.port = port
        self._host = host
        self._files = (certificate, key)
        self._clock = clock
        self._metrics = metrics
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._stamp = self._load()
        self._runner: web.AppRunner | None = None
        self._reloading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Webhook":
        app = web.Application(client_max_size=REVIEW_BYTES_MAX)
        app.router.add_post(PATH, self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self.port, ssl_context=self._context).start()
        self.port = self._runner.addresses[0][1]
        self._reloading = asyncio.create_task(self._reload())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        assert self._reloading is not None
        self._reloading.cancel()
        await asyncio.gather(self._reloading, return_exceptions=True)
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        try:
            # In a thread, as the check of a DAG of thousands of tasks takes a while, and leases are renewed here.
            answer = await asyncio.to_thread(lambda: review_dag(orjson.loads(body), self._clock.now_s()))
        except (NoReviewError, orjson.JSONDecodeError) as error:
            return web.Response(status=400, text=f"{error}\n")
        self._metrics.reviewed(allowed=answer["response"]["allowed"])
        return web.Response(body=orjson.dumps(answer), content_type="application/json")

    async def _reload(self) -> None:
        while True:
            await self._clock.sleep(RELOAD_PERIOD_S)
            try:
                if self._stamp_now() != self._stamp:
                    self._stamp = self._load()
                    log.info("the webhook's certificate has been read again")
            except CertificateError as error:
                log.error("the webhook goes on with the certificate that it has: %s", error)

    def _load(self) -> tuple[int, ...]:
        stamp = self._stamp_now()
        try:
            self._context.load_cert_chain(*self._files)
        except (OSError, ssl.SSLError) as error:
            raise CertificateError(f"{self._named()} cannot be used: {error}") from error
        return stamp

    def _stamp_now(self) -> tuple[int, ...]:
        try:
            return tuple(file.stat().st_mtime_ns for file in self._files)
        except OSError as error:
            raise CertificateError(
                f"{self._named()} cannot be read: {error}; mount the Secret that holds them"
            ) from error

    def _named(self) -> str:
        return " and ".join(str(file) for file in self._files)
