"""The planner against a reading of the rules that fits on one screen: how does each job of a DAG end?

The reference knows nothing of leases, time or order. It asks for each task how all above it ended, and for each job
which of its attempts was the first to succeed. The planner must come to the same whatever order results come
in, however many slots there are, and however often workers are lost in between.
"""

from collections.abc import Mapping
from functools import cache
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.core.definition import Task
from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase, RunPhase
from fencepost.core.rules import Rule
from fencepost.core.run_state import Outcome
from tests.unit.support.builders import a_task
from tests.unit.support.run_stage import RunStage

Script = Mapping[JobKey, tuple[bool, ...]]
"""By job: whether its first, second, third … attempt succeeds; the last one stands for all that follow."""


def reference(tasks: list[Task], script: Script) -> dict[JobKey, JobPhase]:
    """How each job ends, by the rules alone."""
    by_name = {task.name: task for task in tasks}

    def ends_well(job: JobKey) -> bool:
        tries = script[job]
        attempts = by_name[job.task].retries.limit + 1
        return any((*tries, *[tries[-1]] * attempts)[:attempts])

    @cache
    def outcome(name: str) -> str:
        task = by_name[name]
        if not rule_is_met(task.rule, [outcome(parent) for parent in task.depends_on]):
            return "skipped"
        return "good" if all(ends_well(JobKey(name, index)) for index in range(task.size)) else "bad"

    return {
        JobKey(task.name, index): (
            JobPhase.SKIPPED
            if outcome(task.name) == "skipped"
            else JobPhase.SUCCEEDED
            if ends_well(JobKey(task.name, index))
            else JobPhase.FAILED
        )
        for task in tasks
        for index in range(task.size)
    }


def rule_is_met(rule: Rule, parents: list[str]) -> bool:
    """The rules in the words of the guide."""
    return {
        Rule.ALL_SUCCEEDED: all(each == "good" for each in parents),
        Rule.ALL_DONE: True,
        Rule.ANY_SUCCEEDED: "good" in parents,
        Rule.ANY_FAILED: "bad" in parents,
        Rule.ALL_FAILED: all(each == "bad" for each in parents),
        Rule.NONE_FAILED: "bad" not in parents,
    }[rule]


@st.composite
def dags(draw: st.DrawFn) -> tuple[list[Task], Script]:
    """Up to seven tasks, written in any order, and how each of their jobs' attempts go."""
    count = draw(st.integers(1, 7))
    tasks = [
        a_task(
            f"t{place}",
            *[f"t{above}" for above in range(place) if draw(st.integers(0, 2)) == 0],
            count=draw(st.sampled_from([None, None, None, 0, 1, 4])),
            max_parallel=draw(st.sampled_from([None, 1, 2])),
            retries=draw(st.integers(0, 2)),
            rule=draw(st.sampled_from([Rule.ALL_SUCCEEDED, *Rule])),
        )
        for place in range(count)
    ]
    tries = st.lists(st.sampled_from([True, True, False]), min_size=1, max_size=3).map(tuple)
    script = {JobKey(task.name, index): draw(tries) for task in tasks for index in range(task.size)}
    return draw(st.permutations(tasks)), script


@settings(max_examples=120)
@given(dags(), st.randoms(use_true_random=False), st.integers(1, 5))
def test_every_dag_ends_as_the_rules_say_in_whatever_order_its_jobs_end(
    dag: tuple[list[Task], Script], chance: Random, slots: int
) -> None:
    tasks, script = dag
    run = RunStage(*tasks)

    end(run, script, chance, slots)

    want = reference(tasks, script)
    assert {job: run.phase(str(job)) for job in want} == want
    assert run.state.phase is (RunPhase.FAILED if JobPhase.FAILED in want.values() else RunPhase.SUCCEEDED)
    assert (run.state.done, run.state.total) == (len(want), len(want))


def end(run: RunStage, script: Script, chance: Random, slots: int) -> None:
    """Carry the run out on so many slots: some of the leased jobs end, one in eight has its worker lost."""
    for step in range(400):
        if run.state.phase.finished:
            return
        for job, lease in run.state.leases.items():
            if chance.random() < 0.5:
                tries = script[job]
                succeeds = tries[min(lease.attempt, len(tries)) - 1]
                run.says(str(job), Outcome.SUCCEEDED if succeeds else Outcome.FAILED)
            elif chance.random() < 0.12 and lease.losses < 4:
                run.lost.add(lease.worker)
        plan = run.look()
        free = slots - len(plan.state.leases)
        wanted = [(demand.task, f"w{step}") for demand in plan.demands for _ in range(demand.count)]
        run.plan(*wanted[: max(0, free)])
        run.now_s = max(run.now_s + 1, plan.wake_at_s or 0)
    raise AssertionError("the run does not end")
