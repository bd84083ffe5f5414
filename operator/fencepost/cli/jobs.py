"""Jobs as people name them: `TASK`, or `TASK/INDEX`."""

from collections.abc import Iterable, Mapping

from fencepost.cli.errors import RefusedError
from fencepost.core.definition import Task
from fencepost.core.fan_out import size_of
from fencepost.core.run_state import RunState, TaskState

TASKS_NAMED_MAX = 20
"""In a message."""
INDEX_DIGITS_MAX = 5
_NOTHING_KNOWN = TaskState()


def sizes_of(tasks: Iterable[Task], state: RunState) -> dict[str, int | None]:
    """How many jobs each task has in this run; None where a list that is not there yet decides it."""
    states = {task.name: state.tasks.get(task.name, _NOTHING_KNOWN) for task in tasks}
    return {
        task.name: None
        if task.items_from is not None and states[task.name].size is None
        else size_of(task, states[task.name])
        for task in tasks
    }


def job_named(text: str, sizes: Mapping[str, int | None]) -> tuple[str, int | None]:
    """Task and index, None where none is given; RefusedError for what the run does not have, as far as is known.

    `sizes` is of `sizes_of`, or empty where nobody knows the tasks.
    """
    task, slash, index = text.partition("/")
    if slash and not (index.isdecimal() and len(index) <= INDEX_DIGITS_MAX):
        raise RefusedError(f"{text!r} is not of the form TASK or TASK/INDEX")
    if sizes and task not in sizes:
        known = ", ".join(sorted(sizes)[:TASKS_NAMED_MAX])
        raise RefusedError(f"{text!r}: the run has no task {task!r}; it has {known}")
    size = sizes.get(task)
    if slash and size is not None and int(index) >= size:
        raise RefusedError(f"{text!r}: {size_text(task, size)}")
    return task, int(index) if slash else None


def size_text(task: str, size: int) -> str:
    """`task load has 3 jobs; write load/0 to load/2`."""
    remedy = f"write {task}/0 to {task}/{size - 1}" if size > 1 else f"write {task}" if size else "its list is empty"
    return f"task {task} has {'1 job' if size == 1 else f'{size} jobs'}; {remedy}"
