"""Writers: one write in flight for each object, and whatever changes meanwhile goes into the next one. Virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import looptime
import pytest

from fencepost.apply.writers import (
    IN_FLIGHT_MAX,
    RETRY_FIRST_S,
    RETRY_MAX_S,
    WINDOW_MAX_S,
    Next,
    Turn,
    Writers,
)

WINDOW_S = 0.05


class Object:
    """Something to write, by a server that takes its time; it notes when each write began."""

    def __init__(self, writers: Writers, name: str = "a", takes_s: float = 0.0) -> None:
        self.writers = writers
        self.name = name
        self.takes_s = takes_s
        self.began_s: list[float] = []
        self.in_flight = 0
        self.ends: list[Next | float | Exception] = []
        """How the next turns end; beyond them, Rest."""

    def touch(self, **how: Any) -> None:
        self.writers.touch(self.name, self.turn, **how)

    async def turn(self) -> Next | float:
        self.began_s.append(round(now_s(), 3))
        assert self.in_flight == 0, "two writes of one object at once"
        self.in_flight += 1
        await asyncio.sleep(self.takes_s)
        self.in_flight -= 1
        end = self.ends.pop(0) if self.ends else Next.REST
        if isinstance(end, Exception):
            raise end
        return end


def now_s() -> float:
    return asyncio.get_running_loop().time()


def tell(story: Callable[[Writers], Coroutine[Any, Any, None]]) -> None:
    async def scene() -> None:
        await story(Writers(WINDOW_S))

    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(noop_cycles=0)) as runner:
        runner.run(scene())


def test_touches_within_a_window_share_one_write() -> None:
    async def story(writers: Writers) -> None:
        obj = Object(writers)
        for _ in range(5):
            obj.touch()
            await asyncio.sleep(0.009)
        await asyncio.sleep(1.0)
        assert obj.began_s == [0.05]

    tell(story)


def test_touches_during_a_write_lead_to_exactly_one_more() -> None:
    async def story(writers: Writers) -> None:
        obj = Object(writers, takes_s=1.0)
        obj.touch()
        for _ in range(9):
            await asyncio.sleep(0.1)
            obj.touch()
        await asyncio.sleep(10.0)
        assert obj.began_s == [0.05, 1.1]

    tell(story)


def test_an_urgent_touch_waits_for_no_window_and_brings_a_waiting_one_forward() -> None:
    async def story(writers: Writers) -> None:
        obj, other = Object(writers), Object(writers, "b")
        obj.touch(urgent=True)
        other.touch(after_s=30.0)
        await asyncio.sleep(0.01)
        other.touch(urgent=True)
        await asyncio.sleep(1.0)
        assert (obj.began_s, other.began_s) == ([0.0], [0.01])

    tell(story)


def test_what_can_wait_waits_for_company_and_does_not_put_off_what_came_before() -> None:
    async def story(writers: Writers) -> None:
        patient, hasty = Object(writers), Object(writers, "b")
        patient.touch(after_s=3.0)
        hasty.touch()
        hasty.touch(after_s=3.0)
        await asyncio.sleep(2.0)
        patient.touch()
        await asyncio.sleep(5.0)
        assert patient.began_s == [2.05]
        assert hasty.began_s == [0.05]

    tell(story)


def test_what_can_wait_waits_also_when_it_came_during_a_write() -> None:
    async def story(writers: Writers) -> None:
        obj = Object(writers, takes_s=1.0)
        obj.touch()
        await asyncio.sleep(0.5)
        obj.touch(after_s=3.0)
        await asyncio.sleep(10.0)
        assert obj.began_s == [0.05, 4.05]

    tell(story)


def test_a_turn_may_ask_for_another_one_later_and_a_touch_comes_sooner() -> None:
    async def story(writers: Writers) -> None:
        obj = Object(writers)
        obj.ends = [30.0, 30.0]
        obj.touch(urgent=True)
        await asyncio.sleep(10.0)
        obj.touch()
        await asyncio.sleep(60.0)
        assert obj.began_s == [0.0, 10.05, 40.05]

    tell(story)


def test_again_means_at_once() -> None:
    async def story(writers: Writers) -> None:
        obj = Object(writers, takes_s=0.5)
        obj.ends = [Next.AGAIN]
        obj.touch(urgent=True)
        await asyncio.sleep(5.0)
        assert obj.began_s == [0.0, 0.5]

    tell(story)


@pytest.mark.parametrize("failure", [Next.RETRY, RuntimeError("a mistake of ours")])
def test_what_goes_wrong_is_tried_again_with_a_back_off_that_grows_and_has_an_end(failure: Next | Exception) -> None:
    async def story(writers: Writers) -> None:
        obj = Object(writers)
        obj.ends = [failure] * 12
        obj.touch(urgent=True)
        await asyncio.sleep(300.0)
        pauses = [round(later - sooner, 3) for sooner, later in zip(obj.began_s, obj.began_s[1:], strict=False)]
        assert pauses[:3] == [RETRY_FIRST_S, 2 * RETRY_FIRST_S, 4 * RETRY_FIRST_S]
        assert pauses[-3:] == [RETRY_MAX_S] * 3
        assert len(obj.began_s) == 13

    tell(story)


def test_a_back_off_is_cut_short_by_what_is_urgent_and_by_nothing_else() -> None:
    async def story(writers: Writers) -> None:
        obj = Object(writers)
        obj.ends = [Next.RETRY] * 8
        obj.touch(urgent=True)
        await asyncio.sleep(8.0)
        tries = len(obj.began_s)
        for _ in range(20):
            await asyncio.sleep(0.1)
            obj.touch()
        assert len(obj.began_s) == tries
        obj.touch(urgent=True)
        await asyncio.sleep(0.01)
        assert len(obj.began_s) == tries + 1

    tell(story)


def test_a_success_ends_the_back_off() -> None:
    async def story(writers: Writers) -> None:
        obj = Object(writers)
        obj.ends = [Next.RETRY] * 5
        obj.touch(urgent=True)
        await asyncio.sleep(60.0)
        obj.ends = [Next.RETRY]
        obj.touch(urgent=True)
        await asyncio.sleep(RETRY_FIRST_S + 0.01)
        assert obj.began_s[-2:] == [60.0, 60.0 + RETRY_FIRST_S]

    tell(story)


def test_the_window_follows_the_server_up_to_a_limit() -> None:
    async def story(writers: Writers) -> None:
        assert writers.window_s() == WINDOW_S
        for _ in range(100):
            writers.note_latency(0.4)
        assert writers.window_s() == pytest.approx(0.4, rel=0.01)
        for _ in range(100):
            writers.note_latency(8.0)
        assert writers.window_s() == WINDOW_MAX_S
        for _ in range(200):
            writers.note_latency(0.001)
        assert writers.window_s() == WINDOW_S

    tell(story)


def test_what_people_look_at_waits_longer_the_more_is_written() -> None:
    async def story(writers: Writers) -> None:
        assert writers.patience_s(1.0, 30.0) == 1.0
        objects = [Object(writers, str(number)) for number in range(100)]
        for _ in range(200):
            for obj in objects[:25]:
                obj.touch(urgent=True)
            await asyncio.sleep(0.1)
        assert writers.patience_s(1.0, 30.0) == 30.0
        await asyncio.sleep(60.0)
        assert writers.patience_s(1.0, 30.0) == pytest.approx(1.0, abs=0.1)

    tell(story)


def test_a_burst_is_no_storm() -> None:
    async def story(writers: Writers) -> None:
        objects = [Object(writers, str(number), takes_s=1.0) for number in range(IN_FLIGHT_MAX * 2)]
        for obj in objects:
            obj.touch()
        await asyncio.sleep(0.5)
        assert sum(obj.in_flight for obj in objects) == IN_FLIGHT_MAX
        await asyncio.sleep(5.0)
        assert all(len(obj.began_s) == 1 for obj in objects)

    tell(story)


def test_a_turn_that_waited_for_its_start_sees_what_was_touched_meanwhile() -> None:
    async def story(writers: Writers) -> None:
        busy = [Object(writers, str(number), takes_s=1.0) for number in range(IN_FLIGHT_MAX)]
        for obj in busy:
            obj.touch(urgent=True)
        await asyncio.sleep(0.1)
        late = Object(writers, "late")
        late.touch(urgent=True)
        await asyncio.sleep(0.5)
        late.touch()
        await asyncio.sleep(5.0)
        assert late.began_s == [1.0]

    tell(story)


def test_closing_waits_for_what_is_in_flight_and_starts_nothing_more() -> None:
    async def story(writers: Writers) -> None:
        flying = [Object(writers, str(number), takes_s=2.0) for number in range(IN_FLIGHT_MAX)]
        queued, waiting = Object(writers, "queued"), Object(writers, "waiting")
        for obj in flying:
            obj.touch(urgent=True)
        await asyncio.sleep(0.1)
        queued.touch(urgent=True)
        waiting.touch(after_s=1.0)
        flying[0].ends = [Next.AGAIN]
        flying[1].ends = [5.0]
        await asyncio.sleep(0.5)
        flying[2].touch(urgent=True)
        await writers.close()
        assert now_s() == pytest.approx(2.0)
        waiting.touch(urgent=True)
        await asyncio.sleep(20.0)
        assert all(len(obj.began_s) == 1 for obj in flying)
        assert not queued.began_s
        assert not waiting.began_s

    tell(story)


def test_a_writer_that_rests_leaves_nothing_behind() -> None:
    async def story(writers: Writers) -> None:
        for number in range(100):
            Object(writers, str(number)).touch()
        await asyncio.sleep(1.0)
        assert not writers._writers
        assert not writers._tasks

    tell(story)


def test_the_turn_is_the_one_of_the_touch_that_made_the_writer() -> None:
    async def story(writers: Writers) -> None:
        done: list[int] = []

        def turn(number: int) -> Turn:
            async def write() -> Next:
                done.append(number)
                return Next.REST

            return write

        for number in range(3):
            writers.touch("a", turn(number))
        await asyncio.sleep(1.0)
        writers.touch("a", turn(9))
        await asyncio.sleep(1.0)
        assert done == [0, 9]

    tell(story)
