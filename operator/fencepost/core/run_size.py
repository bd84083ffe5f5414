"""How large a run's object can grow: computed from its definition, so that no write of a run is ever too large.

A run's record has one string for each task that has begun and one for each job that is open, which means leased or
waiting for another attempt. The definition bounds the first kind, and we bound the second: the less room the tasks
leave, the fewer jobs of the run are open at the same time. The figures are those of `api.codec`'s strings as JSON.

What it does not bound: labels and annotations that others put on a run, and params that a person gives to it.
"""

import json

from fencepost.core.definition import RUN_BYTES_MAX, Definition, Task
from fencepost.core.draft import FAILURE_BYTES_MAX, FAILURES_KEPT

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
_FAILURE_BYTES = FAILURE_BYTES_MAX + 12


def run_bytes_max(definition: Definition) -> int:
    """The size of a run's object in the worst case that its definition allows, in bytes."""
    open_jobs = min(definition.size, jobs_open_max(definition))
    return _settled_bytes(definition) + open_jobs * _open_job_bytes(definition)


def jobs_open_max(definition: Definition) -> int:
    """How many jobs of a run may be leased or wait for another attempt at the same time."""
    room = RUN_BYTES_MAX - _settled_bytes(definition)
    return max(JOBS_OPEN_MIN, min(JOBS_OPEN_MAX, room // _open_job_bytes(definition)))


def _open_job_bytes(definition: Definition) -> int:
    return _OPEN_JOB_BYTES + _name_length_max(definition)


def _settled_bytes(definition: Definition) -> int:
    """All but the open jobs."""
    params = len(json.dumps(dict(definition.params), ensure_ascii=False).encode())
    failures = min(definition.size, FAILURES_KEPT) * (_FAILURE_BYTES + _name_length_max(definition))
    return _FIXED_BYTES + params + failures + sum(_task_bytes(task) for task in definition.tasks)


def _task_bytes(task: Task) -> int:
    """A task's string in the worst case: no two of its indices that follow each other have ended alike."""
    name = len(task.name) + (0 if task.queue_timeout_s is None else _QUEUED_BYTES)
    if task.count is None:
        return name + _TASK_BYTES
    digits = sum(max(0, task.count - first) for first in (0, 10, 100, 1000))
    return name + _FAN_OUT_BYTES + digits + task.count


def _name_length_max(definition: Definition) -> int:
    return max((len(task.name) for task in definition.tasks), default=0)
