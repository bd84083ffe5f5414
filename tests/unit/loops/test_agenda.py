"""The agenda: soonest first, and no larger than what counts asks for."""

from fencepost.loops.agenda import UNSWEPT_MIN, Agenda


def test_what_counts_is_taken_when_its_time_has_come_the_soonest_first() -> None:
    agenda = Agenda[str](lambda _, item: item != "void")
    assert [agenda.add(at_s, item) for at_s, item in ((3.0, "c"), (1.0, "a"), (2.0, "void"), (2.5, "b"))] == [
        True,
        True,
        False,
        False,
    ]
    assert agenda.next_s() == 1.0
    assert agenda.take(2.5) == [(1.0, "a"), (2.5, "b")]
    assert agenda.take(2.9) == []
    assert agenda.next_s() == 3.0


def test_entries_that_are_void_long_before_their_time_do_not_pile_up() -> None:
    live: set[int] = set()
    agenda = Agenda[int](lambda _, item: item in live)
    for number in range(20 * UNSWEPT_MIN):
        live = {number}
        agenda.add(86_400.0 + number, number)
        assert len(agenda) <= UNSWEPT_MIN
    assert agenda.take(200_000.0) == [(86_400.0 + 20 * UNSWEPT_MIN - 1, 20 * UNSWEPT_MIN - 1)]


def test_what_is_noted_twice_is_swept_down_to_one() -> None:
    agenda = Agenda[str](lambda *_: True)
    for _ in range(10 * UNSWEPT_MIN):
        agenda.add(5.0, "same")
    assert len(agenda) <= UNSWEPT_MIN
