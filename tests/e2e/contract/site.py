"""Where a contract test takes place: one server, seen by four identities, and a namespace of its own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from fencepost.api.names import LEASES, NAMESPACES, SYSTEM_NAMESPACE_DEFAULT, WORKERS
from fencepost.base.clock import SystemClock
from fencepost.core.names import shard_lease_name
from fencepost.kube.access import access_from_kubeconfig
from fencepost.kube.client import HttpApi
from fencepost.kube.errors import ApiError, NotFoundError
from fencepost.kube.protocol import Api
from fencepost.memory.identity import ADMIN, OPERATOR, USER, worker_identity
from fencepost.memory.server import MemoryServer
from tests.e2e.contract.objects import shard_lease
from tests.e2e.support.install import USER_ACCOUNT, USER_NAMESPACE, Fencepost

POD = "contract-a"
OTHER_POD = "contract-b"
CONFINED_POD = "contract-c"
OWN_POOL = "contract-own"
NAMESPACE_LABEL = "fencepost.dev/contract"
EVENTUALLY_LIMIT_S = 60.0
"""The garbage collector looks for new kinds every 30 s."""
EVENTUALLY_POLL_S = 0.02
SHARD = 3
"""Of the runs in these tests."""

T = TypeVar("T")


@dataclass
class Site:
    """One test's server. `worker` and `other_worker` are the workers of POD and OTHER_POD, of an account that serves
    every pool; `confined_worker` is the one of CONFINED_POD, whose account serves OWN_POOL alone."""

    admin: Api
    operator: Api
    worker: Api
    other_worker: Api
    confined_worker: Api
    user: Api
    namespace: str
    nonce: str
    """Five characters that no other test has: objects in the system namespace are named with it."""
    user_name: str
    """Of `user`, as the server knows it."""
    epoch: int = field(default=0, init=False)
    """Of SHARD, once it is led."""

    @property
    def worker_name(self) -> str:
        """A name under which the worker of POD may register."""
        return f"{POD}-{self.nonce}"

    async def lead(self) -> int:
        """Raise the epoch of SHARD by one, as a leader does when it takes over; the new epoch."""
        name = shard_lease_name(SHARD)
        try:
            lease = await self.operator.get(LEASES, SYSTEM_NAMESPACE_DEFAULT, name)
            lease["spec"]["leaseTransitions"] += 1
            lease = await self.operator.replace(LEASES, lease)
        except NotFoundError:
            lease = await self.operator.create(LEASES, shard_lease(SHARD, epoch=1))
        self.epoch = lease["spec"]["leaseTransitions"]
        return self.epoch

    async def eventually(self, act: Callable[[], Awaitable[T]]) -> T:
        """What `act` gives once it fails no assertion and is not refused; after a limit, its last failure.

        For what the real server does a moment later: policies that read a Lease, garbage collection.
        """
        try:
            async with asyncio.timeout(EVENTUALLY_LIMIT_S):
                while True:
                    try:
                        return await act()
                    except (AssertionError, ApiError, pytest.fail.Exception) as error:
                        failure = error
                    await asyncio.sleep(EVENTUALLY_POLL_S)
        except TimeoutError:
            raise failure from None


class HurriedClock(SystemClock):
    """A second of waiting takes a hundredth of one."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 100)


@asynccontextmanager
async def site_in_memory() -> AsyncIterator[Site]:
    """A server in memory, new for this test."""
    server = MemoryServer(HurriedClock())
    yield Site(
        admin=server.client(ADMIN),
        operator=server.client(OPERATOR),
        worker=server.client(worker_identity(POD)),
        other_worker=server.client(worker_identity(OTHER_POD)),
        confined_worker=server.client(worker_identity(CONFINED_POD, frozenset({OWN_POOL}))),
        user=server.client(USER),
        namespace="contract",
        nonce="aaaaa",
        user_name=USER.user,
    )


@dataclass(frozen=True)
class Identities:
    """Kubeconfig files, made once for all tests."""

    admin: Path
    operator: Path
    worker: Path
    other_worker: Path
    confined_worker: Path
    user: Path

    @staticmethod
    def of(installed: Fencepost) -> "Identities":
        """All that the contract needs."""
        return Identities(
            admin=installed.admin_kubeconfig,
            operator=installed.operator_kubeconfig(),
            worker=installed.worker_kubeconfig(POD),
            other_worker=installed.worker_kubeconfig(OTHER_POD),
            confined_worker=installed.worker_kubeconfig(CONFINED_POD, OWN_POOL),
            user=installed.user_kubeconfig(),
        )


@asynccontextmanager
async def site_on_cluster(identities: Identities, nonce: str) -> AsyncIterator[Site]:
    """A real server; `clean_cluster` removes what the tests leave behind."""
    async with AsyncExitStack() as stack:

        async def client(kubeconfig: Path) -> HttpApi:
            access = access_from_kubeconfig(kubeconfig)
            return await stack.enter_async_context(HttpApi(access, SystemClock(), component="contract"))

        site = Site(
            admin=await client(identities.admin),
            operator=await client(identities.operator),
            worker=await client(identities.worker),
            other_worker=await client(identities.other_worker),
            confined_worker=await client(identities.confined_worker),
            user=await client(identities.user),
            namespace=f"contract-{nonce}",
            nonce=nonce,
            user_name=f"system:serviceaccount:{USER_NAMESPACE}:{USER_ACCOUNT}",
        )
        metadata = {"name": site.namespace, "labels": {NAMESPACE_LABEL: ""}}
        await site.admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        yield site


async def clean_cluster(identities: Identities) -> None:
    """Remove what the tests have left behind, all at once at the end: a namespace costs the controllers a second."""
    async with HttpApi(access_from_kubeconfig(identities.admin), SystemClock(), component="contract") as admin:
        for namespace in (await admin.list(NAMESPACES, label_selector=NAMESPACE_LABEL)).items:
            await admin.delete(NAMESPACES, None, namespace["metadata"]["name"])
        for kind in (WORKERS, LEASES):
            for obj in (await admin.list(kind, SYSTEM_NAMESPACE_DEFAULT)).items:
                if obj["metadata"]["name"].startswith(("contract-", "theirs-")):
                    await admin.delete(kind, SYSTEM_NAMESPACE_DEFAULT, obj["metadata"]["name"])
