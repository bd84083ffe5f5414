"""What a mailbox becomes: stories, and the laws against any mailbox."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.plan_workers import (
    MailboxPlan,
    Put,
    answered,
    busy_change,
    busy_slots,
    order_of,
    plan_mailbox,
    token_of,
)
from fencepost.core.worker_record import MAILBOX_ENTRIES_MAX

KEYS = st.sampled_from([f"k{number}" for number in range(8)])
TOKENS = st.integers(1, 6)
ENTRIES = st.dictionaries(KEYS, st.builds("{} {} 1".format, TOKENS, st.sampled_from(["Run", "Stop"])))
Mailbox = tuple[dict[str, str], dict[str, str]]
"""Entries and results, as they are stored."""
PUTS = st.dictionaries(
    KEYS, st.builds(lambda token, order: Put(token, f"{token} {order} 1"), TOKENS, st.sampled_from(["Run", "Stop"]))
)
REMOVALS = st.dictionaries(KEYS, TOKENS)
Wishes = tuple[dict[str, Put], dict[str, int]]
"""Puts and removals."""


@st.composite
def wishes(draw: st.DrawFn) -> Wishes:
    """Any puts and removals, but none to put what is to be taken away."""
    puts, removals = draw(PUTS), draw(REMOVALS)
    return {key: put for key, put in puts.items() if put.token > removals.get(key, 0)}, removals


@st.composite
def mailboxes(draw: st.DrawFn) -> Mailbox:
    """Any entries, with such results as the API server lets stand: of an entry that is there, of no later token."""
    leases = draw(ENTRIES)
    answers = {key: draw(st.sampled_from([None, token_of(text), token_of(text) - 1])) for key, text in leases.items()}
    return leases, {key: f"{token} Succeeded" for key, token in answers.items() if token is not None}


def plan(
    leases: Mapping[str, str],
    *,
    results: Mapping[str, str] | None = None,
    slots: int = 1,
    puts: Mapping[str, str] | None = None,
    removals: Mapping[str, int] | None = None,
    critical: str = "",
    reserved: int = 0,
) -> MailboxPlan:
    """A plan in which nothing happens unless it is said. `critical`: keys of one letter, of entries and of puts."""
    wishes = {key: Put(token_of(text), text, key in critical) for key, text in (puts or {}).items()}
    marked = frozenset(critical) & leases.keys()
    return plan_mailbox(leases, results or {}, slots, wishes, removals or {}, critical=marked, reserved=reserved)


# Stories.


def test_a_lease_is_delivered_to_a_free_slot() -> None:
    assert plan({}, puts={"a": "1 Run"}) == MailboxPlan({"a": "1 Run"}, changed=True)


def test_a_lease_that_finds_every_slot_taken_is_refused() -> None:
    assert plan({"a": "1 Run"}, puts={"b": "1 Run"}) == MailboxPlan({"a": "1 Run"}, changed=False, refused=("b",))


def test_a_result_frees_the_slot_before_its_entry_has_gone() -> None:
    found = plan({"a": "1 Run"}, results={"a": "1 Succeeded"}, puts={"b": "1 Run"})

    assert found.leases == {"a": "1 Run", "b": "1 Run"}


def test_a_result_of_an_older_lease_frees_nothing() -> None:
    assert plan({"a": "2 Run"}, results={"a": "1 Succeeded"}, puts={"b": "1 Run"}).refused == ("b",)


def test_a_slot_freed_by_a_removal_is_filled_in_the_same_write() -> None:
    found = plan({"a": "1 Run"}, puts={"b": "1 Run"}, removals={"a": 1})

    assert found == MailboxPlan({"b": "1 Run"}, changed=True)


def test_an_entry_under_a_later_token_is_not_taken_away() -> None:
    assert plan({"a": "2 Run"}, removals={"a": 1}) == MailboxPlan({"a": "2 Run"}, changed=False)


def test_a_job_is_told_to_stop_under_the_token_it_runs_under() -> None:
    assert plan({"a": "1 Run"}, puts={"a": "1 Stop"}).leases == {"a": "1 Stop"}


def test_a_delivery_that_comes_late_does_not_replace_a_later_one() -> None:
    assert plan({"a": "2 Run"}, puts={"a": "1 Run"}) == MailboxPlan({"a": "2 Run"}, changed=False)


def test_a_delivery_that_comes_late_waits_until_the_later_entry_has_gone() -> None:
    assert plan({"a": "2 Run"}, puts={"a": "1 Run"}, removals={"a": 2}) == MailboxPlan({}, changed=True)


def test_a_later_lease_of_a_job_takes_the_slot_of_the_one_it_replaces() -> None:
    assert plan({"a": "1 Run"}, puts={"a": "2 Run"}) == MailboxPlan({"a": "2 Run"}, changed=True)


def test_a_later_lease_of_a_job_that_has_ended_needs_a_slot_like_any_other() -> None:
    ended = {"a": "1 Run"}
    results = {"a": "1 Failed"}

    assert plan(ended, results=results, puts={"a": "2 Run"}).leases == {"a": "2 Run"}
    assert plan({**ended, "b": "1 Run"}, results=results, puts={"a": "2 Run"}).refused == ("a",)


def test_a_mailbox_that_holds_too_much_takes_nothing_new_but_still_changes() -> None:
    full = {f"k{number}": "1 Run" for number in range(MAILBOX_ENTRIES_MAX)}
    results = dict.fromkeys(full, "1 Succeeded")

    assert plan(full, results=results, slots=32, puts={"x": "1 Run"}).refused == ("x",)
    assert plan(full, results=results, slots=32, puts={"k0": "2 Run"}).leases == {**full, "k0": "2 Run"}


def test_a_mailbox_fuller_than_its_slots_still_takes_a_stop() -> None:
    found = plan({"a": "1 Run", "b": "1 Run"}, puts={"a": "1 Stop", "b": "2 Run", "c": "1 Run"})

    assert found == MailboxPlan({"a": "1 Stop", "b": "2 Run"}, changed=True, refused=("c",))


def test_a_worker_that_offers_no_slot_takes_stops_and_removals_alone() -> None:
    asked = plan({"a": "1 Run", "b": "1 Run"}, slots=0, puts={"a": "1 Stop", "c": "1 Run"}, removals={"b": 1})
    assert asked == MailboxPlan({"a": "1 Stop"}, changed=True, refused=("c",))


def test_a_slot_that_is_kept_takes_a_critical_job_and_no_other() -> None:
    taken = {"a": "1 Run"}

    assert plan(taken, slots=2, reserved=1, puts={"b": "1 Run"}).refused == ("b",)
    found = plan(taken, slots=2, reserved=1, puts={"b": "1 Run"}, critical="b")
    assert found == MailboxPlan({"a": "1 Run", "b": "1 Run"}, changed=True, critical=frozenset("b"))


def test_a_critical_job_counts_as_one_on_a_slot_that_is_kept() -> None:
    """So that the others have as many slots as were left to them."""
    found = plan({"c": "1 Run"}, slots=2, reserved=1, puts={"a": "1 Run", "b": "1 Run"}, critical="c")

    assert (found.leases, found.refused) == ({"c": "1 Run", "a": "1 Run"}, ("b",))


def test_critical_jobs_come_first_whoever_was_put_in_first() -> None:
    found = plan({}, slots=2, reserved=1, puts={"a": "1 Run", "b": "1 Run", "c": "1 Run", "d": "1 Run"}, critical="cd")

    assert (found.leases, found.refused) == ({"c": "1 Run", "d": "1 Run"}, ("a", "b"))


def test_what_runs_on_slots_that_are_to_be_kept_from_now_on_goes_on() -> None:
    found = plan({"a": "1 Run", "b": "1 Run"}, slots=3, reserved=2, puts={"c": "1 Run", "a": "1 Stop"})

    assert (found.leases, found.refused) == ({"a": "1 Stop", "b": "1 Run"}, ("c",))


def test_a_job_stays_critical_as_long_as_its_entry_stays() -> None:
    before = {"a": "1 Run", "b": "1 Run"}

    assert plan(before, slots=2, puts={"a": "1 Stop"}, removals={"b": 1}, critical="ab").critical == {"a"}
    assert plan(before, slots=2, removals={"a": 1, "b": 1}, critical="ab").critical == frozenset()


def test_an_entry_is_answered_only_under_its_own_token() -> None:
    assert answered("a", "1 Run", {"a": "1 Failed"})
    assert not answered("a", "2 Run", {"a": "1 Failed"})
    assert not answered("a", "1 Run", {"b": "1 Failed"})


def test_the_first_word_is_the_token() -> None:
    assert token_of("17 Run 1 600") == 17
    with pytest.raises(ValueError):
        token_of("Run 17")


# Laws.


@given(mailboxes(), wishes(), st.frozensets(KEYS))
def test_what_wishes_change_is_what_counting_all_entries_anew_would_tell(
    mailbox: Mailbox, wished: Wishes, but: frozenset[str]
) -> None:
    (leases, results), (puts, removals) = mailbox, wished
    after = {key: text for key, text in leases.items() if token_of(text) > removals.get(key, -1)}
    after |= {key: put.text for key, put in puts.items()}

    change = busy_change(leases, results, puts, removals, but)
    assert busy_slots(leases, results, but) + change == busy_slots(after, results, but)


@given(mailboxes(), st.integers(1, 4), wishes())
def test_no_write_takes_more_slots_than_there_are(mailbox: Mailbox, slots: int, wished: Wishes) -> None:
    (leases, results), (puts, removals) = mailbox, wished
    found = plan_mailbox(leases, results, slots, puts, removals)

    before = busy_slots({key: text for key, text in leases.items() if token_of(text) > removals.get(key, -1)}, results)
    assert busy_slots(found.leases, results) <= max(slots, before)


@given(mailboxes(), st.integers(1, 4), st.integers(0, 4), wishes(), st.frozensets(KEYS))
def test_no_write_gives_a_slot_of_the_reserve_to_a_job_that_is_not_critical(
    mailbox: Mailbox, slots: int, reserved: int, wished: Wishes, critical: frozenset[str]
) -> None:
    (leases, results), (puts, removals) = mailbox, wished
    puts = {key: Put(put.token, put.text, key in critical) for key, put in puts.items()}
    marked = critical & leases.keys()
    found = plan_mailbox(leases, results, slots, puts, removals, critical=marked, reserved=reserved)

    kept = {key: text for key, text in leases.items() if token_of(text) > removals.get(key, -1)}
    before = busy_slots(kept, results, critical)
    assert busy_slots(found.leases, results, critical) <= max(0, slots - reserved, before)
    assert found.critical == critical & found.leases.keys()
    for key in found.refused:
        full = busy_slots(found.leases, results) >= slots
        assert full or (key not in critical and busy_slots(found.leases, results, critical) >= slots - reserved)


@given(mailboxes(), st.integers(1, 4), wishes())
def test_each_put_is_delivered_refused_or_already_outdone(mailbox: Mailbox, slots: int, wished: Wishes) -> None:
    (leases, results), (puts, removals) = mailbox, wished
    found = plan_mailbox(leases, results, slots, puts, removals)

    for key, put in puts.items():
        delivered = found.leases.get(key) == put.text
        outdone = key in leases and token_of(leases[key]) > put.token
        assert delivered + outdone + (key in found.refused) == 1
    assert not found.refused or busy_slots(found.leases, results) >= slots


@given(mailboxes(), st.integers(1, 4), wishes())
def test_tokens_never_fall_and_only_what_a_removal_names_goes_away(
    mailbox: Mailbox, slots: int, wished: Wishes
) -> None:
    (leases, results), (puts, removals) = mailbox, wished
    found = plan_mailbox(leases, results, slots, puts, removals)

    for key, text in leases.items():
        if key in found.leases:
            assert token_of(found.leases[key]) >= token_of(text)
        else:
            assert token_of(text) <= removals[key]
    assert set(found.leases) <= {*leases, *puts}


@given(mailboxes(), st.integers(1, 4), wishes())
def test_the_same_wishes_change_a_mailbox_once(mailbox: Mailbox, slots: int, wished: Wishes) -> None:
    (leases, results), (puts, removals) = mailbox, wished
    found = plan_mailbox(leases, results, slots, puts, removals)
    again = plan_mailbox(found.leases, results, slots, puts, removals)

    assert (again.leases, again.changed, set(again.refused)) == (found.leases, False, set(found.refused))
    assert found.changed == (found.leases != leases)


@given(st.integers(0, 70), st.integers(0, 70), st.integers(1, 32))
def test_a_mailbox_never_grows_beyond_its_limit(present: int, added: int, slots: int) -> None:
    present = min(present, MAILBOX_ENTRIES_MAX)
    leases = {f"old{number}": "1 Run" for number in range(present)}
    results = dict.fromkeys(leases, "1 Succeeded")
    puts = {f"new{number}": Put(1, "1 Run") for number in range(added)}

    found = plan_mailbox(leases, results, slots, puts, {})

    assert len(found.leases) == min(MAILBOX_ENTRIES_MAX, present + min(added, slots))


def test_the_order_is_the_second_word_of_an_entry() -> None:
    assert order_of("7 Stop 1 600 30 etl-0123456789") == "Stop"
    assert order_of("") == ""
