"""Each timeline in this folder happens as it is told."""

from pathlib import Path

import pytest

from tests.unit.loops.plays.play import play_text

TIMELINES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("timeline", TIMELINES, ids=lambda path: path.stem)
def test_it_happens_as_it_is_told(timeline: Path) -> None:
    play_text(timeline.read_text())


def test_a_sentence_that_is_not_so_is_noticed() -> None:
    with pytest.raises(AssertionError, match=r"line 3: .* is not so"):
        play_text("Ann leads\nDAG etl: load\n5 s -> etl has fired once for each of the minutes 1\n")


def test_a_sentence_without_meaning_is_noticed() -> None:
    with pytest.raises(AssertionError, match="line 1: 0 meanings"):
        play_text("Ann sings\n")
