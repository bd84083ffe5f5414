"""What people ask of a run that has begun, read: leniently, as a run must not be set aside for a misspelled wish."""

import pytest

from fencepost.api.rounds import read_marks, read_rerun, rerun_part
from fencepost.core.intervals import IntervalSet
from fencepost.core.phases import JobPhase
from fencepost.core.run_spec import Mark, Rerun, RerunFrom


def test_without_a_word_a_round_runs_again_what_did_not_succeed() -> None:
    assert read_rerun({"round": 1}) == Rerun(RerunFrom.FAILED)


def test_what_an_earlier_round_ran_again_says_nothing_of_this_one() -> None:
    spec = {"round": 2, "rerun": {"round": 1, "from": "All"}}

    assert read_rerun(spec) == Rerun()
    assert read_rerun(spec | {"round": 1}) == Rerun(RerunFrom.ALL)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("*", None),
        ("3", [3]),
        ("0-2,7", [0, 1, 2, 7]),
        ("7, 0-2 ,1", [0, 1, 2, 7]),
        ("5-3", []),
        ("", []),
        ("many,4", [4]),
    ],
)
def test_indices_are_read_in_any_order_and_what_is_none_is_passed_over(text: str, want: list[int] | None) -> None:
    spec = {"round": 1, "rerun": {"round": 1, "from": "Jobs", "jobs": {"load": text}}}

    assert read_rerun(spec).jobs == {"load": None if want is None else IntervalSet.of(want)}


def test_an_endless_interval_ends_where_fan_outs_do() -> None:
    spec = {"round": 1, "rerun": {"round": 1, "from": "Jobs", "jobs": {"load": "9998-99999"}}}

    assert read_rerun(spec).jobs == {"load": IntervalSet.of([9998, 9999, 10000])}


def test_a_rerun_reads_back_as_it_was_sent() -> None:
    for rerun in (
        Rerun(),
        Rerun(RerunFrom.JOBS, {"load": IntervalSet.of([1, 2, 5]), "report": None}, downstream=True),
    ):
        assert read_rerun({"round": 4, "rerun": rerun_part(rerun, 4)}) == rerun


def test_marks_are_read_and_those_of_no_job_passed_over() -> None:
    by = {"phase": "Failed", "by": "eve"}
    overrides = {"load/3": by | {"round": 2}, "load": {"phase": "Succeeded"}, "a/b/c": by, "load/x": by}

    assert read_marks({"overrides": overrides}) == {
        "load/3": Mark(JobPhase.FAILED, "eve", 2),
        "load": Mark(JobPhase.SUCCEEDED),
    }
