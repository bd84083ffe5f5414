"""What RBAC grants, by role and place: the chart's ClusterRoles and Roles as tables."""

from collections.abc import Mapping

from fencepost.api.names import (
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    DAG_RUNS,
    DAGS,
    DEAD_LETTERS,
    EVENTS,
    LEASES,
    SECRETS,
    WORKER_POOLS,
    WORKERS,
    Kind,
)
from fencepost.kube.errors import ForbiddenError
from fencepost.memory.identity import Identity, Role

Rights = Mapping[Role, Mapping[Kind, frozenset[str]]]
"""Verbs by role and kind. `update/status` is an update of that subresource."""

READ = frozenset({"get", "list", "watch"})
WRITE = frozenset({"create", "update", "delete"})
STATUS = frozenset({"update/status"})
GET = frozenset({"get"})

EVERYWHERE: Rights = {
    Role.OPERATOR: {
        DAGS: READ | STATUS | {"delete"},
        WORKER_POOLS: READ | STATUS,
        DAG_RUNS: READ | WRITE | STATUS,  # there is no such subresource: the right alone tells who is the operator
        DEAD_LETTERS: READ | STATUS | {"create", "delete"},
        CONTROLLER_REVISIONS: frozenset({"get", "list", "create", "delete"}),
        EVENTS: frozenset({"create"}),
    },
    # the last two only where somebody has granted them; here, as in a cluster of one, everywhere
    Role.WORKER: {
        DAG_RUNS: GET,
        CONTROLLER_REVISIONS: GET,
        WORKER_POOLS: GET,
        SECRETS: GET,
        CONFIG_MAPS: GET,
    },
    Role.USER: {
        DAGS: READ | WRITE | {"backfill"},
        DAG_RUNS: READ | WRITE,
        DEAD_LETTERS: READ | {"update", "delete"},
        WORKERS: READ,
        WORKER_POOLS: READ,
        CONTROLLER_REVISIONS: READ,
        EVENTS: READ,
        LEASES: READ | WRITE,
        CONFIG_MAPS: READ | WRITE,
    },
}
IN_SYSTEM: Rights = {
    Role.OPERATOR: {WORKERS: READ | {"update", "delete"}, LEASES: READ | WRITE},
    Role.WORKER: {
        WORKERS: STATUS | {"get", "watch", "create"},
        LEASES: frozenset({"get", "create", "update"}),
    },
    Role.USER: {},
}
"""In the system namespace, besides."""


def may(identity: Identity, verb: str, kind: Kind) -> bool:
    """Whether the role has a right to this verb everywhere."""
    return identity.role is Role.ADMIN or verb in EVERYWHERE[identity.role].get(kind, ())


def check_right(identity: Identity, verb: str, kind: Kind, namespace: str, name: str, system_namespace: str) -> None:
    """ForbiddenError where the role has no right to this verb; an administrator has every right."""
    if may(identity, verb, kind):
        return
    if namespace == system_namespace and verb in IN_SYSTEM[identity.role].get(kind, ()):
        return
    what = f"{kind} {name!r}" if name else str(kind)
    where = f"in namespace {namespace!r}" if namespace else "at the cluster scope"
    raise ForbiddenError(f"{what} is forbidden: {identity.user!r} cannot {verb} {kind} {where}", reason="Forbidden")
