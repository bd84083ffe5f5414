"""What the kubelet and Prometheus get to see, over HTTP on loopback."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import pytest

from fencepost.base.probes import Probes


@dataclass
class Process:
    """What its probes ask."""

    wrong: str = ""
    missing: str = ""
    port: int = 0

    async def get(self, path: str) -> tuple[int, str, str]:
        """Status, content type and body."""
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self.port}{path}") as answer:
            return answer.status, answer.headers["Content-Type"], await answer.text()


@pytest.fixture
async def process() -> AsyncIterator[Process]:
    made = Process()
    probes = Probes(
        "127.0.0.1", 0, alive=lambda: made.wrong, ready=lambda: made.missing, metrics=lambda: b"fencepost_up 1\n"
    )
    async with probes:
        made.port = probes.port
        yield made


async def test_a_process_that_is_well_says_so(process: Process) -> None:
    assert [(await process.get(path))[::2] for path in ("/livez", "/readyz")] == [(200, "ok\n")] * 2


async def test_a_loop_that_is_stuck_fails_liveness_by_its_name(process: Process) -> None:
    process.wrong = "the scheduler has made no progress for 12 s"

    assert (await process.get("/livez"))[::2] == (503, "the scheduler has made no progress for 12 s\n")
    assert (await process.get("/readyz"))[0] == 200


async def test_what_is_not_ready_yet_fails_readiness_and_not_liveness(process: Process) -> None:
    process.missing = "the caches are not filled yet"

    assert (await process.get("/readyz"))[::2] == (503, "the caches are not filled yet\n")
    assert (await process.get("/livez"))[0] == 200


async def test_metrics_come_in_prometheus_text_format(process: Process) -> None:
    assert await process.get("/metrics") == (200, "text/plain; version=0.0.4; charset=utf-8", "fencepost_up 1\n")


async def test_other_paths_are_not_there(process: Process) -> None:
    assert (await process.get("/"))[0] == 404


async def test_the_port_is_free_again_afterwards() -> None:
    for _ in range(2):
        async with Probes("127.0.0.1", 0, alive=str, ready=str, metrics=bytes) as first:
            port = first.port
        async with Probes("127.0.0.1", port, alive=str, ready=str, metrics=bytes) as again:
            assert again.port == port
