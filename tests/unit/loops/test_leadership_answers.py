"""Leadership where answers are late or lost, watches lag, and the API server is away for one or for all."""

from collections import Counter

import pytest

from fencepost.api.names import LEASES
from fencepost.core.names import member_lease_name, shard_lease_name
from fencepost.kube.errors import ConnectionLostError, UnreachableError
from fencepost.memory.faults import Fault, Request
from tests.unit.loops.leadership_stage import NAMESPACE, Stage, play


def test_an_acquisition_whose_answer_comes_after_its_replica_was_fenced_is_nobodys() -> None:
    async def story(stage: Stage) -> None:
        def slow_answer(name: str, request: Request) -> Fault | None:
            return Fault(answer_delay_s=3) if request.verb == "update" and request.name == shard_lease_name(3) else None

        fast_again = stage.trouble(slow_answer)
        a = stage.start("a")
        await stage.until(lambda: len(a.shards) == 15)
        fast_again()
        await stage.admin.delete(LEASES, NAMESPACE, member_lease_name("a-00000"))
        await stage.until(lambda: stage.all_led_by(a), limit_s=5)

        assert a.leadership.identity == "a-00001"
        assert a.epochs[3] == [2]

    play(story)


def test_a_write_that_hangs_holds_up_one_shard_for_a_few_seconds() -> None:
    async def story(stage: Stage) -> None:
        hung = [Fault(answer_delay_s=1000)]

        def one_hangs(name: str, request: Request) -> Fault | None:
            return hung.pop() if hung and request.verb == "update" and request.name == shard_lease_name(3) else None

        stage.trouble(one_hangs)
        a = stage.start("a")
        await stage.until(lambda: len(a.shards) == 15, limit_s=1)
        await stage.until(lambda: a.leadership.holds(3) == 2, limit_s=6)

    play(story)


def test_a_lost_answer_to_a_renewal_costs_no_shard() -> None:
    async def story(stage: Stage) -> None:
        a = stage.start("a")
        await stage.until(lambda: stage.all_led_by(a))
        stage.lose_answers("a", "update", "fencepost-member-", 3, ConnectionLostError("connection reset"))
        for _ in range(300):
            await stage.clock.sleep(0.1)
            assert stage.all_led_by(a)

        assert await stage.epochs() == [1] * 16

    play(story)


def test_a_lost_answer_to_joining_makes_no_second_member() -> None:
    async def story(stage: Stage) -> None:
        stage.lose_answers("a", "create", "fencepost-member-", 1, ConnectionLostError("connection reset"))
        a = stage.start("a")
        await stage.until(lambda: stage.all_led_by(a), limit_s=2)

        assert a.leadership.identity == "a-00000"

    play(story)


def test_a_lost_answer_to_an_acquisition_makes_it_acquire_again_under_the_next_epoch() -> None:
    async def story(stage: Stage) -> None:
        stage.lose_answers("a", "update", "fencepost-shard-5", 2, ConnectionLostError("connection reset"))
        a = stage.start("a")
        await stage.until(lambda: stage.all_led_by(a), limit_s=5)

        assert a.epochs[5] == [3]
        assert a.leadership.holds(5) == 3

    play(story)


def test_a_lost_answer_to_a_release_leaves_the_shard_with_nobody_for_a_moment_only() -> None:
    async def story(stage: Stage) -> None:
        a = stage.start("a")
        await stage.until(lambda: stage.all_led_by(a))
        stage.lose_answers("a", "update", "fencepost-shard-", 8, ConnectionLostError("connection reset"))
        b = stage.start("b")
        await stage.until(lambda: stage.all_led_by(a, b), limit_s=3)

    play(story)


def test_an_api_server_that_is_down_for_everybody_costs_nobody_a_shard() -> None:
    async def story(stage: Stage) -> None:
        a, b = stage.start("a"), stage.start("b")
        await stage.until(lambda: stage.all_led_by(a, b))
        names = (a.leadership.identity, b.leadership.identity)
        epochs = await stage.epochs()
        up_again = stage.outage("a", "b")
        await stage.until(lambda: not a.shards and not b.shards, limit_s=9)
        await stage.clock.sleep(120)
        up_again()
        await stage.until(lambda: stage.all_led_by(a, b), limit_s=2)
        await stage.clock.sleep(30)

        assert (a.leadership.identity, b.leadership.identity) == names
        assert await stage.epochs() == epochs

    play(story)


def test_after_an_outage_a_member_that_comes_back_late_still_has_its_full_time() -> None:
    async def story(stage: Stage) -> None:
        a, b = stage.start("a"), stage.start("b")
        await stage.until(lambda: stage.all_led_by(a, b))
        name = a.leadership.identity
        a_back, b_back = stage.outage("a"), stage.outage("b")
        await stage.clock.sleep(60)
        b_back()
        await stage.clock.sleep(8)
        a_back()
        await stage.until(lambda: stage.all_led_by(a, b), limit_s=2)

        assert a.leadership.identity == name

    play(story)


def test_a_replica_that_is_cut_off_alone_stops_acting_before_its_shards_are_taken() -> None:
    async def story(stage: Stage) -> None:
        a, b = stage.start("a"), stage.start("b")
        await stage.until(lambda: stage.all_led_by(a, b))
        stage.outage("a")
        stopped_s = await stage.until(lambda: not a.shards, limit_s=9)
        taken_s = stopped_s + await stage.until(lambda: stage.all_led_by(b), limit_s=12)

        assert taken_s >= stopped_s + stage.times.margin_s

    play(story)


def test_an_answer_that_comes_late_buys_no_time() -> None:
    async def story(stage: Stage) -> None:
        sent_s: list[float] = []

        def late_then_none(name: str, request: Request) -> Fault | None:
            if request.verb != "update":
                return None
            sent_s.append(stage.clock.steady_s())
            return Fault(answer_delay_s=2.9) if len(sent_s) == 1 else Fault(error=UnreachableError("refused"))

        a = stage.start("a")
        await stage.until(lambda: stage.all_led_by(a))
        stage.trouble(late_then_none)
        await stage.until(lambda: not a.shards)

        assert stage.clock.steady_s() == pytest.approx(sent_s[0] + 10 - 2, abs=0.05)

    play(story)


def test_a_watch_that_lags_makes_nobody_write_twice() -> None:
    async def story(stage: Stage) -> None:
        stage.trouble(lambda name, request: Fault(delay_s=0.05) if request.verb == "event" else None)
        a = stage.start("a")
        await stage.until(lambda: stage.all_led_by(a))
        b = stage.start("b")
        await stage.until(lambda: stage.all_led_by(a, b))
        await stage.clock.sleep(5)

        shards = [request for _, request in stage.requests if request.name.startswith(shard_lease_name(0)[:-1])]
        writes = Counter(request.verb for request in shards if request.verb in ("create", "update"))
        assert writes == {"create": 16, "update": 16 + 8 + 8}

    play(story)


def test_a_watch_that_has_gone_quiet_fences_nobody() -> None:
    """Half open: no event comes, yet requests are answered. The deletion names a version that has moved on."""

    async def story(stage: Stage) -> None:
        a, b = stage.start("a"), stage.start("b")
        await stage.until(lambda: stage.all_led_by(a, b))
        epochs = await stage.epochs()
        stage.trouble(lambda name, request: Fault(delay_s=1e6) if name == "b" and request.verb == "event" else None)
        await stage.clock.sleep(60)

        assert stage.all_led_by(a, b)
        assert await stage.epochs() == epochs

    play(story)
