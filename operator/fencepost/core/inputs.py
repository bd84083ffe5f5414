"""What a job gets from its run besides params: outputs of earlier tasks, its item, and how the run went so far.

It is found in the run's record, by whoever needs it: by the leader for the entry in a mailbox as long as it is small,
else by the worker. Both come to the same, as all tasks before a job have ended when it is leased, and their outputs
stand still for as long as the round lasts.
"""

from collections.abc import Iterable, Mapping

from fencepost.core.definition import Task
from fencepost.core.fan_out import ListError, read_items
from fencepost.core.names import JobKey, RunKey
from fencepost.core.outputs import output_text, referred_outputs
from fencepost.core.rules import Rule, TaskOutcome
from fencepost.core.run_state import RunState, TaskState
from fencepost.core.standing import outcome_of
from fencepost.core.substitution import PARAM_PREFIX, output_reference

ITEM = "item"
RUN_STATUS = "run.status"
"""`Failed` where a task has failed by now, else `Succeeded`: for tasks that run whatever came before."""
FAILED_TASKS = "run.failedTasks"
"""The tasks that have failed by now, with commas between."""
FAILED_TASKS_LENGTH_MAX = 1024
_NOTHING = TaskState()


def run_values(
    run: RunKey, dag: str, scheduled_time: str, defaults: Iterable[tuple[str, str]], params: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """By reference: what is the same for all jobs of a run. Its params stand over the DAG's `defaults`."""
    values = {PARAM_PREFIX + name: value for name, value in (*defaults, *params)}
    return values | {
        "run.scheduledTime": scheduled_time,
        "run.name": run.name,
        "run.namespace": run.namespace,
        "run.dag": dag,
    }


def job_inputs(tasks: Mapping[str, Task], job: JobKey, state: RunState) -> dict[str, str]:
    """By reference: the values that the run's record holds for a job. ListError where the job has no item there."""
    task = tasks[job.task]
    inputs = {output_reference(name): _output_of(tasks[name], state) for name in referred_outputs(task)}
    if task.items_from is not None:
        items = read_items(_output_of(tasks[task.items_from], state))
        if job.index >= len(items):
            raise ListError(f"the list of task {task.items_from} has {len(items)} items, none for job {job}")
        inputs[ITEM] = items[job.index]
    if task.rule is not Rule.ALL_SUCCEEDED:
        failed = [name for name, each in tasks.items() if _has_failed(each, state)]
        inputs[RUN_STATUS] = str(TaskOutcome.FAILED if failed else TaskOutcome.SUCCEEDED)
        inputs[FAILED_TASKS] = _joined(failed)
    return inputs


def has_large_inputs(tasks: Mapping[str, Task], task: Task, state: RunState, bytes_max: int) -> bool:
    """Whether what jobs of the task refer to is more than an entry holds, told without putting it together."""
    names = referred_outputs(task)
    if any(tasks[name].is_fan_out for name in (*names, *([task.items_from] if task.items_from else []))):
        return True
    return sum(len(state.outputs.get(JobKey(name, 0), "")) for name in names) > bytes_max


def _output_of(task: Task, state: RunState) -> str:
    return output_text(task, state.tasks.get(task.name, _NOTHING), state.outputs)


def _has_failed(task: Task, state: RunState) -> bool:
    return outcome_of(task, state.tasks.get(task.name, _NOTHING)) is TaskOutcome.FAILED


def _joined(names: list[str]) -> str:
    """Whole names as far as there is room, then three dots."""
    text = ",".join(names)
    if len(text) <= FAILED_TASKS_LENGTH_MAX:
        return text
    return text[: text.rindex(",", 0, FAILED_TASKS_LENGTH_MAX - len("..."))] + ",..."
