"""Messages stay within what a result may hold, counted as they are stored."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api.codec import MESSAGE_BYTES_MAX
from fencepost.worker.texts import result_message

TEXTS = st.text(max_size=50) | st.sampled_from(["", "x" * 5000, "ä" * 900, "\x00" * 2000, "last words"])


@given(TEXTS, TEXTS)
def test_a_message_never_exceeds_its_limit(sentence: str, tail: str) -> None:
    assert len(orjson.dumps(result_message(sentence, tail))) <= MESSAGE_BYTES_MAX + len('""')


def test_our_own_words_are_kept_and_the_end_of_the_output_fills_the_rest() -> None:
    message = result_message("stopped at its time limit of 10m", "x" * 5000 + " last words")
    assert message.startswith("stopped at its time limit of 10m\nxxx")
    assert message.endswith("last words")
    assert len(message) == MESSAGE_BYTES_MAX - 1  # the line's end takes two bytes as JSON


def test_what_is_short_is_left_as_it_is() -> None:
    assert result_message("one", "two") == "one\ntwo"
    assert result_message("one") == "one"
    assert result_message("", "two") == "two"


def test_a_long_sentence_loses_its_end() -> None:
    assert result_message("x" * 5000) == "x" * MESSAGE_BYTES_MAX


def test_half_a_character_that_an_exception_quotes_is_no_error() -> None:
    assert result_message("no such file: \udcff") == "no such file: ?"
