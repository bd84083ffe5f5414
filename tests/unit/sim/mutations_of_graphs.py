"""Faults in rules, conditions, lists, outputs and attempts."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from fencepost.core import draft, inputs, plan_run, standing
from fencepost.core.attempts import refusal_of_retry
from fencepost.core.definition import RetryPolicy
from fencepost.core.outputs import output_text
from fencepost.core.rules import Rule, TaskOutcome, Verdict, judge
from fencepost.core.run_state import Result
from fencepost.worker import job
from tests.unit.sim.mutation import Mutation


def any_is_all() -> AbstractContextManager[object]:
    def strict(rule: Rule, parents: Sequence[TaskOutcome | None]) -> Verdict:
        return judge(Rule.ALL_SUCCEEDED if rule is Rule.ANY_SUCCEEDED else rule, parents)

    return mock.patch.object(standing, "judge", strict)


def skipped_is_failed() -> AbstractContextManager[object]:
    def harsh(rule: Rule, parents: Sequence[TaskOutcome | None]) -> Verdict:
        return judge(rule, [TaskOutcome.FAILED if each is TaskOutcome.SKIPPED else each for each in parents])

    return mock.patch.object(standing, "judge", harsh)


def conditions_always_hold() -> AbstractContextManager[object]:
    return mock.patch.object(standing, "_condition_holds", return_value=True)


def last_item_is_lost() -> AbstractContextManager[object]:
    right = standing._length_of_list

    def short(*of: Any) -> int:
        return max(0, right(*of) - 1)

    return mock.patch.object(standing, "_length_of_list", short)


def outputs_are_mixed_up() -> AbstractContextManager[object]:
    def last_word(task: Any, state: Any, outputs: Any) -> str:
        return output_text(task, state, outputs)[1:]

    return mock.patch.object(inputs, "output_text", last_word)


def fail_on_is_forgotten() -> AbstractContextManager[object]:
    def lenient(policy: RetryPolicy, attempt: int, result: Result) -> str | None:
        return None if attempt <= policy.limit else refusal_of_retry(policy, attempt, result)

    return mock.patch.object(plan_run, "refusal_of_retry", lenient)


def one_attempt_too_many() -> AbstractContextManager[object]:
    def generous(policy: RetryPolicy, attempt: int, result: Result) -> str | None:
        return refusal_of_retry(policy, attempt - 1, result)

    return mock.patch.object(plan_run, "refusal_of_retry", generous)


def thresholds_do_not_count() -> AbstractContextManager[object]:
    """A task that fails fast does so with its first failure."""

    def hasty(task: Any, state: Any, size: int) -> bool:
        return bool(size) and any(str(phase) == "Failed" for phase in state.ended)

    return mock.patch.object(draft, "cannot_succeed", hasty)


def limits_are_not_kept() -> AbstractContextManager[object]:
    """A worker waits for its jobs for as long as they take."""
    right = job._first_of

    async def patient(*futures: Any, timeout_s: float | None = None) -> None:
        await right(*futures)

    return mock.patch.object(job, "_first_of", patient)


GRAPH = "a graph is followed"
ATTEMPTS = "a job that fails is tried again"

GRAPH_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("AnySucceeded means AllSucceeded", any_is_all, (GRAPH,)),
    Mutation("a skipped parent counts as failed", skipped_is_failed, (GRAPH,)),
    Mutation("conditions are not asked", conditions_always_hold, (GRAPH,)),
    Mutation("the last item of a list gets no job", last_item_is_lost, (GRAPH,)),
    Mutation("a job is given the wrong output", outputs_are_mixed_up, (GRAPH,)),
    Mutation("exit codes do not count", fail_on_is_forgotten, (ATTEMPTS,), (), 40),
    Mutation("there is one attempt too many", one_attempt_too_many, (ATTEMPTS,)),
    Mutation("a worker keeps no limit", limits_are_not_kept, ("in a well cluster an attempt",)),
    Mutation("a threshold does not count for failFast", thresholds_do_not_count, ("a job is cancelled for a reason",)),
)
