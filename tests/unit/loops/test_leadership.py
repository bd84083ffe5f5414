"""Who leads which shard, told as stories: taking, handing over, taking over from the dead, the frozen and the hung."""

from collections import Counter

import pytest

from fencepost.kube.errors import ForbiddenError
from fencepost.memory.faults import Fault, Request
from tests.unit.loops.leadership_stage import Stage, play


def test_a_lone_replica_leads_every_shard_under_epoch_one() -> None:
    async def story(stage: Stage) -> None:
        a = stage.start("a")
        await stage.until(lambda: stage.all_led_by(a), limit_s=1)

        assert [a.leadership.holds(shard) for shard in range(16)] == [1] * 16
        assert await stage.epochs() == [1] * 16

    play(story)


def test_a_second_replica_is_handed_half_of_the_shards_within_a_second() -> None:
    async def story(stage: Stage) -> None:
        a = stage.start("a")
        await stage.until(lambda: stage.all_led_by(a))
        b = stage.start("b")
        await stage.until(lambda: stage.all_led_by(a, b), limit_s=1)

        assert len(b.shards) == 8
        assert {a.released[shard] for shard in b.shards} == {1}
        assert all(b.epochs[shard] == [2] for shard in b.shards)

    play(story)


def test_from_one_replica_to_five_and_back_every_shard_is_led_and_few_move() -> None:
    async def story(stage: Stage) -> None:
        names = ["a", "b", "c", "d", "e"]
        started = [stage.start("a")]
        await stage.until(lambda: stage.all_led_by(*started))
        for name in names[1:]:
            started.append(stage.start(name))
            await stage.until(lambda: stage.all_led_by(*started), limit_s=2)
        while len(started) > 1:
            await started.pop(0).stop()
            await stage.until(lambda: stage.all_led_by(*started), limit_s=2)

        moved = sum(epoch - 1 for epoch in await stage.epochs())
        must = (8 + 5 + 4 + 3) * 2
        assert must <= moved < 2 * must

    play(story)


def test_a_killed_leaders_shards_are_led_again_within_eleven_seconds_under_the_next_epoch() -> None:
    async def story(stage: Stage) -> None:
        a, b = stage.start("a"), stage.start("b")
        await stage.until(lambda: stage.all_led_by(a, b))
        await stage.clock.sleep(7)
        orphans = set(a.shards)
        epochs = await stage.epochs()
        await a.kill()
        took_s = await stage.until(lambda: stage.all_led_by(b), limit_s=11)

        assert took_s > 10 - 3, "nobody is given up before its lease has ended"
        assert [new - old for old, new in zip(epochs, await stage.epochs(), strict=True)] == [
            int(shard in orphans) for shard in range(16)
        ]

    play(story)


def test_a_replica_that_starts_after_a_crash_waits_for_the_dead_ones_lease() -> None:
    async def story(stage: Stage) -> None:
        a = stage.start("a")
        await stage.until(lambda: stage.all_led_by(a))
        await a.kill()
        b = stage.start("b")

        assert await stage.until(lambda: stage.all_led_by(b), limit_s=11) >= 10

    play(story)


def test_a_clean_stop_hands_over_at_once() -> None:
    async def story(stage: Stage) -> None:
        a, b = stage.start("a"), stage.start("b")
        await stage.until(lambda: stage.all_led_by(a, b))
        a.drain_s = 0.4
        await a.stop()

        assert await stage.until(lambda: stage.all_led_by(b)) < 0.1
        assert a.leadership.held == {}

    play(story)


def test_a_clean_stop_of_a_scheduler_that_hangs_takes_a_second_and_no_longer() -> None:
    async def story(stage: Stage) -> None:
        a, b = stage.start("a"), stage.start("b")
        await stage.until(lambda: stage.all_led_by(a, b))
        a.drain_s = 1000
        started_s = stage.clock.steady_s()
        await a.stop()

        assert stage.clock.steady_s() - started_s == pytest.approx(1.0, abs=0.1)
        await stage.until(lambda: stage.all_led_by(b), limit_s=0.1)

    play(story)


def test_a_clean_stop_without_an_api_server_ends_all_the_same() -> None:
    async def story(stage: Stage) -> None:
        a = stage.start("a")
        await stage.until(lambda: stage.all_led_by(a))
        stage.outage("a")
        started_s = stage.clock.steady_s()
        await a.stop()

        assert stage.clock.steady_s() - started_s < 2

    play(story)


def test_a_shard_is_let_go_only_when_its_scheduler_has_stopped_acting_for_it() -> None:
    async def story(stage: Stage) -> None:
        a = stage.start("a")
        await stage.until(lambda: stage.all_led_by(a))
        a.drain_s = 0.5
        b = stage.start("b")
        await stage.until(lambda: sum(a.released.values()) == 8)
        moving = set(a.released)

        assert all(a.leadership.holds(shard) == 1 for shard in moving), "what is under way may be finished"
        assert await stage.until(lambda: b.shards == moving) > 0.4

    play(story)


