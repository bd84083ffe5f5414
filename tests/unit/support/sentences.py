"""Timelines as text: a sentence a line, some with the moment at which they begin; lines with # are for the reader."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

Act = TypeVar("Act")

LINE = re.compile(r"^(?:(?P<seconds>[\d.]+) s\s+|(?P<time>\d{4}-\S+Z)\s+)?(?P<text>\S.*)$")


class Sentence(NamedTuple):
    """One line."""

    number: int
    seconds: float | None
    """Since the beginning, where it says so."""
    time: str | None
    """RFC 3339, where it says that."""
    text: str


def sentences(text: str) -> Iterator[Sentence]:
    """The lines that say something, in order."""
    for number, line in enumerate(text.splitlines(), start=1):
        if (match := LINE.match(line.strip())) and not line.startswith("#"):
            seconds = None if match["seconds"] is None else float(match["seconds"])
            yield Sentence(number, seconds, match["time"], match["text"])


def meaning_of(sentence: Sentence, meanings: Sequence[tuple[str, Act]]) -> tuple[Act, Sequence[str | None]]:
    """What is to be done, and with which words; AssertionError where it means nothing, or several things."""
    found = [(act, match.groups()) for pattern, act in meanings if (match := re.fullmatch(pattern, sentence.text))]
    assert len(found) == 1, f"line {sentence.number}: {len(found)} meanings of {sentence.text!r}"
    return found[0]
