"""Clocks: the wall, the steady one, and the one of a loop whose time is virtual."""

import asyncio

import looptime

from fencepost.base.clock import LoopClock, SystemClock


async def test_the_machines_clocks_go_on_and_a_sleep_of_nothing_returns() -> None:
    clock = SystemClock()
    wall_s, steady_s = clock.now_s(), clock.steady_s()
    await clock.sleep(-1)

    assert clock.now_s() >= wall_s > 1_700_000_000
    assert clock.steady_s() >= steady_s


def test_in_virtual_time_a_day_passes_on_both_clocks() -> None:
    async def sleep_a_day() -> tuple[float, float]:
        clock = LoopClock(1_000_000)
        await clock.sleep(86_400)
        return clock.now_s(), clock.steady_s()

    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        assert runner.run(sleep_a_day()) == (1_086_400, 86_400)
