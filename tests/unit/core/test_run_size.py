"""The size of a run's object: computed ahead, and never exceeded by the object that is sent."""

import string
from collections.abc import Iterator, Mapping
from dataclasses import replace

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.api.dag_models import LOSSES_MAX
from fencepost.api.objects import run_object
from fencepost.core.definition import FAN_OUT_MAX, RUN_BYTES_MAX, Definition, Task
from fencepost.core.draft import FAILURES_KEPT, Draft
from fencepost.core.fan_out import LISTED_JOBS_MAX
from fencepost.core.intents import Authority, CreateRun, WriteRun
from fencepost.core.intervals import IntervalSet
from fencepost.core.names import WORKER_NAME_LENGTH_MAX, DagKey, JobKey, RunKey
from fencepost.core.outputs import LIST_BYTES_MAX, OutputShelf
from fencepost.core.phases import ENDED_PHASES, JobPhase, RunPhase
from fencepost.core.plan_run import Report, RunFacts, advance_run
from fencepost.core.run_size import JOBS_OPEN_MAX, JOBS_OPEN_MIN, jobs_open_max, run_bytes_max
from fencepost.core.run_state import Lease, Outcome, RunState, TaskState, Trigger
from tests.unit.support.builders import NOW_S, RUN_UID, a_definition, a_graph, a_result, a_task

YEAR_1_S, YEAR_9999_S = -62_135_596_800.0, 253_402_300_799.0
"""What a worker without a clock, or of ill will, may say of its times."""
ATTEMPTS_MAX = 101
NOTHING_KEPT: Mapping[str, int] = {}
TOKEN_MAX = 9_999_999_999


def worst_run(
    definition: Definition, output: str = "\x01" * 1024, *, done: bool = False, kept: Mapping[str, int] = NOTHING_KEPT
) -> RunState:
    """A run at its largest: as many jobs open as may be, and those that have ended, ended alternately."""
    jobs = [JobKey(task.name, index) for task in definition.tasks for index in range(task.size)]
    open_jobs = set() if done else set(jobs[-jobs_open_max(definition, kept) :])
    draft = Draft(RunState(RunPhase.RUNNING, epoch=TOKEN_MAX, lease_counter=TOKEN_MAX, start_s=NOW_S))
    for task in definition.tasks:
        ended = {phase: IntervalSet.of(alternate(task, place, open_jobs)) for place, phase in enumerate(ENDED_PHASES)}
        queued_s = None if task.queue_timeout_s is None else YEAR_9999_S
        draft.tasks[task.name] = TaskState({p: i for p, i in ended.items() if len(i)}, YEAR_1_S, YEAR_9999_S, queued_s)
    draft.done = len(jobs) - len(open_jobs)
    worker = "w" * WORKER_NAME_LENGTH_MAX
    draft.leases = {job: Lease(TOKEN_MAX, worker, ATTEMPTS_MAX, LOSSES_MAX, NOW_S + 0.123) for job in open_jobs}
    for job in jobs[:FAILURES_KEPT]:
        draft.note_failure(job, "TimedOut exit -15", output)
    return draft.freeze()


def alternate(task: Task, place: int, open_jobs: set[JobKey]) -> Iterator[int]:
    """Every fourth index, so that no two of one phase are neighbours; Succeeded, whose name is the longest, first."""
    return (i for i in range(task.size) if i % 4 == place and JobKey(task.name, i) not in open_jobs)


def written(definition: Definition, state: RunState) -> int:
    """Bytes of the object of a run whose names are all as long as they may be."""
    authority = Authority(shard=15, epoch=TOKEN_MAX)
    dag, run = DagKey("n" * 63, "d" * 52), RunKey("n" * 63, "d" * 52 + "-1796043600")
    create = CreateRun(authority, run, dag, RUN_UID, "d" * 52 + "-mncl7txa0n", Trigger.SCHEDULE, int(NOW_S), state)
    record = run_object(create)
    record["metadata"] |= {
        "uid": RUN_UID,
        "resourceVersion": "9" * 20,
        "generation": 10**9,
        "creationTimestamp": "2026-11-30T13:00:00Z",
        "managedFields": [{}] * 1000,
    }
    record["spec"] |= {"params": dict(definition.params), "cancel": False}
    return len(orjson.dumps(run_object(WriteRun(authority, record, dag, RUN_UID, "", state))))


