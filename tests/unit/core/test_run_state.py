"""What a run records of one task."""

from fencepost.core.intervals import IntervalSet
from fencepost.core.phases import JobPhase
from fencepost.core.run_state import TaskState

STATE = TaskState({JobPhase.SUCCEEDED: IntervalSet.of([0, 1, 2]), JobPhase.FAILED: IntervalSet.of([4])})


def test_a_task_counts_its_ended_jobs_by_how_they_ended() -> None:
    assert STATE.ended_count == 4
    assert STATE.count(JobPhase.SUCCEEDED) == 3
    assert STATE.count(JobPhase.CANCELLED) == 0


def test_a_job_has_the_phase_in_which_it_ended_and_none_before() -> None:
    assert [STATE.phase_of(index) for index in (2, 3, 4)] == [JobPhase.SUCCEEDED, None, JobPhase.FAILED]
