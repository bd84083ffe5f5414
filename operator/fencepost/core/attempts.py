"""Whether a failed attempt is followed by another: the rules by exit code, and the limit.

A rule knows one number for each way to fail. Where a process has none of its own, it is the number that a shell would
show: 128 and the signal's number for one that a signal ended, 124 (as from `timeout`) for one that ran out of time. A
failure without any number, such as a result that cannot be read, goes by the limit alone.

Losses of a worker never come here: they are counted apart, and are no failures of the job.
"""

from fencepost.core.definition import Definition, RetryPolicy
from fencepost.core.problems import Problem
from fencepost.core.run_state import Outcome, Result

TIMED_OUT_CODE = 124
SIGNAL_CODE = 128
"""Plus the signal's number."""
EXIT_CODE_MAX = 255


def exit_code_of(result: Result) -> int | None:
    """The number that rules go by, of a result that tells of a failure."""
    if result.outcome is Outcome.TIMED_OUT:
        return TIMED_OUT_CODE
    if result.exit_code is not None and result.exit_code < 0:
        return SIGNAL_CODE - result.exit_code
    return result.exit_code


def refusal_of_retry(policy: RetryPolicy, attempt: int, result: Result) -> str | None:
    """Why no attempt follows the `attempt`-th (1 for the first), which failed: a few words, none where the limit is
    used up. None if another one does follow."""
    code = exit_code_of(result)
    if code is not None and code in policy.fail_on:
        return f"exit code {code} is in failOn"
    if code is not None and policy.retry_on and code not in policy.retry_on:
        return f"exit code {code} is not in retryOn"
    return None if attempt <= policy.limit else ""


def retry_problems(definition: Definition) -> list[Problem]:
    """Tasks with an exit code that is both to be retried and not, counting what they take over from the DAG."""
    return [
        Problem(
            "InvalidValue",
            f"spec.tasks[{place}].retries",
            f"exit code {min(both)} of task {task.name!r} is in retryOn and in failOn, its own or the DAG's",
            "remove it from one of them",
        )
        for place, task in enumerate(definition.tasks)
        if (both := set(task.retries.retry_on) & set(task.retries.fail_on))
    ]
