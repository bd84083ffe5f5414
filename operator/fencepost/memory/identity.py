"""Who asks. In a cluster a certificate or a token says so; here the caller does."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What RBAC grants to an identity; `memory.rights` holds the table."""

    ADMIN = "Admin"
    """May do everything that no policy refuses to everybody."""
    OPERATOR = "Operator"
    """The operator's service account."""
    WORKER = "Worker"
    """A worker's service account, with a token bound to its pod."""
    USER = "User"
    """A person with the built-in role `edit` in all namespaces."""


@dataclass(frozen=True, slots=True)
class Identity:
    """One client."""

    role: Role
    user: str
    """For messages."""
    pod: str = ""
    """The pod that a worker's token is bound to, as in `authentication.kubernetes.io/pod-name`."""
    pools: frozenset[str] | None = None
    """The WorkerPools that a worker's account has the verb `serve` on; None: all."""


ADMIN = Identity(Role.ADMIN, "admin")
OPERATOR = Identity(Role.OPERATOR, "operator")
USER = Identity(Role.USER, "user")


def worker_identity(pod: str, pools: frozenset[str] | None = None) -> Identity:
    """The identity of the worker in this pod, whose account serves these pools alone; None: any."""
    return Identity(Role.WORKER, "worker", pod, pools)
