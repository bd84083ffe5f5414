"""What is stored reads back, and what nobody could have stored is refused."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import codec
from fencepost.api.run_models import DAGRunStatus
from fencepost.core.intervals import IntervalSet
from fencepost.core.names import JobKey
from fencepost.core.phases import ENDED_PHASES, RunPhase
from fencepost.core.run_state import (
    Death,
    Entry,
    Lease,
    LetterSet,
    Order,
    Outcome,
    Result,
    RunState,
    TaskState,
    Waiting,
)

COUNTS = st.integers(0, 10**6)
TOKENS = st.integers(1, 10**12)
MOMENTS_S = st.integers(0, 4_102_444_800_000).map(lambda moment_ms: moment_ms / 1000)
NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
JOBS = st.builds(JobKey, NAMES, st.integers(0, 9_999))
DURATIONS_S = st.integers(0, 360_000_000_000).map(lambda span_ms: span_ms / 1000)

LEASES = st.builds(Lease, TOKENS, NAMES, st.integers(1, 100), st.integers(0, 9), MOMENTS_S)
WAITINGS = st.builds(Waiting, st.integers(1, 100), st.integers(0, 9), MOMENTS_S)
ENTRIES = st.builds(
    Entry,
    token=TOKENS,
    order=st.sampled_from(Order),
    attempt=st.integers(1, 100),
    timeout_s=st.none() | DURATIONS_S,
    grace_s=DURATIONS_S,
    revision=NAMES,
    run_uid=st.uuids().map(str),
    scheduled_s=st.integers(0, 4_102_444_800),
    params=st.dictionaries(NAMES, st.text(max_size=10), max_size=3),
    inputs=st.dictionaries(NAMES.map("tasks.{}.output".format), st.text(max_size=10), max_size=2),
)
RESULTS = st.builds(
    Result,
    token=TOKENS,
    outcome=st.sampled_from(Outcome),
    exit_code=st.none() | st.integers(-64, 255),
    started_at_s=st.none() | MOMENTS_S,
    ended_at_s=st.none() | MOMENTS_S,
    message=TEXTS,
    output=TEXTS,
)


@st.composite
def task_states(draw: st.DrawFn) -> TaskState:
    indices = draw(st.dictionaries(st.integers(0, 30), st.sampled_from(ENDED_PHASES), min_size=1))
    ended = {phase: IntervalSet.of(i for i, each in indices.items() if each is phase) for phase in indices.values()}
    return TaskState(ended, size=draw(st.none() | st.integers(0, 10_000)))


DEATHS = st.builds(
    Death,
    round=COUNTS,
    attempt=COUNTS,
    losses=COUNTS,
    outcome=st.sampled_from(["Failed", "WorkerLost", "NotStarted"]),
    exit_code=st.none() | st.integers(-64, 255),
    started_at_s=st.none() | MOMENTS_S,
    ended_at_s=st.none() | MOMENTS_S,
)
REPLAYED = st.sets(st.integers(0, 9_999), min_size=1, max_size=5).map(IntervalSet.of)

RUNS = st.builds(
    RunState,
    phase=st.sampled_from(RunPhase),
    epoch=COUNTS,
    lease_counter=COUNTS,
    round=COUNTS,
    start_s=MOMENTS_S,
    finish_s=st.none() | MOMENTS_S,
    leases=st.dictionaries(JOBS, LEASES, max_size=3),
    waiting=st.dictionaries(JOBS, WAITINGS, max_size=3),
    tasks=st.dictionaries(NAMES, task_states(), max_size=3),
    failures=st.dictionaries(JOBS, TEXTS, max_size=3),
    outputs=st.dictionaries(JOBS, TEXTS, max_size=3),
    dying=st.dictionaries(JOBS, DEATHS, max_size=3),
    replays=st.dictionaries(st.builds(LetterSet, NAMES, COUNTS), REPLAYED, max_size=3),
    done=COUNTS,
    total=COUNTS,
    reason=st.sampled_from(["", "PoolFull", "Cancelled"]),
    message=TEXTS,
)


@given(LEASES)
def test_a_lease_reads_back_token_first(lease: Lease) -> None:
    text = codec.encode_lease(lease)

    assert text.split(" ")[0] == str(lease.token)
    assert codec.decode_lease(text) == lease


@given(DEATHS)
def test_a_dying_job_reads_back(death: Death) -> None:
    assert codec.decode_death(codec.encode_death(death)) == death


@given(WAITINGS)
def test_a_waiting_job_reads_back(waiting: Waiting) -> None:
    assert codec.decode_waiting(codec.encode_waiting(waiting)) == waiting


@given(ENTRIES)
def test_an_entry_reads_back_token_first(entry: Entry) -> None:
    text = codec.encode_entry(entry)

    assert text.split(" ")[0] == str(entry.token)
    assert codec.decode_entry(text) == entry


def test_params_that_are_too_large_for_a_mailbox_are_read_from_the_run() -> None:
    entry = Entry(7, Order.RUN, 1, None, 30.0, "etl-x", "uid", 0, params={"text": "x" * 600})

    assert codec.decode_entry(codec.encode_entry(entry)).params is None


@pytest.mark.parametrize("round_", [0, 3])
def test_an_entry_whose_inputs_are_in_the_run_says_of_which_round(round_: int) -> None:
    inputs = {"tasks.a.output": "x" * 600}
    entry = Entry(7, Order.RUN, 1, None, 30.0, "etl-x", "uid", 0, params={"a": "1"}, inputs=inputs, round=round_)

    read = codec.decode_entry(codec.encode_entry(entry))

    assert (read.params, read.inputs, read.round) == (None, {}, round_)


def test_an_entry_of_an_earlier_version_is_read() -> None:
    text = '7 Run 1 600 30 etl-x 5d9f7c01 2026-11-30T13:00:00Z {"region":"eu","tasks.a.output":"a param"}'

    read = codec.decode_entry(text)

    assert (read.params, read.inputs) == ({"region": "eu", "tasks.a.output": "a param"}, {})


@given(RESULTS)
def test_a_result_reads_back_token_first(result: Result) -> None:
    text = codec.encode_result(result)

    assert text.split(" ")[0] == str(result.token)
    assert codec.decode_result(text) == result


@given(RUNS)
def test_a_run_reads_back_whole(state: RunState) -> None:
    assert codec.decode_run_status(codec.encode_run_status(state)) == state


@given(RUNS, st.integers(0, 4_102_444_800))
def test_since_when_a_run_is_suspended_reads_back(state: RunState, since_s: int) -> None:
    suspended = replace(state, finish_s=None, suspended_s=since_s)
    assert codec.decode_run_status(codec.encode_run_status(suspended)) == suspended


@given(RUNS)
def test_the_schema_takes_every_status_that_is_written(state: RunState) -> None:
    DAGRunStatus.model_validate(codec.encode_run_status(state))


@given(MOMENTS_S, st.integers(0, 10**7), st.integers(0, 10**7))
def test_a_tasks_span_reads_back_to_the_millisecond(run_start_s: float, offset_ms: int, span_ms: int) -> None:
    start_s = run_start_s + offset_ms / 1000
    task = TaskState({}, start_s, start_s + span_ms / 1000, queued_s=start_s)

    read = codec.decode_task(codec.encode_task(task, run_start_s), run_start_s)

    assert read.first_start_s == pytest.approx(task.first_start_s, abs=0.002)
    assert read.last_end_s == pytest.approx(task.last_end_s, abs=0.002)
    assert read.queued_s == pytest.approx(task.queued_s, abs=0.002)


@pytest.mark.parametrize(
    ("decode", "text"),
    [
        (codec.decode_lease, ""),
        (codec.decode_lease, "7 worker 1"),
        (codec.decode_lease, "seven worker 1 2026-11-30T13:00:00Z"),
        (codec.decode_waiting, "2"),
        (codec.decode_waiting, "2 soon"),
        (codec.decode_entry, "7 Run 1 600"),
        (codec.decode_entry, "7 Walk 1 - 30 etl-x uid 2026-11-30T13:00:00Z {}"),
        (codec.decode_entry, '7 Run 1 - 30 etl-x uid 2026-11-30T13:00:00Z {"region":1}'),
        (codec.decode_result, "7 Succeeded 0"),
        (codec.decode_result, "7 Fine 0 - -"),
        (codec.decode_result, "7 Failed 1 - - {"),
        (lambda text: codec.decode_task(text, 0.0), "Succeeded"),
        (lambda text: codec.decode_task(text, 0.0), "Happy=0-3"),
        (lambda text: codec.decode_task(text, 0.0), "@later"),
        (lambda text: codec.decode_task(text, 0.0), "queued@now"),
    ],
)
def test_what_cannot_be_read_raises_a_value_error(decode: Callable[[str], Any], text: str) -> None:
    with pytest.raises(ValueError):
        decode(text)


@pytest.mark.parametrize("garbled", [{"done": "3"}, {"phase": "Odd"}, {"leases": {"load": "x"}}, {"epoch": None}])
def test_a_garbled_status_raises_and_is_set_aside_by_its_reader(garbled: dict[str, Any]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        codec.decode_run_status(codec.encode_run_status(RunState()) | garbled)
