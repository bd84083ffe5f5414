"""The table of leases: what is started, what is answered, and that no token of a key is ever started twice."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api.codec import decode_result
from fencepost.core.run_state import Order, Outcome, Result
from fencepost.worker import mailbox as mailbox_module
from fencepost.worker.mailbox import Action, Kill, Mailbox, Start, Stop, Unreadable
from tests.unit.worker.stage import entry, key_of

A, B, C = key_of(0), key_of(1), key_of(2)


def a_mailbox(slots: int = 10) -> Mailbox:
    return Mailbox("w-00001", slots)


def success(token: int) -> Result:
    return Result(token, Outcome.SUCCEEDED, exit_code=0, started_at_s=1.0, ended_at_s=2.0)


def starts(actions: list[Action]) -> list[tuple[str, int]]:
    return [(action.key, action.entry.token) for action in actions if isinstance(action, Start)]


def answers(mailbox: Mailbox) -> dict[str, tuple[int, Outcome]]:
    results = {key: decode_result(text) for key, text in mailbox.results().items()}
    return {key: (result.token, result.outcome) for key, result in results.items()}


def test_a_new_entry_is_started_and_its_result_held() -> None:
    mailbox = a_mailbox()
    assert starts(mailbox.read({A: entry(7)})) == [(A, 7)]
    mailbox.end(A, success(7))
    assert answers(mailbox) == {A: (7, Outcome.SUCCEEDED)}


def test_a_mailbox_that_is_read_again_asks_for_nothing_new() -> None:
    mailbox = a_mailbox()
    mailbox.read({A: entry(7), B: entry(7)})
    mailbox.end(B, success(7))
    assert mailbox.read({A: entry(7), B: entry(7)}) == []


def test_a_result_is_forgotten_when_its_entry_has_gone() -> None:
    mailbox = a_mailbox()
    mailbox.read({A: entry(7)})
    mailbox.end(A, success(7))
    assert mailbox.read({}) == []
    assert (mailbox.results(), mailbox.answers_for_all({})) == ({}, True)


def test_an_old_token_that_is_delivered_again_is_stopped_and_never_run() -> None:
    mailbox = a_mailbox()
    mailbox.read({A: entry(7)})
    mailbox.end(A, success(7))
    mailbox.read({})
    assert mailbox.read({A: entry(7)}) == []
    assert answers(mailbox) == {A: (7, Outcome.STOPPED)}


def test_a_token_below_the_highest_is_stopped_too() -> None:
    mailbox = a_mailbox()
    mailbox.read({A: entry(7)})
    mailbox.end(A, success(7))
    mailbox.read({})
    assert mailbox.read({A: entry(5)}) == []
    assert answers(mailbox) == {A: (5, Outcome.STOPPED)}


def test_a_higher_token_is_started_after_the_lower_one_has_ended() -> None:
    mailbox = a_mailbox()
    mailbox.read({A: entry(7)})
    mailbox.end(A, success(7))
    assert starts(mailbox.read({A: entry(9)})) == [(A, 9)]
    assert mailbox.results() == {}


def test_a_job_whose_lease_is_given_again_is_killed_before_the_next_starts() -> None:
    mailbox = a_mailbox()
    mailbox.read({A: entry(7)})
    actions = mailbox.read({A: entry(9)})
    assert isinstance(actions[0], Kill)
    assert starts(actions[1:]) == [(A, 9)]
    mailbox.end(A, success(7))
    assert mailbox.results() == {}, "the old job's end is no answer to the new lease"
    mailbox.end(A, success(9))
    assert answers(mailbox) == {A: (9, Outcome.SUCCEEDED)}


def test_a_job_whose_entry_has_gone_is_killed_and_nothing_said_of_it() -> None:
    mailbox = a_mailbox()
    mailbox.read({A: entry(7)})
    assert mailbox.read({}) == [Kill(A)]
    mailbox.end(A, success(7))
    assert mailbox.results() == {}


def test_a_lower_token_in_the_place_of_a_running_one_ends_the_job_and_is_stopped() -> None:
    mailbox = a_mailbox()
    mailbox.read({A: entry(7)})
    assert mailbox.read({A: entry(5)}) == [Kill(A)]
    mailbox.end(A, success(7))
    assert answers(mailbox) == {A: (5, Outcome.STOPPED)}


def test_an_order_to_stop_reaches_the_running_job_with_its_grace_period() -> None:
    mailbox = a_mailbox()
    mailbox.read({A: entry(7)})
    assert mailbox.read({A: entry(7, order=Order.STOP, grace_s=4)}) == [Stop(A, 4.0)]


def test_an_order_to_stop_what_was_never_started_is_answered_at_once() -> None:
    mailbox = a_mailbox()
    assert mailbox.read({A: entry(7, order=Order.STOP)}) == []
    assert answers(mailbox) == {A: (7, Outcome.STOPPED)}
    mailbox.read({})
    assert mailbox.read({A: entry(7)}) == [], "the token counts as seen"


def test_an_order_to_stop_what_has_ended_changes_nothing() -> None:
    mailbox = a_mailbox()
    mailbox.read({A: entry(7)})
    mailbox.end(A, success(7))
    assert mailbox.read({A: entry(7, order=Order.STOP)}) == []
    assert answers(mailbox) == {A: (7, Outcome.SUCCEEDED)}


def test_a_draining_worker_hands_back_what_is_new() -> None:
    mailbox = a_mailbox()
    mailbox.read({A: entry(7)})
    mailbox.draining = True
    assert mailbox.read({A: entry(7), B: entry(8)}) == []
    assert answers(mailbox) == {B: (8, Outcome.HANDED_BACK)}


def test_more_jobs_than_slots_are_handed_back() -> None:
    mailbox = a_mailbox(slots=2)
    assert starts(mailbox.read({A: entry(1), B: entry(1), C: entry(1)})) == [(A, 1), (B, 1)]
    assert answers(mailbox) == {C: (1, Outcome.HANDED_BACK)}


def test_a_dying_job_without_an_entry_holds_no_slot() -> None:
    mailbox = a_mailbox(slots=1)
    mailbox.read({A: entry(1)})
    assert starts(mailbox.read({B: entry(1)})) == [(B, 1)]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (A, "7 Run"),
        (A, "7 Walk 1 600 30 etl-0123456789 0a1b2c3d-x 2026-11-30T13:00:00Z {}"),
        (A, entry(7).replace(" 600 ", " nan ")),
        (A, entry(7).replace(" 30 ", " -1 ")),
        (A, entry(7).replace(" 600 ", " inf ")),
        (A, entry(7, run_uid="ffffffff-0000-4000-8000-000000000001")),
        ("no/key", entry(7)),
    ],
)
def test_a_garbled_entry_with_a_token_is_answered_as_invalid(key: str, text: str) -> None:
    mailbox = a_mailbox()
    assert starts(mailbox.read({key: text, B: entry(7)})) == [(B, 7)], "the rest goes on"
    assert answers(mailbox) == {key: (7, Outcome.INVALID)}


def test_an_entry_without_a_token_is_reported_once() -> None:
    mailbox = a_mailbox()
    assert mailbox.read({A: "rubbish"}) == [Unreadable(A, "rubbish")]
    assert mailbox.read({A: "rubbish"}) == []
    assert mailbox.results() == {}


def test_a_job_outlives_an_entry_that_is_garbled_for_a_while() -> None:
    mailbox = a_mailbox()
    mailbox.read({A: entry(7)})
    assert mailbox.read({A: "rubbish"}) == [Unreadable(A, "rubbish")]
    mailbox.end(A, success(7))
    assert mailbox.results() == {}, "the server would refuse it now"
    mailbox.read({A: entry(7)})
    assert answers(mailbox) == {A: (7, Outcome.SUCCEEDED)}


def test_a_running_job_whose_entry_keeps_only_its_token_goes_on() -> None:
    mailbox = a_mailbox()
    mailbox.read({A: entry(7)})
    assert mailbox.read({A: "7 nothing else"}) == [Unreadable(A, "7 nothing else")]


def test_a_refused_result_loses_its_texts_first_and_is_then_given_up() -> None:
    mailbox = a_mailbox()
    mailbox.read({A: entry(7)})
    mailbox.end(A, Result(7, Outcome.SUCCEEDED, 0, 1.0, 2.0, output="long"))
    assert mailbox.spoil(A, "refused")
    result = decode_result(mailbox.results()[A])
    assert (result.outcome, result.message, result.output) == (Outcome.FAILED, "refused", "")
    assert not mailbox.spoil(A, "refused")
    assert mailbox.results() == {}


def test_the_memory_of_departed_keys_is_bounded_and_forgets_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox_module, "DEPARTED_MAX", 2)
    mailbox = a_mailbox()
    for key in (A, B, C):
        mailbox.read({key: entry(1)})
        mailbox.end(key, success(1))
    mailbox.read({})
    assert starts(mailbox.read({A: entry(1), B: entry(1), C: entry(1)})) == [(A, 1)]


KEYS = st.sampled_from([A, B, C])
ENTRIES = st.one_of(
    st.builds(entry, st.integers(1, 6), order=st.sampled_from(Order)),
    st.sampled_from(["3 garbled", "rubbish"]),
)
STEPS = st.lists(st.dictionaries(KEYS, ENTRIES) | KEYS, max_size=20)


@given(STEPS)
def test_whatever_is_delivered_tokens_of_a_key_start_in_rising_order_one_at_a_time(
    steps: list[Mapping[str, str] | str],
) -> None:
    """A step is a new mailbox, or the end of the job of a key."""
    mailbox = a_mailbox()
    started: dict[str, int] = {}
    running: dict[str, int] = {}
    for step in steps:
        if isinstance(step, str):
            if step in running:
                mailbox.end(step, success(running.pop(step)))
            continue
        for action in mailbox.read(step):
            match action:
                case Kill(key):
                    mailbox.end(key, success(running.pop(key)))
                case Start(key, _, job):
                    assert key not in running, "two jobs of one key"
                    assert job.token > started.get(key, 0), "a token started twice, or out of order"
                    started[key] = running[key] = job.token
        for key, text in step.items():
            if text == "rubbish":
                continue
            token = int(text.partition(" ")[0])
            answered = key in mailbox.results() and decode_result(mailbox.results()[key]).token == token
            assert answered or running.get(key) == token, "an entry that nobody works on and nobody answers"
    assert all(running.get(key) is None or key in started for key in running)
