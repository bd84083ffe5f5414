"""Trust windows, silence and the steps of a shard, with no I/O: the driver's watch and the warden's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.lease import (
    CLOSED,
    DURATION_S_MAX,
    NO_CONTACT,
    Contact,
    LeaseTimes,
    MemberRecord,
    ShardRecord,
    Step,
    is_led,
    next_epoch,
    next_step,
    silent_at_s,
    stray_at_s,
    trust_window,
)

TIMES = LeaseTimes(duration_s=10)
IN_TOUCH = Contact(since_s=0, last_s=100)


def member(duration_s: int = 10) -> MemberRecord:
    return MemberRecord(version="7", duration_s=duration_s)


def step(
    record: ShardRecord | None,
    *,
    held: int | None = None,
    holder_exists: bool = True,
    mine: bool = True,
) -> Step:
    return next_step(record, "me", held, holder_exists, mine)


# The driver.


def test_trust_counts_from_before_the_renewal_was_sent_and_ends_a_margin_early() -> None:
    window = trust_window(sent_s=100, times=TIMES)

    assert window.holds(107.9)
    assert not window.holds(108)


def test_who_has_never_renewed_is_never_trusted() -> None:
    assert not CLOSED.holds(-1e9)


@pytest.mark.parametrize("duration_s", [-1, 0, DURATION_S_MAX + 1])
def test_a_lease_too_short_for_whole_seconds_or_too_long_to_wait_for_is_refused(duration_s: int) -> None:
    with pytest.raises(ValueError, match=f"a lease of {duration_s} s is impossible: choose from 1 to 300 s"):
        LeaseTimes(duration_s)


@given(st.integers(1, DURATION_S_MAX))
def test_whatever_its_duration_a_lease_survives_one_lost_renewal(duration_s: int) -> None:
    times = LeaseTimes(duration_s)

    assert trust_window(0, times).holds(2 * times.renewal_s)
    assert times.renewal_s < times.contact_gap_s
    assert times.renewal_s + times.contact_gap_s < duration_s


# The warden.


def test_a_member_is_silent_when_its_lease_has_not_changed_for_its_whole_duration() -> None:
    assert silent_at_s(member(), seen_s=50, contact=IN_TOUCH, times=TIMES) == 60


def test_silence_is_counted_only_from_when_we_came_in_touch_ourselves() -> None:
    assert silent_at_s(member(), seen_s=50, contact=Contact(since_s=55, last_s=57), times=TIMES) == 65


@pytest.mark.parametrize(("stored_s", "want_s"), [(10, 10), (30, 30), (0, 10), (1, 10), (10**9, DURATION_S_MAX)])
def test_a_member_that_counts_longer_than_we_is_given_its_time_within_reason(stored_s: int, want_s: int) -> None:
    assert silent_at_s(member(duration_s=stored_s), seen_s=0, contact=IN_TOUCH, times=TIMES) == want_s


def test_contact_lasts_while_answers_come_often_enough_and_starts_anew_after_a_gap() -> None:
    contact = NO_CONTACT.answered(100, TIMES).answered(103, TIMES).answered(108, TIMES)
    assert contact == Contact(since_s=100, last_s=108)
    assert contact.holds(113, TIMES)
    assert not contact.holds(113.1, TIMES)

    assert contact.answered(113.1, TIMES) == Contact(since_s=113.1, last_s=113.1)


def test_a_shard_that_nobody_leads_is_astray_after_two_durations_of_contact() -> None:
    assert stray_at_s(unled_since_s=50, contact=IN_TOUCH, times=TIMES) == 70
    assert stray_at_s(unled_since_s=50, contact=Contact(since_s=55, last_s=57), times=TIMES) == 75


def test_without_an_answer_there_is_no_contact() -> None:
    assert not NO_CONTACT.holds(0, TIMES)


MOMENTS = st.floats(0, 1000)
DELAYS = st.floats(0, 60)
SPEEDS = st.floats(0.9, 1.1)


@given(sent_s=MOMENTS, stored=DELAYS, shown=DELAYS, since_s=MOMENTS, driver=SPEEDS, warden=SPEEDS)
def test_no_member_is_silent_before_its_trust_window_has_closed(
    sent_s: float, stored: float, shown: float, since_s: float, driver: float, warden: float
) -> None:
    """Whatever the delays, and with clocks of which one runs a fifth faster than the other."""
    closes_s = trust_window(sent_s * driver, TIMES).closes_s / driver
    seen_s = (sent_s + stored + shown) * warden
    silent_s = silent_at_s(member(), seen_s, Contact(since_s, seen_s), TIMES) / warden

    assert silent_s > closes_s


@given(MOMENTS, st.lists(st.floats(0, 10), max_size=20))
def test_contact_never_spans_a_gap(start_s: float, pauses_s: list[float]) -> None:
    contact, now_s, gap_ended_s = NO_CONTACT.answered(start_s, TIMES), start_s, start_s
    for pause_s in pauses_s:
        before_s, now_s = now_s, now_s + pause_s
        if now_s - before_s > TIMES.contact_gap_s:
            gap_ended_s = now_s
        contact = contact.answered(now_s, TIMES)

    assert contact == Contact(gap_ended_s, now_s)


# The place.

LED_BY_ME = ShardRecord("me", 4)
LED_BY_OTHER = ShardRecord("other", 4)
FREE = ShardRecord("", 4)
GARBLED = ShardRecord("me", None)


@pytest.mark.parametrize(
    ("record", "facts", "want"),
    [
        (LED_BY_ME, {"held": 4}, Step.KEEP),
        (LED_BY_ME, {"held": 4, "mine": False}, Step.HAND_OVER),
        (LED_BY_ME, {"held": 3}, Step.LOSE),
        (LED_BY_OTHER, {"held": 4}, Step.LOSE),
        (FREE, {"held": 4}, Step.LOSE),
        (GARBLED, {"held": 4}, Step.LOSE),
        (None, {"held": 4}, Step.LOSE),
        (None, {}, Step.MEND),
        (None, {"mine": False}, Step.WAIT),
        (GARBLED, {}, Step.MEND),
        (GARBLED, {"mine": False}, Step.WAIT),
        (FREE, {"holder_exists": False}, Step.ACQUIRE),
        (FREE, {"holder_exists": False, "mine": False}, Step.WAIT),
        (LED_BY_OTHER, {}, Step.WAIT),
        (LED_BY_OTHER, {"mine": False}, Step.WAIT),
        (LED_BY_OTHER, {"holder_exists": False}, Step.ACQUIRE),
        (LED_BY_OTHER, {"holder_exists": False, "mine": False}, Step.WAIT),
        (LED_BY_ME, {}, Step.ACQUIRE),
        (LED_BY_ME, {"mine": False}, Step.RELEASE),
    ],
)
def test_the_step_for_a_shard(record: ShardRecord | None, facts: dict[str, object], want: Step) -> None:
    assert step(record, **facts) is want  # type: ignore[arg-type]


RECORDS = st.none() | st.builds(ShardRecord, st.sampled_from(["", "me", "other"]), st.none() | st.integers(0, 5))


@given(RECORDS, st.none() | st.integers(1, 5), st.booleans())
def test_a_shard_that_a_living_member_leads_is_never_taken(
    record: ShardRecord | None, held: int | None, mine: bool
) -> None:
    if step(record, held=held, holder_exists=True, mine=mine) is Step.ACQUIRE:
        assert record is not None
        assert record.holder != "other"


@given(RECORDS, st.none() | st.integers(1, 5), st.booleans())
def test_what_we_lead_is_kept_only_if_its_lease_says_so_to_the_epoch(
    record: ShardRecord | None, held: int | None, exists: bool
) -> None:
    if step(record, held=held, holder_exists=exists) is Step.KEEP:
        assert record == ShardRecord("me", held)


def test_every_acquisition_raises_the_epoch_by_one_also_one_by_the_last_holder() -> None:
    assert next_epoch(LED_BY_ME) == next_epoch(LED_BY_OTHER) == next_epoch(FREE) == 5


@pytest.mark.parametrize(
    ("record", "holder_exists", "want"),
    [(None, False, False), (FREE, False, False), (LED_BY_OTHER, True, True), (LED_BY_OTHER, False, False)],
)
def test_a_shard_is_led_when_its_lease_names_a_member_that_is_there(
    record: ShardRecord | None, holder_exists: bool, want: bool
) -> None:
    assert is_led(record, holder_exists) is want
