"""Sleep until it rings or a time has come."""

import asyncio

import looptime

from fencepost.base.alarm import Alarm
from fencepost.base.clock import LoopClock


async def slept_s(limit_s: float | None, *, rung_before: bool = False, rung_after_s: float | None = None) -> float:
    clock = LoopClock(0)
    alarm = Alarm(clock)
    if rung_before:
        alarm.ring()
        alarm.ring()
    if rung_after_s is not None:
        asyncio.get_running_loop().call_later(rung_after_s, alarm.ring)
    await alarm.wait(limit_s)
    return clock.steady_s()


def in_virtual_time(limit_s: float | None, *, rung_before: bool = False, rung_after_s: float | None = None) -> float:
    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        return runner.run(slept_s(limit_s, rung_before=rung_before, rung_after_s=rung_after_s))


def test_it_wakes_when_the_time_has_come() -> None:
    assert in_virtual_time(7) == 7


def test_it_wakes_when_it_rings_first() -> None:
    assert in_virtual_time(7, rung_after_s=3) == 3


def test_without_a_limit_it_waits_for_the_ring() -> None:
    assert in_virtual_time(None, rung_after_s=1000) == 1000


def test_a_ring_from_before_is_not_lost() -> None:
    assert in_virtual_time(7, rung_before=True) == 0


def test_rings_from_before_count_as_one() -> None:
    async def twice() -> float:
        clock = LoopClock(0)
        alarm = Alarm(clock)
        alarm.ring()
        alarm.ring()
        await alarm.wait(5)
        await alarm.wait(5)
        return clock.steady_s()

    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        assert runner.run(twice()) == 5
