"""Leadership where somebody has been at the Leases by hand, or has started a replica that does not fit."""

import pytest

from fencepost.api.codec import encode_run_status
from fencepost.api.names import DAG_RUNS, LEASES
from fencepost.core.names import member_lease_name, shard_lease_name
from fencepost.core.run_state import RunState
from fencepost.loops.lease_objects import member_object, shard_object
from fencepost.loops.lease_store import LeaseStore, ShardCountError
from tests.unit.loops.leadership_stage import NAMESPACE, Stage, play


def test_a_member_whose_name_is_taken_joins_under_another() -> None:
    async def story(stage: Stage) -> None:
        await stage.admin.create(LEASES, member_object(NAMESPACE, "a-00000", stage.times, joined_s=0, now_s=0))
        a = stage.start("a")
        await stage.until(lambda: len(a.shards) == 8, limit_s=2)

        assert a.leadership.identity == "a-00001"
        await stage.until(lambda: stage.all_led_by(a), limit_s=12)

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


def test_a_member_lease_that_has_lost_its_label_counts_as_gone() -> None:
    async def story(stage: Stage) -> None:
        a, b = stage.start("a"), stage.start("b")
        await stage.until(lambda: stage.all_led_by(a, b))
        lease = await stage.admin.get(LEASES, NAMESPACE, member_lease_name("a-00000"))
        lease["metadata"]["labels"] = {}
        await stage.admin.replace(LEASES, lease)
        await stage.until(lambda: a.leadership.identity == "a-00001", limit_s=1)

        await stage.until(lambda: stage.all_led_by(a, b), limit_s=2)

    play(story)
