"""The audit looks at each DAG once, however often it is told of it before its turn has come."""

import asyncio

import looptime

from fencepost.base.clock import LoopClock
from fencepost.core.names import DagKey
from fencepost.loops.audit import LOOKS_PER_PERIOD, Audit


def test_dags_that_are_taken_up_again_and_again_are_looked_at_once_and_in_order() -> None:
    keys = [DagKey("demo", f"d{number:04}") for number in range(3 * LOOKS_PER_PERIOD)]
    looks: list[DagKey] = []

    async def scene() -> None:
        audit = Audit(LoopClock(0.0), looks.append)
        for _ in range(50):
            audit.take_up(keys)
        running = asyncio.create_task(audit.run())
        await asyncio.sleep(60.0)
        running.cancel()

    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        runner.run(scene())
    assert looks == keys
