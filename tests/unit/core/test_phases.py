"""The two tables of moves, compared with every pair of phases."""

from itertools import product

import pytest

from fencepost.core.phases import (
    ENDED_PHASES,
    JOB_MOVES,
    RUN_MOVES,
    IllegalMoveError,
    JobPhase,
    RunPhase,
    move_job,
    move_run,
)

LEGAL_RUN_MOVES = {
    *product([RunPhase.PENDING], [RunPhase.RUNNING, RunPhase.SUCCEEDED, RunPhase.FAILED, RunPhase.CANCELLED]),
    *product([RunPhase.RUNNING], [RunPhase.SUCCEEDED, RunPhase.FAILED, RunPhase.CANCELLED]),
}


@pytest.mark.parametrize(("old", "new"), list(product(RunPhase, RunPhase)))
def test_a_run_goes_only_forward_and_may_stay(old: RunPhase, new: RunPhase) -> None:
    if old is new or (old, new) in LEGAL_RUN_MOVES:
        assert move_run(old, new) is new
    else:
        with pytest.raises(IllegalMoveError, match=f"a run cannot go from {old} to {new}"):
            move_run(old, new)


@pytest.mark.parametrize(("old", "new"), list(product(JobPhase, JobPhase)))
def test_a_job_moves_as_the_table_says_and_staying_is_no_move(old: JobPhase, new: JobPhase) -> None:
    if new in JOB_MOVES[old]:
        assert move_job(old, new) is new
    else:
        with pytest.raises(IllegalMoveError, match=f"a job cannot go from {old} to {new}"):
            move_job(old, new)


def test_a_job_runs_only_from_the_queue_and_succeeds_only_from_running() -> None:
    assert [old for old in JobPhase if JobPhase.RUNNING in JOB_MOVES[old]] == [JobPhase.QUEUED]
    assert [old for old in JobPhase if JobPhase.SUCCEEDED in JOB_MOVES[old]] == [JobPhase.RUNNING]


def test_what_has_ended_does_not_move() -> None:
    assert [phase for phase in JobPhase if phase.ended] == [phase for phase in JobPhase if not JOB_MOVES[phase]]
    assert [phase for phase in JobPhase if phase.ended] == list(ENDED_PHASES)
    assert [phase for phase in RunPhase if phase.finished] == [phase for phase in RunPhase if not RUN_MOVES[phase]]
