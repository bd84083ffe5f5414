"""What jobs put out for later tasks: whose output is kept, within which limits, and how it reads.

Only an output that somebody refers to is kept: by `$(tasks.NAME.output)`, in `when`, or in a `forEach.from`. It stands
in the run's record from the write that folds the job's success. Others are forgotten with the result.

An ordinary task's output is the text, without newlines at its end; nothing where it has put out nothing, failed or was
skipped. A fan-out's is a JSON list with one such text for each job, by index; where all of it was skipped, `[]`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from fencepost.core.definition import Task
from fencepost.core.fan_out import size_of
from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase
from fencepost.core.run_state import TaskState
from fencepost.core.substitution import outputs_in

OUTPUT_BYTES_MAX = 2 * 1024
"""Of one job, in UTF-8."""
LIST_BYTES_MAX = 64 * 1024
"""Of a job whose output is the list of a `forEach.from`; of the outputs of a fan-out together, as a JSON list."""
RUN_OUTPUT_BYTES_MAX = 128 * 1024
"""Of all outputs that a run keeps, as they stand in its record."""

_NOTHING = TaskState()


def list_sources(tasks: Iterable[Task]) -> frozenset[str]:
    """The tasks whose output is the list of a `forEach.from`."""
    return frozenset(task.items_from for task in tasks if task.items_from is not None)


def referred_outputs(task: Task) -> frozenset[str]:
    """The tasks whose output this task refers to in its command, args or env."""
    texts = (*task.command, *task.args, *(value for _, value in task.env))
    return frozenset(name for text in texts if "$(tasks." in text for name in outputs_in(text))


def output_bytes_max(name: str, sources: frozenset[str]) -> int:
    """How much one job of the task may put out, given the `list_sources`."""
    return LIST_BYTES_MAX if name in sources else OUTPUT_BYTES_MAX


def stored_bytes(job: JobKey, output: str) -> int:
    """What an output takes in the run's record."""
    return len(json.dumps(output, ensure_ascii=False).encode()) + len(f'"{job}":,')


def outputs_of(task: Task, state: TaskState, outputs: Mapping[JobKey, str]) -> list[str]:
    """What the jobs of an ended task have put out, by index; none where all of it was skipped or cancelled."""
    size = size_of(task, state)
    unstarted = state.count(JobPhase.SKIPPED) + state.count(JobPhase.CANCELLED)
    return [] if unstarted >= size else [outputs.get(JobKey(task.name, index), "") for index in range(size)]


def output_text(task: Task, state: TaskState, outputs: Mapping[JobKey, str]) -> str:
    """The output of an ended task, as `$(tasks.NAME.output)` stands for it."""
    each = outputs_of(task, state, outputs)
    return _as_list(each) if task.is_fan_out else "".join(each)


def _as_list(outputs: Sequence[str]) -> str:
    return json.dumps(outputs, ensure_ascii=False, separators=(",", ":"))


class OutputShelf:
    """The kept outputs of a run while one plan works on it, held to their limits."""

    def __init__(self, kept: Mapping[JobKey, str]) -> None:
        self.kept = dict(kept)
        self._bytes: int | None = None
        self._list_bytes: dict[str, int] = {}

    def put(self, task: Task, size: int, job: JobKey, output: str, bytes_max: int) -> str:
        """Keep what a job has put out; why it cannot be kept, or nothing. `bytes_max` is that of one job."""
        self.drop(job)
        output = output.rstrip("\r\n")
        if not output:
            return ""
        if len(output.encode()) > bytes_max:
            return f"its output has more than {bytes_max} bytes; keep it elsewhere, and put out where it is"
        self._count(task.name)
        stored, listed = stored_bytes(job, output), _listed_bytes(output)
        assert self._bytes is not None
        if self._bytes + stored > RUN_OUTPUT_BYTES_MAX:
            return f"the outputs of this run have more than {RUN_OUTPUT_BYTES_MAX} bytes together; put out less"
        if task.is_fan_out and self._list_bytes[task.name] + listed + size * len('"",') > LIST_BYTES_MAX:
            return f"the outputs of task {task.name} have more than {LIST_BYTES_MAX} bytes as a list; put out less"
        self._bytes += stored
        self._list_bytes[task.name] += listed
        self.kept[job] = output
        return ""

    def drop(self, job: JobKey) -> None:
        """What the job has put out in an earlier round no longer counts."""
        if self.kept.pop(job, None) is not None:
            self._bytes = None
            self._list_bytes.clear()

    def _count(self, task: str) -> None:
        """Once in a plan that keeps something."""
        if self._bytes is None:
            self._bytes = sum(stored_bytes(job, output) for job, output in self.kept.items())
        if task not in self._list_bytes:
            self._list_bytes[task] = sum(_listed_bytes(output) for job, output in self.kept.items() if job.task == task)


def _listed_bytes(output: str) -> int:
    """What an output adds to the list of its fan-out, beyond an empty one."""
    return len(json.dumps(output, ensure_ascii=False).encode()) - len('""')
