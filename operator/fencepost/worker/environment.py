"""What a job sees: the values behind `$(…)`, and its environment.

Of the worker's own environment a job gets only what INHERITED names: the worker's token, the address of its API server
and the path of a kubeconfig are none of its business. (They are kept out of its sight, not out of its reach: all jobs
of a worker run with its rights.)
"""

from collections.abc import Mapping
from typing import Final

from fencepost.api.times import format_time
from fencepost.core.definition import Definition, Task
from fencepost.core.inputs import FAILED_TASKS, ITEM, RUN_STATUS, run_values
from fencepost.core.names import MailboxKey, execution_id
from fencepost.core.run_state import Entry
from fencepost.core.substitution import substitute

INHERITED: Final = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ"})
INHERITED_PREFIX: Final = "LC_"
PATH_DEFAULT: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def inherited_environment(own: Mapping[str, str]) -> dict[str, str]:
    """The part of the worker's environment that each of its jobs gets."""
    kept = {name: value for name, value in own.items() if name in INHERITED or name.startswith(INHERITED_PREFIX)}
    return {"PATH": PATH_DEFAULT, **kept}


def dag_of_revision(revision: str) -> str:
    """The DAG whose definition a revision holds: its name without the dash and the ten characters of the hash."""
    return revision[: -len("-0123456789")]


def reference_values(
    place: MailboxKey,
    entry: Entry,
    definition: Definition,
    task: Task,
    params: Mapping[str, str],
    inputs: Mapping[str, str],
) -> dict[str, str]:
    """The value of each reference; the run's params stand over the definition's."""
    index = place.job.index
    dag = dag_of_revision(entry.revision)
    values = run_values(place.run, dag, format_time(entry.scheduled_s), definition.params, params.items())
    return {
        **values,
        "task.name": place.job.task,
        "index": str(index),
        ITEM: str(index) if task.items is None else task.items[index],
        "attempt": str(entry.attempt),
        "token": str(entry.token),
        **inputs,
    }


def job_environment(
    place: MailboxKey, entry: Entry, task: Task, values: Mapping[str, str], now_s: float
) -> dict[str, str]:
    """A task's own variables, and ours over them. The deadline is by this machine's clock, absent without a limit."""
    ours = {
        "FENCEPOST_DAG": values["run.dag"],
        "FENCEPOST_RUN": values["run.name"],
        "FENCEPOST_NAMESPACE": values["run.namespace"],
        "FENCEPOST_TASK": values["task.name"],
        "FENCEPOST_INDEX": values["index"],
        "FENCEPOST_ITEM": values["item"],
        "FENCEPOST_ATTEMPT": values["attempt"],
        "FENCEPOST_TOKEN": values["token"],
        "FENCEPOST_EXECUTION_ID": execution_id(entry.run_uid, place.job),
        "FENCEPOST_SCHEDULED_TIME": values["run.scheduledTime"],
    }
    if RUN_STATUS in values:
        ours |= {"FENCEPOST_RUN_STATUS": values[RUN_STATUS], "FENCEPOST_FAILED_TASKS": values[FAILED_TASKS]}
    if entry.timeout_s is not None:
        ours["FENCEPOST_DEADLINE"] = format_time(now_s + entry.timeout_s, millis=True)
    elsewhere = {source.name for source in task.env_from}
    return {name: substitute(value, values) for name, value in task.env if name not in elsewhere} | ours
