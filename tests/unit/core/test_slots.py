"""The free slots of workers: which is given out next, and which are left alone."""

from fencepost.core.slots import Slots
from fencepost.core.turns import ALONE, Contest, Turn

BEHIND = Contest("me", ahead=1)
"""A contest in which somebody goes before us everywhere."""


def behind(steady_s: float) -> Turn:
    return Turn(BEHIND, steady_s, yield_s=1.0)


def test_slots_count_what_is_live_and_what_is_free() -> None:
    slots = Slots()
    slots.set("a", 4, 3)
    slots.set("b", 2, 5 - 6)
    assert (slots.live, slots.free, len(slots)) == (6, 3, 2)

    slots.set("a", 4, 1)
    slots.drop("b")
    slots.drop("never-seen")
    assert (slots.live, slots.free, len(slots)) == (4, 1, 1)

    assert slots.take() == "a"
    assert slots.take() is None
    assert slots.take(critical=True) is None


def test_a_worker_gets_jobs_in_a_row_until_it_is_behind_by_a_quarter_of_its_slots() -> None:
    slots = Slots()
    for worker in ("a", "b"):
        slots.set(worker, 12, 12)
    first, *rest = (slots.take() for _ in range(12))
    other = "b" if first == "a" else "a"

    assert rest == [first] * 2 + [other] * 6 + [first] * 3


def test_a_worker_that_is_full_or_gone_ends_its_row() -> None:
    slots = Slots()
    slots.set("a", 100, 2)
    slots.set("b", 8, 1)
    assert [slots.take() for _ in range(4)] == ["a", "a", "b", None]

    slots.set("a", 100, 50)
    assert slots.take() == "a"
    slots.drop("a")
    slots.set("b", 8, 1)
    assert slots.take() == "b"


def test_two_replicas_give_out_equal_workers_in_orders_of_their_own() -> None:
    orders = []
    for replica in ("ann", "ben"):
        slots = Slots(replica)
        for number in range(8):
            slots.set(f"w{number}", 1, 1)
        orders.append([slots.take() for _ in range(8)])

    assert orders[0] != orders[1]
    assert sorted(map(str, orders[0])) == sorted(map(str, orders[1])) == [f"w{number}" for number in range(8)]


def test_what_is_anothers_turn_is_set_aside_until_it_has_stood_free_for_long_enough() -> None:
    slots = Slots()
    slots.set("a", 2, 2, steady_s=10.0)

    assert slots.take(behind(10.9)) is None
    assert (slots.free, slots.open, slots.aside) == (2, 2, 2)
    slots.look_again()
    assert slots.aside == 0
    assert slots.take(behind(11.0)) == "a"


def test_each_slot_is_counted_from_when_so_many_were_free() -> None:
    """The second came free later: one may be taken by now, and the other when as long has passed."""
    slots = Slots()
    slots.set("a", 2, 1, steady_s=10.0)
    slots.set("a", 2, 2, steady_s=10.5)

    assert slots.take(behind(11.0)) == "a"
    assert slots.take(behind(11.0)) is None
    assert (slots.free, slots.aside) == (1, 1)


def test_a_slot_that_was_filled_and_came_free_again_counts_anew() -> None:
    slots = Slots()
    for free, steady_s in [(1, 10.0), (0, 10.9), (1, 11.0)]:
        slots.set("a", 1, free, steady_s=steady_s)

    assert slots.take(behind(11.9)) is None


def test_a_slot_to_which_a_job_of_ours_is_on_its_way_is_one_of_those_that_are_ours() -> None:
    slots = Slots()
    slots.set("a", 2, 2, steady_s=10.0)
    slots.set("a", 2, 1, ours=1, steady_s=10.1)

    assert slots.take(behind(11.0)) == "a"
    slots.set("b", 2, 1, steady_s=10.0)
    slots.set("b", 2, 1, ours=1, steady_s=10.5)
    slots.drop("a")
    assert slots.take(behind(11.0)) is None


def test_in_another_contest_everything_is_looked_at_again() -> None:
    slots = Slots()
    slots.set("a", 2, 2, 1, 1)

    assert slots.take(behind(0.5)) is None
    assert slots.take(behind(0.5), critical=True) is None
    assert slots.aside == 2
    assert slots.take(ALONE, critical=True) == "a"
    assert (slots.aside, slots.open) == (0, 1)