def test_a_frozen_leader_wakes_up_leading_nothing_and_comes_back_under_another_name() -> None:
    async def story(stage: Stage) -> None:
        a, b = stage.start("a"), stage.start("b")
        await stage.until(lambda: stage.all_led_by(a, b))
        before, was = a.leadership.identity, set(a.shards)
        a.freeze()
        await stage.until(lambda: stage.all_led_by(b), limit_s=12)
        await stage.clock.sleep(50)
        a.thaw()

        assert [a.leadership.holds(shard) for shard in was] == [None] * len(was)
        await stage.until(lambda: stage.all_led_by(a, b), limit_s=3)
        assert a.leadership.identity != before
        assert all(a.released[shard] == 1 for shard in was)
        assert all(a.leadership.holds(shard) == b.epochs[shard][-1] + 1 for shard in a.shards)

    play(story)


def test_a_replica_whose_scheduler_hangs_is_not_renewed_and_loses_its_shards() -> None:
    async def story(stage: Stage) -> None:
        a, b = stage.start("a"), stage.start("b")
        await stage.until(lambda: stage.all_led_by(a, b))
        a.progressing = False
        await stage.until(lambda: stage.all_led_by(b), limit_s=14)
        a.progressing = True
        await stage.until(lambda: stage.all_led_by(a, b), limit_s=3)

    play(story)


def test_a_scheduler_that_moves_again_in_time_keeps_its_shards() -> None:
    async def story(stage: Stage) -> None:
        a, b = stage.start("a"), stage.start("b")
        await stage.until(lambda: stage.all_led_by(a, b))
        epochs = await stage.epochs()
        a.progressing = False
        await stage.clock.sleep(6)
        a.progressing = True
        await stage.clock.sleep(30)

        assert stage.all_led_by(a, b)
        assert await stage.epochs() == epochs

    play(story)


def test_a_shard_that_its_leader_cannot_take_is_taken_by_another_after_two_durations() -> None:
    async def story(stage: Stage) -> None:
        def refused(name: str, request: Request) -> Fault | None:
            hit = name == "a" and request.verb in ("create", "update") and request.name.startswith("fencepost-shard-")
            return Fault(error=ForbiddenError("not yours")) if hit and request.name != "fencepost-shard-0" else None

        a, b = stage.start("a"), stage.start("b")
        back_to_normal = stage.trouble(refused)
        await stage.until(lambda: len(b.shards) >= 15, limit_s=25)
        await stage.clock.sleep(30)
        assert len(b.shards) >= 15, "it keeps them"

        back_to_normal()
        c = stage.start("c")
        await stage.until(lambda: stage.all_led_by(a, b, c), limit_s=5)

    play(story)


def test_two_idle_replicas_write_less_than_once_a_second() -> None:
    async def story(stage: Stage) -> None:
        a, b = stage.start("a"), stage.start("b")
        await stage.until(lambda: stage.all_led_by(a, b))
        stage.requests.clear()
        await stage.clock.sleep(60)

        writes = [request for _, request in stage.requests if request.verb not in ("event", "watch", "list")]
        assert {request.verb for request in writes} == {"update"}
        assert 38 <= len(writes) <= 42

    play(story)


def test_a_leader_whose_clock_is_wrong_is_not_overtaken_while_it_brings_to_an_end_what_is_under_way() -> None:
    """The referee looks on."""

    async def story(stage: Stage) -> None:
        a, b = stage.start("a"), stage.start("b")
        await stage.until(lambda: stage.all_led_by(a, b))
        await stage.clock.sleep(5)
        want_released = a.released + Counter(a.shards)
        a.drain_s = 0.9
        a.clock_right = False
        took_s = await stage.until(lambda: stage.all_led_by(b), limit_s=6)
        assert took_s > 0.9
        await stage.clock.sleep(60)
        assert stage.all_led_by(b)
        assert a.released == want_released
        a.clock_right = True
        await stage.until(lambda: stage.all_led_by(a, b), limit_s=6)

    play(story)


def test_a_replica_whose_clock_is_wrong_leads_only_after_the_last_one_that_was_right_has_gone() -> None:
    async def story(stage: Stage) -> None:
        a, b = stage.start("a"), stage.start("b")
        a.clock_right = False
        await stage.until(lambda: stage.all_led_by(b))
        await stage.clock.sleep(60)
        assert stage.all_led_by(b)
        await b.kill()
        await stage.until(lambda: stage.all_led_by(a), limit_s=12)
        assert not a.leadership.clock_right_somewhere
        c = stage.start("c")
        await stage.until(lambda: stage.all_led_by(c), limit_s=6)
        assert a.leadership.clock_right_somewhere

    play(story)
