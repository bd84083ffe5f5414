"""The contract suite on the server in memory alone; `tests/e2e/contract` runs it on the real one as well."""

from collections.abc import AsyncIterator

import pytest

from tests.e2e.contract.site import Site, site_in_memory
from tests.e2e.contract.test_dag_laws import *  # noqa: F403
from tests.e2e.contract.test_lease_laws import *  # noqa: F403
from tests.e2e.contract.test_letter_laws import *  # noqa: F403
from tests.e2e.contract.test_lists import *  # noqa: F403
from tests.e2e.contract.test_objects import *  # noqa: F403
from tests.e2e.contract.test_run_laws import *  # noqa: F403
from tests.e2e.contract.test_watches import *  # noqa: F403
from tests.e2e.contract.test_worker_laws import *  # noqa: F403


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A server in memory."""
    async with site_in_memory() as site:
        yield site
