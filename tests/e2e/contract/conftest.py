"""Each contract test runs on both servers."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from fencepost.base.clock import SystemClock
from fencepost.core.names import NONCE_LENGTH, content_hash
from tests.e2e.contract.site import Identities, Site, clean_cluster, site_in_memory, site_on_cluster

SERVERS = ("memory", "real")


@pytest.fixture(scope="package")
def identities(request: pytest.FixtureRequest) -> Iterator[Identities]:
    """Of the real server; asked for only by tests that run on it. What they leave there goes with the last of them."""
    identities = Identities.of(request.getfixturevalue("installed"))
    yield identities
    asyncio.run(clean_cluster(identities))


@pytest.fixture(scope="session")
def nonces() -> Iterator[str]:
    """Names that no other test has, of this session or of an earlier one on the same cluster."""
    start = int(SystemClock().now_s() * 1000)
    return (content_hash(str(number).encode())[:NONCE_LENGTH] for number in itertools.count(start))


@pytest.fixture(params=SERVERS)
async def site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    """A server with a namespace of the test's own."""
    if request.param == "memory":
        async with site_in_memory() as site:
            yield site
    else:
        identities, nonce = request.getfixturevalue("identities"), next(request.getfixturevalue("nonces"))
        async with site_on_cluster(identities, nonce) as site:
            yield site
