"""Who leads which shard, told as stories: takeovers, handovers, outages, frozen leaders, lost answers."""

from collections import Counter

import pytest

from fencepost.api.codec import encode_run_status
from fencepost.api.names import DAG_RUNS, LEASES
from fencepost.core.names import member_lease_name, shard_lease_name
from fencepost.core.run_state import RunState
from fencepost.kube.errors import ConnectionLostError, ForbiddenError, UnreachableError
from fencepost.loops.lease_objects import member_object, shard_object
from fencepost.loops.lease_store import LeaseStore, ShardCountError
from fencepost.memory.faults import Fault, Request
from tests.unit.loops.leadership_stage import NAMESPACE, Stage, play


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


def test_a_member_whose_name_is_taken_joins_under_another() -> None:
    async def story(stage: Stage) -> None:
        await stage.admin.create(LEASES, member_object(NAMESPACE, "a-00000", stage.times, joined_s=0, now_s=0))
        a = stage.start("a")
        await stage.until(lambda: len(a.shards) == 8, limit_s=2)

        assert a.leadership.identity == "a-00001"
        await stage.until(lambda: stage.all_led_by(a), limit_s=12)

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


def test_a_replica_that_was_started_for_another_number_of_shards_refuses_and_says_which_to_use() -> None:
    async def story(stage: Stage) -> None:
        a = stage.start("a")
        await stage.until(lambda: stage.all_led_by(a))
        other = stage.start("b", shards=8)
        assert other.process is not None

        with pytest.raises(ShardCountError, match=r"fencepost-shard-0 says that this cluster has 16 .* for 8"):
            await other.process

    play(story)


def test_two_replicas_that_start_with_different_numbers_never_both_run() -> None:
    async def story(stage: Stage) -> None:
        a, b = stage.start("a", shards=16), stage.start("b", shards=8)
        assert a.process is not None
        assert b.process is not None
        await stage.clock.sleep(5)

        assert [a.process.done(), b.process.done()] == [False, True]
        with pytest.raises(ShardCountError):
            await b.process

    play(story)


def run_of_shard(shard: int, epoch: int) -> dict[str, object]:
    return {
        "apiVersion": DAG_RUNS.api_version,
        "kind": DAG_RUNS.kind,
        "metadata": {"name": "by-hand", "namespace": "default", "labels": {"fencepost.dev/shard": str(shard)}},
        "spec": {"dag": "nightly"},
        "status": encode_run_status(RunState(epoch=epoch)),
    }


@pytest.mark.parametrize(("shard", "floor", "want"), [(3, 0, 41), (3, 50, 50), (4, 0, 0), (4, 7, 7)])
def test_a_lease_that_has_to_be_made_anew_starts_at_the_highest_epoch_in_its_shards_runs(
    shard: int, floor: int, want: int
) -> None:
    """With nobody holding it, so whoever takes the shard is above all of them."""

    async def story(stage: Stage) -> None:
        await stage.admin.create(LEASES, shard_object(NAMESPACE, shard=3, shards=16, epoch=41))
        await stage.admin.create(DAG_RUNS, run_of_shard(3, epoch=41))
        store = LeaseStore(stage.admin, stage.clock, "moved-here", stage.shards)
        await store.mend(shard, None, epoch_floor=floor)

        made = await stage.admin.get(LEASES, "moved-here", shard_lease_name(shard))
        assert made["spec"] == {"leaseTransitions": want}

    play(story)


def test_a_lease_that_tells_no_epoch_is_led_all_the_same() -> None:
    async def story(stage: Stage) -> None:
        bare = shard_object(NAMESPACE, shard=7, shards=16, epoch=0)
        bare["spec"] = {}
        await stage.admin.create(LEASES, bare)
        a = stage.start("a")
        await stage.until(lambda: stage.all_led_by(a), limit_s=2)

        assert a.leadership.holds(7) == 1

    play(story)


def test_a_lease_whose_labels_were_taken_off_is_found_by_its_name() -> None:
    async def story(stage: Stage) -> None:
        a = stage.start("a")
        await stage.until(lambda: stage.all_led_by(a))
        bare = await stage.lease(7)
        bare["metadata"]["labels"] = {}
        await stage.admin.replace(LEASES, bare)
        await stage.until(lambda: a.leadership.holds(7) == 2, limit_s=3)

        assert (await stage.lease(7))["metadata"]["labels"] == {
            "fencepost.dev/role": "shard",
            "fencepost.dev/shard": "7",
        }

    play(story)


def test_a_member_lease_deleted_by_hand_stops_its_replica_at_once_and_it_joins_anew() -> None:
    async def story(stage: Stage) -> None:
        a = stage.start("a")
        await stage.until(lambda: stage.all_led_by(a))
        await stage.admin.delete(LEASES, NAMESPACE, member_lease_name(a.leadership.identity))
        await stage.until(lambda: stage.all_led_by(a) and a.leadership.holds(0) == 2, limit_s=0.1)

        assert a.leadership.identity == "a-00001"
        assert all(a.released[shard] == 1 for shard in range(16))

    play(story)


def test_a_member_lease_that_a_finalizer_keeps_from_going_counts_as_gone() -> None:
    async def story(stage: Stage) -> None:
        a, b = stage.start("a"), stage.start("b")
        await stage.until(lambda: stage.all_led_by(a, b))
        lease = await stage.admin.get(LEASES, NAMESPACE, member_lease_name(a.leadership.identity))
        lease["metadata"]["finalizers"] = ["example.com/stuck"]
        await stage.admin.replace(LEASES, lease)
        await stage.clock.sleep(10)
        assert stage.all_led_by(a, b)

        back = stage.outage("a")
        await stage.until(lambda: stage.all_led_by(b), limit_s=12)
        back()
        await stage.until(lambda: stage.all_led_by(a, b), limit_s=3)
        assert a.leadership.identity == "a-00001"

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
