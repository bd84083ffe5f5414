"""When a fan-out has succeeded, and when it no longer can.

A fan-out succeeds when all its jobs have ended and enough of them well: all, unless a threshold says fewer. What
depends on it sees one task that succeeded or failed, and waits for the last job in either case.
"""

from fencepost.core.definition import Definition, Task
from fencepost.core.phases import JobPhase
from fencepost.core.problems import Problem
from fencepost.core.run_state import TaskState


def successes_wanted(task: Task, size: int) -> int:
    """How many of its `size` jobs must succeed; a share is rounded up, and more than there are jobs means all."""
    threshold = task.success_threshold
    if threshold is None:
        return size
    wanted = -(-size * threshold.number // 100) if threshold.is_percent else threshold.number
    return min(size, wanted)


def has_succeeded(task: Task, state: TaskState, size: int) -> bool:
    """Whether all jobs have ended by themselves, and enough of them well."""
    succeeded = state.count(JobPhase.SUCCEEDED)
    return succeeded + state.count(JobPhase.FAILED) >= size and succeeded >= successes_wanted(task, size)


def cannot_succeed(task: Task, state: TaskState, size: int) -> bool:
    """Whether so many of its jobs have failed that too few are left to succeed."""
    return state.count(JobPhase.FAILED) > size - successes_wanted(task, size)


def threshold_problems(definition: Definition) -> list[Problem]:
    """Fan-outs that could never reach their threshold."""
    return [
        Problem(
            "InvalidValue",
            f"spec.tasks[{place}].forEach.successThreshold",
            f"{task.success_threshold.number} of the {task.size} jobs of task {task.name!r} can never succeed",
            f"write {task.size} or less, or a percentage",
        )
        for place, task in enumerate(definition.tasks)
        if task.success_threshold is not None
        and not task.success_threshold.is_percent
        and task.items_from is None
        and task.success_threshold.number > task.size
    ]