def planned(definition: Definition, state: RunState, *, cancelled: bool = False) -> RunState:
    """The state after a plan: phase, reason and message are the planner's."""
    facts = RunFacts(RUN_UID, TOKEN_MAX, cancelled)
    return advance_run(state, a_graph(*definition.tasks), definition, facts, NOW_S + 10**7 + 0.123).state


DEFINITIONS = st.builds(
    lambda names, counts, params: a_definition(
        *[a_task(name, count=count) for name, count in zip(names, counts, strict=False)], params=params
    ),
    st.lists(st.text(string.ascii_lowercase, min_size=1, max_size=63), min_size=1, max_size=12, unique=True),
    st.lists(st.sampled_from([None, None, 0, 1, 9, 11, 101, 150]), min_size=12, max_size=12),
    st.lists(st.tuples(st.text("ab", max_size=9), st.text(max_size=99)), unique_by=lambda p: p[0]).map(tuple),
)


@settings(max_examples=30)
@given(DEFINITIONS, st.sampled_from(["\x01", "é", "𝄞", '"', "\n", "x"]), st.booleans())
def test_no_run_grows_beyond_what_was_computed(definition: Definition, character: str, done: bool) -> None:
    state = planned(definition, worst_run(definition, character * 1024, done=done))

    assert written(definition, state) <= run_bytes_max(definition, {})


@pytest.mark.parametrize(
    "definition",
    [
        a_definition(a_task("l" * 63, count=FAN_OUT_MAX)),
        a_definition(a_task("load", count=FAN_OUT_MAX)),
        a_definition(*[a_task(f"step-{number}", retries=100) for number in range(5000)]),
        a_definition(*[a_task(f"{number}".zfill(63)) for number in range(500)]),
        a_definition(*[a_task(f"t{number}", count=300) for number in range(60)]),
        a_definition(a_task("load", count=3000), params=(("query", "\x01é" * 2000),)),
        a_definition(a_task("a")),
        a_definition(*[a_task(f"step-{number}", queue_timeout_s=60.0) for number in range(2000)]),
    ],
    ids=[
        "long name, wide",
        "wide",
        "5000 tasks",
        "long names",
        "60 fan-outs",
        "large params",
        "one job",
        "2000 that may wait too long",
    ],
)
def test_even_the_largest_run_stays_within_its_object(definition: Definition) -> None:
    for state in (worst_run(definition), worst_run(definition, done=True)):
        size = written(definition, planned(definition, state))
        assert size <= run_bytes_max(definition, {}) <= RUN_BYTES_MAX


@pytest.mark.parametrize("count", [None, 4], ids=["one job", "a fan-out that ends in all four ways"])
def test_a_further_task_adds_no_more_than_was_computed_for_it(count: int | None) -> None:
    few = a_definition(a_task("load", count=1500))
    many = a_definition(a_task("load", count=1500), *[a_task(f"t{number}", count=count) for number in range(300)])

    added = written(many, worst_run(many, done=True)) - written(few, worst_run(few, done=True))

    assert added <= run_bytes_max(many, {}) - run_bytes_max(few, {})


def test_the_bound_is_not_far_above_what_a_run_can_reach() -> None:
    definition = a_definition(a_task("load", count=FAN_OUT_MAX))

    assert written(definition, worst_run(definition)) > 0.8 * run_bytes_max(definition, {})


