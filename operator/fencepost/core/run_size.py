"""How large a run's object can grow: computed from its definition, so that no write of a run is ever too large.

A run's record has one string for each task that has begun and one for each job that is open, which means leased,
waiting for another attempt, or dying (dead, and its dead letter not written yet). The definition bounds the first kind,
and we bound the second: the less room the tasks leave, the fewer jobs of the run are open at the same time. The figures
are those of `api.codec`'s strings as JSON.

What it does not bound: labels and annotations that others put on a run, and the params and marks that a person gives to
it.
"""

import json
from collections.abc import Mapping

from fencepost.core.definition import RUN_BYTES_MAX, Definition, Task
from fencepost.core.draft import FAILURE_BYTES_MAX, FAILURES_KEPT
from fencepost.core.fan_out import LISTED_JOBS_MAX
from fencepost.core.outputs import RUN_OUTPUT_BYTES_MAX

JOBS_OPEN_MAX = 1_500
"""Open jobs of one run, however much room there is: what costs at a write is the number of strings in a map."""
JOBS_OPEN_MIN = 100
"""Open jobs that every run has room for; a DAG whose tasks leave less is refused."""

_FIXED_BYTES = 4096
"""Metadata, spec without params, and the fields of a status that there is one of; the message stands there thrice."""
_TASK_BYTES = 54
"""A task of one job: `"":"Succeeded=0 @-63935596800.000+315537897599.999",` for whatever times a worker may claim."""
_QUEUED_BYTES = 21
"""When its jobs began to wait for a slot: ` queued@315537897599.999`, kept with a queueTimeout."""
_FAN_OUT_BYTES = 84
"""The same with all four phases, without indices."""
_OPEN_JOB_BYTES = 119
"""A lease: four digits of an index, ten of a token, a worker's name of full length, attempt `101+99` and time."""
_SIZE_BYTES = len(" of=10000")
_ESCAPED_MAX = 6
"""Bytes in JSON for one byte of a text."""
_FAILURE_BYTES = FAILURE_BYTES_MAX + 12


def run_bytes_max(definition: Definition, outputs_kept: Mapping[str, int]) -> int:
    """The size of a run's object in the worst case that its definition allows, in bytes.

    `outputs_kept` is the graph's: whose outputs stand in the run, and how long each may be.
    """
    open_jobs = min(_jobs_max(definition), jobs_open_max(definition, outputs_kept))
    return _settled_bytes(definition, outputs_kept) + open_jobs * _open_job_bytes(definition)


def jobs_open_max(definition: Definition, outputs_kept: Mapping[str, int]) -> int:
    """How many jobs of a run may be leased or wait for another attempt at the same time."""
    room = RUN_BYTES_MAX - _settled_bytes(definition, outputs_kept)
    return max(JOBS_OPEN_MIN, min(JOBS_OPEN_MAX, room // _open_job_bytes(definition)))


def _jobs_max(definition: Definition) -> int:
    return definition.size + (LISTED_JOBS_MAX if _has_lists(definition) else 0)


def _has_lists(definition: Definition) -> bool:
    return any(task.items_from is not None for task in definition.tasks)


def _open_job_bytes(definition: Definition) -> int:
    return _OPEN_JOB_BYTES + _name_length_max(definition)


def _settled_bytes(definition: Definition, outputs_kept: Mapping[str, int]) -> int:
    """All but the open jobs."""
    params = len(json.dumps(dict(definition.params), ensure_ascii=False).encode())
    failures = min(_jobs_max(definition), FAILURES_KEPT) * (_FAILURE_BYTES + _name_length_max(definition))
    listed = _index_bytes(LISTED_JOBS_MAX) if _has_lists(definition) else 0
    tasks = sum(_task_bytes(task) for task in definition.tasks)
    return _FIXED_BYTES + params + failures + listed + tasks + _output_bytes(definition, outputs_kept)


def _output_bytes(definition: Definition, outputs_kept: Mapping[str, int]) -> int:
    if not outputs_kept:
        return 0
    jobs = ((task, outputs_kept[task.name]) for task in definition.tasks if task.name in outputs_kept)
    worst = (
        RUN_OUTPUT_BYTES_MAX if task.items_from else task.size * (bytes_max * _ESCAPED_MAX + len(task.name) + 10)
        for task, bytes_max in jobs
    )
    return min(RUN_OUTPUT_BYTES_MAX, sum(worst))


def _task_bytes(task: Task) -> int:
    """A task's string in the worst case, but for the indices of jobs whose number an output decides: those are counted
    for the whole run."""
    name = len(task.name) + (0 if task.queue_timeout_s is None else _QUEUED_BYTES)
    if not task.is_fan_out:
        return name + _TASK_BYTES
    return name + _FAN_OUT_BYTES + (_SIZE_BYTES if task.items_from else _index_bytes(task.size))


def _index_bytes(size: int) -> int:
    """The indices of so many jobs, no two of which follow each other and have ended alike."""
    return size + sum(max(0, size - first) for first in (0, 10, 100, 1000))


def _name_length_max(definition: Definition) -> int:
    return max((len(task.name) for task in definition.tasks), default=0)
