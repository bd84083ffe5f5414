"""Whether another attempt follows a failed one: the limit, and the rules by exit code."""

import pytest

from fencepost.core.attempts import exit_code_of, refusal_of_retry, retry_problems
from fencepost.core.definition import RetryPolicy
from fencepost.core.run_state import Outcome, Result
from tests.unit.support.builders import a_definition, a_result, a_task


def failed(exit_code: int | None, outcome: Outcome = Outcome.FAILED) -> Result:
    return a_result(1, outcome, exit_code)


@pytest.mark.parametrize(
    ("result", "want"),
    [
        (failed(3), 3),
        (failed(-9), 137),
        (failed(None), None),
        (failed(-15, Outcome.TIMED_OUT), 124),
        (failed(None, Outcome.TIMED_OUT), 124),
    ],
    ids=["exit code", "signal", "unreadable result", "stopped at its limit", "taken away at its limit"],
)
def test_each_way_to_fail_has_the_number_that_a_shell_would_show(result: Result, want: int | None) -> None:
    assert exit_code_of(result) == want


@pytest.mark.parametrize(
    ("policy", "exit_code", "want"),
    [
        (RetryPolicy(1), 3, None),
        (RetryPolicy(1, retry_on=(3, 75)), 3, None),
        (RetryPolicy(1, retry_on=(75,)), 3, "exit code 3 is not in retryOn"),
        (RetryPolicy(1, fail_on=(3,)), 3, "exit code 3 is in failOn"),
        (RetryPolicy(1, fail_on=(2,)), 3, None),
        (RetryPolicy(1, retry_on=(75,), fail_on=(2,)), 75, None),
        (RetryPolicy(1, retry_on=(75,), fail_on=(2,)), 2, "exit code 2 is in failOn"),
        (RetryPolicy(1, retry_on=(137,)), -9, None),
        (RetryPolicy(1, retry_on=(75,), fail_on=(2,)), None, None),
    ],
)
def test_rules_by_exit_code_say_whether_another_attempt_follows(
    policy: RetryPolicy, exit_code: int | None, want: str | None
) -> None:
    assert refusal_of_retry(policy, 1, failed(exit_code)) == want


def test_no_rule_gives_more_attempts_than_the_limit() -> None:
    assert refusal_of_retry(RetryPolicy(1, retry_on=(3,)), 2, failed(3)) == ""


def test_a_code_that_is_to_be_retried_and_not_is_a_problem_of_each_task_that_has_both() -> None:
    both = a_task("b", retry_on=(3, 75), fail_on=(2, 75))

    [problem] = retry_problems(a_definition(a_task("a", fail_on=(75,)), both))

    assert problem.path == "spec.tasks[1].retries"
    assert "exit code 75 of task 'b'" in problem.fact