@pytest.mark.parametrize("character", ["\x01", '"'])
@pytest.mark.parametrize(
    "tasks",
    [
        [a_task("a"), a_task("b", "a", args=("$(tasks.a.output)",))],
        [a_task("a", count=100), a_task("b", "a", args=("$(tasks.a.output)",))],
        [a_task("a"), a_task("b", "a", items_from="a"), a_task("c", "b", items_from="b")],
        [a_task("a"), *[a_task(f"from-{number}", "a", items_from="a") for number in range(20)]],
        [a_task(f"t{number}") for number in range(30)]
        + [a_task("end", *[f"t{n}" for n in range(30)], args=tuple(f"$(tasks.t{n}.output)" for n in range(30)))],
    ],
    ids=["one output", "a fan-out's outputs", "lists of lists", "twenty from one list", "thirty outputs"],
)
def test_no_run_grows_beyond_what_was_computed_whatever_its_jobs_put_out(tasks: list[Task], character: str) -> None:
    definition, graph = a_definition(*tasks), a_graph(*tasks)
    largest = {task.name: task for task in tasks if task.items_from}
    sizes = dict.fromkeys(largest, 1) | dict.fromkeys(list(largest)[:1], LISTED_JOBS_MAX + 1 - len(largest))
    known = [replace(task, count=sizes.get(task.name, task.count), items_from=None) for task in tasks]
    for done in (False, True):
        state = worst_run(a_definition(*known), character * 1024, done=done, kept=graph.outputs_kept)
        states = {name: replace(each, size=sizes.get(name)) for name, each in state.tasks.items()}
        shelf = OutputShelf({})
        for task in known:
            for index in range(task.size if task.name in graph.outputs_kept else 0):
                bytes_max = graph.outputs_kept[task.name]
                share = min(bytes_max, LIST_BYTES_MAX // 8 // task.size) if task.size > 1 else bytes_max // 4
                output = character * max(1, share)
                shelf.put(task, task.size, JobKey(task.name, index), output, bytes_max)
        state = replace(state, tasks=states, outputs=shelf.kept)

        assert shelf.kept
        assert written(definition, state) <= run_bytes_max(definition, graph.outputs_kept)


def test_the_less_room_the_tasks_leave_the_fewer_jobs_are_open_at_once() -> None:
    small = a_definition(a_task("load", count=100))
    large = a_definition(*[a_task(f"step-{number}") for number in range(4000)])
    too_large = a_definition(*[a_task(f"step-{number}", count=FAN_OUT_MAX) for number in range(9)])

    assert jobs_open_max(small, {}) == JOBS_OPEN_MAX
    assert JOBS_OPEN_MIN < jobs_open_max(large, {}) < JOBS_OPEN_MAX
    assert jobs_open_max(too_large, {}) == JOBS_OPEN_MIN
    assert run_bytes_max(too_large, {}) > RUN_BYTES_MAX


def test_a_job_that_waits_for_a_retry_takes_less_room_than_one_that_is_leased() -> None:
    definition = a_definition(a_task("load", count=1000, retries=1))
    leased = worst_run(definition)
    facts = RunFacts(RUN_UID, 1, False, workers_lost={"w" * WORKER_NAME_LENGTH_MAX})
    waiting = advance_run(
        replace(leased, leases={job: replace(lease, losses=0) for job, lease in leased.leases.items()}),
        a_graph(*definition.tasks),
        definition,
        facts,
        NOW_S,
    ).state

    assert len(waiting.waiting) == len(leased.leases) == 1000
    assert written(definition, waiting) < written(definition, leased)


def test_a_message_stands_in_a_finished_run_three_times_and_still_fits() -> None:
    definition = a_definition(a_task("l" * 63))
    job = JobKey("l" * 63, 0)
    state = RunState(RunPhase.RUNNING, start_s=NOW_S, leases={job: Lease(1, "w1", 1, 0, NOW_S)})
    failed = a_result(1, Outcome.FAILED, -15, YEAR_1_S, YEAR_9999_S, message="\x01" * 1024)

    graph = a_graph(*definition.tasks)
    facts = RunFacts(RUN_UID, TOKEN_MAX, False)
    ended = advance_run(state, graph, definition, replace(facts, reports=[Report("w1", job, failed)]), NOW_S).state

    assert ended.tasks[job.task].phase_of(0) is JobPhase.FAILED
    assert ended.failures[job] in ended.message
    assert written(definition, ended) <= run_bytes_max(definition, {})
