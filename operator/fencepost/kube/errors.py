"""What an API server answers instead of what was asked for; one class for each answer that we treat differently.

ApiError
├── NotFoundError          404
├── ConflictError          409, a stale resourceVersion, a uid or resourceVersion precondition
├── AlreadyExistsError     409, the name is taken
├── ForbiddenError         403, RBAC or a ValidatingAdmissionPolicy; 401, the server does not know us
├── InvalidError           422 (400 too): schema, CEL rule
├── GoneError              410, the resourceVersion of a watch or a continue token is too old
├── OverloadedError        429; `retry_after_s`
│   └── NotReadyError      403, 422: it has just started and cannot ask its policies yet; not carried out
├── ServerError            5xx: the request may have been carried out
└── ConnectionLostError    no answer: the request may have been carried out
    └── UnreachableError   no connection: it was never sent
"""


class ApiError(Exception):
    """An answer that is not the one asked for. `str()` names the request and the server's own message."""

    status = 0

    def __init__(self, message: str, *, status: int | None = None, reason: str = "") -> None:
        super().__init__(message)
        if status is not None:
            self.status = status
        self.reason = reason
        """The server's machine-readable reason, such as `Forbidden`."""

    @property
    def outcome_unknown(self) -> bool:
        """True when a write may have been carried out all the same: read before writing again."""
        return False


class NotFoundError(ApiError):
    status = 404


class ConflictError(ApiError):
    status = 409


class AlreadyExistsError(ApiError):
    status = 409


class ForbiddenError(ApiError):
    status = 403


class InvalidError(ApiError):
    status = 422


class GoneError(ApiError):
    status = 410


class OverloadedError(ApiError):
    status = 429
    retry_after_s: float = 1.0


class NotReadyError(OverloadedError):
    status = 422


class ServerError(ApiError):
    status = 500

    @property
    def outcome_unknown(self) -> bool:
        return True


class ConnectionLostError(ApiError):
    status = 0

    @property
    def outcome_unknown(self) -> bool:
        return True


class UnreachableError(ConnectionLostError):
    @property
    def outcome_unknown(self) -> bool:
        return False
