"""The composition root: a part that ends by itself ends the process, and says so."""

import argparse
from typing import Any

import pytest

from fencepost import main
from fencepost.base.clock import SystemClock
from fencepost.base.metrics import Metrics
from fencepost.kube.access import Access
from fencepost.loops.clock_check import ClockCheck
from fencepost.memory.identity import ADMIN
from fencepost.memory.server import MemoryServer


async def test_a_replica_whose_watch_of_pools_breaks_fails_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any) -> None:
        raise RuntimeError("kopf cannot be started")

    monkeypatch.setattr(main, "follow_pools", broken)
    args = argparse.Namespace(
        namespace="fencepost", shards=1, window=0.0, history_age=0.0, history_total=1, replica="ann", lease_duration=10
    )
    clock, metrics = SystemClock(), Metrics()
    api: Any = MemoryServer(clock).client(ADMIN)
    replica = main.Replica(args, api, api, clock, ClockCheck(clock, metrics), metrics)
    with pytest.raises(RuntimeError, match="kopf cannot be started"):
        await replica.run(Access("http://127.0.0.1:1"))
