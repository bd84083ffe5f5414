"""What the server (or the network) said, as one of the errors of `kube.errors`."""

from collections.abc import Mapping
from typing import Any

import aiohttp
import orjson

from fencepost.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ConnectionLostError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    NotReadyError,
    OverloadedError,
    ServerError,
    UnreachableError,
)

MESSAGE_LENGTH_MAX = 2000
RETRY_AFTER_MAX_S = 60.0

_CLASSES: dict[int, type[ApiError]] = {
    400: InvalidError,
    401: ForbiddenError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    413: InvalidError,
    422: InvalidError,
    429: OverloadedError,
}

_NOT_READY = (
    "not yet ready to handle request",
    "not yet synced to use for admission",
    "paramKind kind `coordination.k8s.io/v1, Kind=Lease` not known",
)
"""How a server says, with the code of a refusal, that an admission plugin has not read yet what it judges by. A fence
that has judged says something else."""


def error_of_answer(request: str, status: int, content: bytes, headers: Mapping[str, str]) -> ApiError:
    """For an answer of 400 or more to `request` (verb and path, for the message)."""
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        body = {"message": content[:MESSAGE_LENGTH_MAX].decode(errors="replace").strip()}
    error = error_of_status(request, status, body)
    if isinstance(error, OverloadedError):
        error.retry_after_s = _retry_after_s(headers.get("Retry-After", ""))
    return error


def error_of_status(request: str, status: int, body: Mapping[str, Any]) -> ApiError:
    """For a Status object, as an answer's body or inside a watch."""
    reason = str(body.get("reason") or "")
    message = str(body.get("message") or "no message")[:MESSAGE_LENGTH_MAX]
    if status == 409 and reason == "AlreadyExists":
        error_class: type[ApiError] = AlreadyExistsError
    elif status in (403, 422) and any(words in message for words in _NOT_READY):
        error_class = NotReadyError
    else:
        error_class = _CLASSES.get(status, ServerError if status >= 500 else ApiError)
    return error_class(f"{request}: {message} ({status} {reason})".replace(" )", ")"), status=status, reason=reason)


def error_of_network(request: str, error: Exception) -> ConnectionLostError:
    """For a request that got no answer, or half of one."""
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return UnreachableError(
            f"{request}: no connection to the API server ({error}): it may be down, or on another address"
        )
    return ConnectionLostError(f"{request}: no answer ({error or type(error).__name__}): it may have been carried out")


def _retry_after_s(text: str) -> float:
    """Seconds to wait; the class's default where the server says nothing that can be read."""
    try:
        return min(max(float(text), 0.0), RETRY_AFTER_MAX_S)
    except ValueError:
        return OverloadedError.retry_after_s
