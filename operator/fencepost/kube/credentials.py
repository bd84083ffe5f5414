"""The bearer token of each request, kept fresh.

A bound service account token in a file is replaced by the kubelet long before it ends, so reading the file once a
minute is enough; a 401 is the one sign that it was not, and then the next request reads it at once.
"""

import asyncio
import os
from contextlib import suppress

import orjson

from fencepost.api.times import parse_time
from fencepost.base.clock import Clock
from fencepost.kube.access import Access, ExecPlugin
from fencepost.kube.errors import ForbiddenError

TOKEN_FILE_READ_PERIOD_S = 60.0
EXEC_TIMEOUT_S = 60.0
EXPIRY_MARGIN_S = 30.0
"""A plugin's token is replaced so long before it ends."""
UNAUTHORIZED = 401


class Bearer:
    """The token that an `Access` stands for, or none."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._token = access.token
        self._renewable = access.token_file is not None or access.exec is not None
        self._stale_at_s = clock.steady_s() if self._renewable else None
        """On the steady clock; None: never."""
        self._renewing = asyncio.Lock()

    async def token(self) -> str:
        """The token to send now; empty where a certificate says who we are. ForbiddenError (401) if none can be had."""
        if self._stale:
            async with self._renewing:
                if self._stale:  # nobody has renewed it while we waited
                    await self._renew()
        return self._token

    @property
    def _stale(self) -> bool:
        return self._stale_at_s is not None and self._clock.steady_s() >= self._stale_at_s

    def doubt(self) -> bool:
        """The server refused the token: read it anew next time. False where that cannot help."""
        if self._renewable:
            self._stale_at_s = self._clock.steady_s()
        return self._renewable

    async def _renew(self) -> None:
        now_s = self._clock.steady_s()
        if self._access.exec is not None:
            self._token, lifetime_s = await self._ask(self._access.exec)
            self._stale_at_s = None if lifetime_s is None else now_s + max(1.0, lifetime_s - EXPIRY_MARGIN_S)
            return
        file = self._access.token_file
        assert file is not None
        try:
            self._token = file.read_text().strip()
        except OSError as error:
            raise ForbiddenError(
                f"the token file {file} cannot be read ({error.strerror}): check the pod's service account volume",
                status=UNAUTHORIZED,
            ) from error
        self._stale_at_s = now_s + TOKEN_FILE_READ_PERIOD_S

    async def _ask(self, plugin: ExecPlugin) -> tuple[str, float | None]:
        """The plugin's token and how many seconds it lasts (None: it does not say)."""
        info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
        environment = {**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": orjson.dumps(info).decode()}
        try:
            output = await _output_of(plugin.command, environment)
            status = orjson.loads(output)["status"]
            expiry = status.get("expirationTimestamp")
            return status["token"], None if expiry is None else parse_time(expiry) - self._clock.now_s()
        except (OSError, ValueError, KeyError, TypeError, AttributeError, TimeoutError) as error:
            hint = plugin.install_hint or "run it by hand, it must print an ExecCredential with status.token"
            raise ForbiddenError(
                f"the credential plugin {plugin.command[0]!r} gave no token ({error!r}): {hint}", status=UNAUTHORIZED
            ) from error


async def _output_of(command: tuple[str, ...], environment: dict[str, str]) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(EXEC_TIMEOUT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    if process.returncode:
        raise OSError(f"exit code {process.returncode}")
    return output
