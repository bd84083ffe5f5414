"""Texts cut to what a result may hold. The limit is counted on the text as JSON, since that is what is stored."""

import orjson

from fencepost.api.codec import MESSAGE_BYTES_MAX

_ESCAPED_LENGTH_MAX = 6
"""Bytes that one character can become in JSON."""


def result_message(sentence: str, tail: str = "") -> str:
    """Our own words, then as much of the end of a job's output as there is room for."""
    # What an exception quotes may hold half a character.
    sentence = sentence.encode(errors="replace").decode()
    while (excess := _excess_bytes(sentence)) > 0:
        sentence = sentence[: -_surplus_length(excess)]
    while tail and (excess := _excess_bytes(_joined(sentence, tail))) > 0:
        tail = tail[_surplus_length(excess) :]
    return _joined(sentence, tail)


def _surplus_length(excess_bytes: int) -> int:
    """Characters that have to go at the least: each time fewer, until it fits."""
    return -(-excess_bytes // _ESCAPED_LENGTH_MAX)


def _joined(sentence: str, tail: str) -> str:
    return f"{sentence}\n{tail}" if sentence and tail else sentence or tail


def _excess_bytes(text: str) -> int:
    return len(orjson.dumps(text)) - len('""') - MESSAGE_BYTES_MAX
