"""Graphs whose shape their jobs decide, against a reading of the rules that fits on one screen.

The reference asks each task, from its parents' ends and outputs alone, whether it is admitted and how many jobs it has.
The planner must come to the same in whatever order jobs end, and though it forgets everything but the stored record
between any two plans: `RunStage` sends each state through the wire and back.
"""

import json
from functools import cache
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.core.definition import Task
from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase, RunPhase
from fencepost.core.rules import Rule
from fencepost.core.run_state import Outcome
from tests.unit.core.test_plan_run_reference import rule_is_met
from tests.unit.support.builders import a_task
from tests.unit.support.run_stage import RunStage

OUTPUTS = ("", "x", "[]", '["p", "q", 3]')
CONDITIONS = (
    "tasks.{}.output == 'x'",
    "tasks.{}.status != 'Failed'",
    "tasks.{}.succeeded > 1",
    "int(tasks.{}.output) > 0",
)
WORDS = {"good": "Succeeded", "bad": "Failed", "skipped": "Skipped"}


class Shape:
    """How every task of a DAG ends, by the rules alone. `does`: whether a task's jobs succeed, and with what output."""

    def __init__(self, tasks: list[Task], does: dict[str, tuple[bool, str]]) -> None:
        self.tasks = {task.name: task for task in tasks}
        self.does = does
        self.end = cache(self._end)

    def _end(self, name: str) -> tuple[str, int, str]:
        """The task's outcome, how many jobs it counts as, and its output."""
        task = self.tasks[name]
        if not rule_is_met(task.rule, [self.end(parent)[0] for parent in task.depends_on]):
            return self._of_jobs(task, "skipped", task.size)
        holds = True if task.when is None else self._holds(task.when)
        if holds is None:
            return self._of_jobs(task, "bad", task.size or 1, started=False)
        if not holds:
            return self._of_jobs(task, "skipped", task.size)
        size = task.size
        if task.items_from is not None:
            try:
                items = json.loads(self.end(task.items_from)[2])
            except ValueError:
                items = None
            if not isinstance(items, list):
                return self._of_jobs(task, "bad", 1, started=False)
            size = len(items)
        return self._of_jobs(task, "good" if self.does[name][0] or not size else "bad", size)

    def _of_jobs(self, task: Task, outcome: str, size: int, *, started: bool = True) -> tuple[str, int, str]:
        text = self.does[task.name][1] if outcome == "good" else ""
        if not task.is_fan_out:
            return outcome, size, text
        texts = [] if outcome == "skipped" else [text] * size
        return outcome, size, json.dumps(texts, separators=(",", ":"))

    def _holds(self, when: str) -> bool | None:
        """None: the question has no answer."""
        name = when.split(".")[1]
        outcome, size, output = self.end(name)
        answers = {
            CONDITIONS[0].format(name): output == "x",
            CONDITIONS[1].format(name): WORDS[outcome] != "Failed",
            CONDITIONS[2].format(name): outcome == "good" and size > 1,
            CONDITIONS[3].format(name): None,
        }
        return answers[when]


@st.composite
def dags(draw: st.DrawFn) -> tuple[list[Task], dict[str, tuple[bool, str]]]:
    """Up to eight tasks, and what their jobs do."""
    tasks = []
    for place in range(draw(st.integers(2, 8))):
        parents = [f"t{above}" for above in range(place) if draw(st.integers(0, 2)) == 0]
        more: dict[str, Any] = {}
        match draw(st.sampled_from(["plain", "plain", "plain", "list", "count", "items"])):
            case "list" if parents:
                more["items_from"] = draw(st.sampled_from(parents))
            case "count":
                more["count"] = draw(st.integers(0, 3))
            case "items":
                more["items"] = ("a", "b")
        if bool(parents) and draw(st.booleans()):
            more["when"] = draw(st.sampled_from(CONDITIONS)).format(draw(st.sampled_from(parents)))
        rules = [Rule.ALL_SUCCEEDED, *Rule] if parents else [Rule.ALL_SUCCEEDED, Rule.ALL_DONE]
        tasks.append(a_task(f"t{place}", *parents, rule=draw(st.sampled_from(rules)), **more))
    does = {task.name: (draw(st.integers(0, 4)) > 0, draw(st.sampled_from(OUTPUTS))) for task in tasks}
    return tasks, does


@settings(max_examples=150, deadline=None)
@given(dags(), st.randoms(use_true_random=False))
def test_every_graph_takes_the_shape_that_its_jobs_decide_in_whatever_order_they_end(
    dag: tuple[list[Task], dict[str, tuple[bool, str]]], chance: Random
) -> None:
    tasks, does = dag
    run, shape = RunStage(*tasks), Shape(tasks, does)

    for _ in range(200):
        if run.state.phase.finished:
            break
        run.plan_all()
        for job in [job for job in run.state.leases if chance.random() < 0.5]:
            succeeds, output = does[job.task]
            if succeeds:
                run.puts_out(str(job), output)
            else:
                run.says(str(job), Outcome.FAILED)

    ends = {task.name: shape.end(task.name) for task in tasks}
    phases = {"good": JobPhase.SUCCEEDED, "bad": JobPhase.FAILED, "skipped": JobPhase.SKIPPED}
    want = {JobKey(name, i): phases[outcome] for name, (outcome, size, _) in ends.items() for i in range(size)}
    assert {job: run.phase(str(job)) for job in want} == want
    assert (run.state.done, run.state.total) == (len(want), len(want))
    assert run.state.phase is (RunPhase.FAILED if JobPhase.FAILED in want.values() else RunPhase.SUCCEEDED)
