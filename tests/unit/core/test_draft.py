"""Drafts: each move of a job is checked, and the record that was thawed stays as it was."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.draft import FAILURE_BYTES_MAX, FAILURES_KEPT, Draft
from fencepost.core.intervals import IntervalSet
from fencepost.core.names import JobKey
from fencepost.core.phases import IllegalMoveError, JobPhase
from fencepost.core.run_state import Lease, RunState, TaskState, Waiting
from tests.unit.support.builders import NOW_S, a_job, a_result, a_task

LOAD = a_task("load", count=6)
LEASE = Lease(1, "w1", 1, 0, NOW_S)
WAITING = Waiting(2, 0, NOW_S)
STATE = RunState(
    leases={a_job("load/1"): LEASE},
    waiting={a_job("load/2"): WAITING},
    tasks={"load": TaskState({JobPhase.SUCCEEDED: IntervalSet.of([0])})},
    done=1,
)


def test_idle_jobs_are_those_that_have_neither_ended_nor_ever_been_leased() -> None:
    draft = Draft(STATE)

    assert list(draft.idle(LOAD)) == [3, 4, 5]
    assert draft.idle_count(LOAD) == 3


def test_a_lease_and_a_wait_take_each_others_place_and_neither_makes_a_job_idle() -> None:
    draft = Draft(STATE)

    draft.requeue(a_job("load/1"), WAITING)
    draft.lease(a_job("load/2"), LEASE)
    draft.lease(a_job("load/3"), LEASE)

    assert draft.freeze().leases == {a_job("load/2"): LEASE, a_job("load/3"): LEASE}
    assert draft.freeze().waiting == {a_job("load/1"): WAITING}
    assert list(draft.idle(LOAD)) == [4, 5]


def test_jobs_that_end_are_counted_by_how_and_are_neither_leased_nor_idle_any_more() -> None:
    draft = Draft(STATE)

    draft.end_leased(a_job("load/1"), JobPhase.FAILED)
    draft.end_unleased(LOAD, JobPhase.CANCELLED)

    assert not draft.freeze().leases
    assert not draft.freeze().waiting
    assert [draft.total(phase) for phase in (JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED)] == [1, 1, 4]
    assert draft.freeze().done == 6
    assert draft.ended(LOAD)
    assert not draft.succeeded(LOAD)
    assert draft.idle_count(LOAD) == 0


def test_a_job_that_is_leased_is_not_ended_with_those_that_are_not() -> None:
    draft = Draft(RunState(leases={a_job("load/1"): LEASE}))

    draft.end_unleased(LOAD, JobPhase.CANCELLED)

    assert draft.freeze().tasks["load"].ended == {JobPhase.CANCELLED: IntervalSet.of([0, 2, 3, 4, 5])}
    assert draft.freeze().leases == {a_job("load/1"): LEASE}


def test_a_job_that_is_leased_cannot_be_leased_again() -> None:
    draft = Draft(STATE)

    with pytest.raises(IllegalMoveError, match="from Running to Running"):
        draft.lease(a_job("load/1"), LEASE)
    assert draft.freeze() == STATE


def test_what_was_thawed_stays_as_it_was() -> None:
    draft = Draft(STATE)
    before = (dict(STATE.leases), dict(STATE.waiting), dict(STATE.tasks))

    draft.end_leased(a_job("load/1"), JobPhase.SUCCEEDED)
    draft.end_unleased(LOAD, JobPhase.CANCELLED)
    draft.note_failure(a_job("load/1"), "Failed exit 1")

    assert (STATE.leases, STATE.waiting, STATE.tasks) == before
    assert not STATE.failures


def test_a_task_without_jobs_has_ended_and_has_not_failed() -> None:
    draft = Draft(RunState())

    assert draft.ended(a_task("none", count=0))
    assert draft.succeeded(a_task("none", count=0))


def test_a_tasks_span_goes_from_its_first_start_to_its_last_end() -> None:
    draft = Draft(RunState())
    assert draft.last_end_s(LOAD) is None

    draft.note_times("load", a_result(started_at_s=20, ended_at_s=30))
    draft.note_times("load", a_result(started_at_s=10, ended_at_s=25))
    draft.note_times("load", a_result())

    assert (draft.freeze().tasks["load"].first_start_s, draft.last_end_s(LOAD)) == (10, 30)


def test_only_the_first_failures_are_described() -> None:
    draft = Draft(RunState())
    for index in range(FAILURES_KEPT + 1):
        draft.note_failure(JobKey("load", index), "Failed exit 1", "no such file")

    assert list(draft.failures) == [JobKey("load", index) for index in range(FAILURES_KEPT)]
    assert draft.failures[JobKey("load", 0)] == "Failed exit 1: no such file"


def test_of_a_long_output_the_end_is_kept_as_it_is_there_that_programs_say_why_they_end() -> None:
    draft = Draft(RunState())
    draft.note_failure(a_job("load"), "Failed exit 1", "reading\n" * 200 + "no such file")

    assert draft.failures[a_job("load")].startswith("Failed exit 1: ")
    assert draft.failures[a_job("load")].endswith("reading\nno such file")


def test_a_failure_without_output_is_described_by_the_fact_alone() -> None:
    draft = Draft(RunState())
    draft.note_failure(a_job("load"), "TimedOut")

    assert draft.failures[a_job("load")] == "TimedOut"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=9)).map(lambda words: "".join(words) * 40))
def test_the_end_of_an_output_is_kept_within_the_limit_whatever_its_characters(output: str) -> None:
    draft = Draft(RunState())

    draft.note_failure(a_job("load"), "Failed exit 1", output)

    text = draft.failures[a_job("load")]
    tail = text.removeprefix("Failed exit 1").removeprefix(": ")
    size = len(orjson.dumps(text)) - 2
    assert output.endswith(tail)
    assert size <= FAILURE_BYTES_MAX
    assert tail == output or size > FAILURE_BYTES_MAX - 6
