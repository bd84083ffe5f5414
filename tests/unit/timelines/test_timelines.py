"""Each timeline in this folder happens as it is told."""

from pathlib import Path

import pytest

from tests.unit.timelines.play import play

TIMELINES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("timeline", TIMELINES, ids=lambda path: path.stem)
def test_it_happens_as_it_is_told(timeline: Path) -> None:
    play(timeline.read_text())


@pytest.mark.parametrize("timeline", TIMELINES, ids=lambda path: path.stem)
def test_a_token_told_otherwise_is_noticed(timeline: Path) -> None:
    told, marker, rest = timeline.read_text().rpartition(": token ")

    with pytest.raises(AssertionError, match="is not so"):
        play(f"{told}{marker}9{rest}")


def test_a_sentence_that_nobody_understands_is_refused() -> None:
    with pytest.raises(AssertionError, match="line 2: 0 meanings of 'Ann dances'"):
        play("task report\n 0 s   Ann dances")


def test_time_does_not_run_backwards() -> None:
    with pytest.raises(AssertionError, match="line 2: time runs forward"):
        play("5 s   w1 is lost\n4 s   w2 is lost")
