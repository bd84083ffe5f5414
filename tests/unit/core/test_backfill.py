"""Which slots a backfill deals with, in which way, whenever it is begun or begun again."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.backfill import Act, Reprocess, SlotRun, Step, plan_backfill
from fencepost.core.phases import RunPhase

SLOTS = [100, 200, 300, 400]
DONE, BROKEN, BUSY = SlotRun(RunPhase.SUCCEEDED), SlotRun(RunPhase.FAILED), SlotRun(RunPhase.RUNNING)


def acts(found: Mapping[int, SlotRun], reached_s: int | None = None, reprocess: Reprocess = Reprocess.NONE) -> str:
    """The first letters of what is done about each of four slots."""
    return "".join(step.act[0] for step in plan_backfill(SLOTS, found, reached_s, reprocess))


def test_each_slot_without_a_run_gets_one_oldest_first() -> None:
    assert list(plan_backfill([100, 200], {}, None, Reprocess.NONE)) == [Step(100, Act.CREATE), Step(200, Act.CREATE)]


def test_a_slot_whose_run_exists_is_not_run_twice() -> None:
    found = {100: DONE, 200: BROKEN, 300: BUSY}
    assert acts(found) == "lllc"
    whys = [step.why for step in plan_backfill(SLOTS, found, None, Reprocess.NONE)]
    assert whys == ["it has succeeded", "it has failed", "it is under way", ""]


def test_reprocessing_asks_for_the_next_round_of_what_has_ended() -> None:
    found = {100: DONE, 200: SlotRun(RunPhase.CANCELLED, round=2), 300: BUSY}
    assert acts(found, reprocess=Reprocess.FAILED) == "lrlc"
    assert acts(found, reprocess=Reprocess.ALL) == "rrlc"
    assert [step.round for step in plan_backfill(SLOTS, found, None, Reprocess.ALL)] == [1, 3, 0, 0]


def test_a_round_that_somebody_has_asked_for_is_not_asked_for_again() -> None:
    assert acts({100: SlotRun(RunPhase.FAILED, round=1, round_due=True)}, reprocess=Reprocess.ALL) == "lccc"


def test_begun_again_it_follows_its_own_runs_and_goes_on_after_the_latest() -> None:
    found = {200: SlotRun(RunPhase.FAILED, ours=True), 300: SlotRun(RunPhase.RUNNING, ours=True)}
    for reprocess in Reprocess:
        assert acts(found, 300, reprocess) == "llfc", "what it has dealt with, it does not deal with again"
    [deleted, *_] = plan_backfill(SLOTS, found, 300, Reprocess.NONE)
    assert deleted.why == "dealt with before, and deleted since"


@given(st.sets(st.integers(1, 50)), st.lists(st.integers(0, 3), max_size=12), st.data())
def test_however_often_it_is_interrupted_no_slot_is_run_twice(
    slots: set[int], lives: list[int], data: st.DataObject
) -> None:
    """Each life takes so many steps; in between, runs that have ended are deleted, but for the latest."""
    found: dict[int, SlotRun] = {}
    created: list[int] = []
    for steps in [*lives, len(slots)]:
        reached_s = max(found, default=None)
        plan = plan_backfill(sorted(slots), dict(found), reached_s, Reprocess.NONE)
        for step in [step for step in plan if step.act is Act.CREATE][:steps]:
            created.append(step.slot_s)
            found[step.slot_s] = SlotRun(RunPhase.SUCCEEDED, ours=True)
        for slot_s in data.draw(st.sets(st.sampled_from(sorted(found)))) - {max(found)} if found else ():
            del found[slot_s]
    assert created == sorted(slots)
