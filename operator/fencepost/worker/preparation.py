"""From an entry to what is started: the definition, verified; the run's params; every `$(…)` replaced.

A mailbox names only a revision. Its content is read from the API server once and kept, as its name is its hash: what
somebody changed under the same name is refused, never run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import orjson

from fencepost.api.codec import decode_run_status
from fencepost.api.names import CONTROLLER_REVISIONS, DAG_RUNS, Kind
from fencepost.api.revisions import definition_hash, read_definition
from fencepost.base.clock import Clock
from fencepost.core.definition import Definition, Task
from fencepost.core.fan_out import ListError
from fencepost.core.inputs import job_inputs
from fencepost.core.names import MailboxKey
from fencepost.core.outputs import list_sources, output_bytes_max
from fencepost.core.run_state import Entry, RunState
from fencepost.core.substitution import UnresolvedReferenceError, substitute
from fencepost.kube.errors import NotFoundError
from fencepost.kube.protocol import Api, Obj
from fencepost.worker.environment import dag_of_revision, job_environment, reference_values
from fencepost.worker.objects import uid_of
from fencepost.worker.patient import PatientReads
from fencepost.worker.reads import SharedReads
from fencepost.worker.runner import JobSource, Launch
from fencepost.worker.values import NotAllowedError, read_values

DEFINITIONS_MAX: Final = 128
DEFINITIONS_BYTES_MAX: Final = 16 * 1024 * 1024
"""As JSON; in memory they are a few times larger."""
RUNS_MAX: Final = 1024
RUNS_BYTES_MAX: Final = 4 * 1024 * 1024
"""As JSON; in memory they are a few times larger."""


class InvalidJobError(Exception):
    """The job cannot be started on any worker; `str()` names the object, the fact and the remedy."""


class DefinitionGoneError(Exception):
    """The revision that holds the job's definition does not exist; the operator may be able to store it again."""


@dataclass(frozen=True, slots=True)
class RunRead:
    """What a worker needs of a run's object."""

    params: Mapping[str, str]
    state: RunState


class Preparation:
    """Makes launches for the jobs of one worker process."""

    def __init__(self, api: Api, clock: Clock, worker: str, pool: str) -> None:
        self._reads = PatientReads(api, clock, worker)
        self._clock = clock
        self._pool = pool
        self._definitions: SharedReads[Definition] = SharedReads(DEFINITIONS_MAX, DEFINITIONS_BYTES_MAX)
        self._runs: SharedReads[RunRead] = SharedReads(RUNS_MAX, RUNS_BYTES_MAX)

    async def launch(self, place: MailboxKey, entry: Entry) -> Launch:
        """All that is needed to start the job. Where it cannot be had: one of the two errors above, UnavailableError,
        or CannotStartError."""
        definition = await self._definition(place.run.namespace, entry.revision)
        task = _task_of(definition, place, entry.revision)
        try:
            params, inputs = await self._values(place, entry, definition)
            values = reference_values(place, entry, definition, task, params, inputs)
            from_elsewhere = await read_values(self._reads, self._pool, place.run.namespace, task.env_from)
            return Launch(
                source=JobSource(place.run, place.job, entry.attempt),
                command=tuple(substitute(word, values) for word in (*task.command, *task.args)),
                env=from_elsewhere | job_environment(place, entry, task, values, self._clock.now_s()),
                output_bytes_max=output_bytes_max(task.name, list_sources(definition.tasks)),
            )
        except NotAllowedError as error:
            raise InvalidJobError(str(error)) from error
        except (UnresolvedReferenceError, ListError) as error:
            raise InvalidJobError(f"task {task.name} of DAG {dag_of_revision(entry.revision)}: {error}") from error

    async def close(self) -> None:
        """End what is being read."""
        await self._definitions.close()
        await self._runs.close()

    async def _definition(self, namespace: str, revision: str) -> Definition:
        async def read() -> tuple[Definition, int]:
            obj = await self._get(CONTROLLER_REVISIONS, namespace, revision)
            data = obj.get("data")
            return _verified(data, namespace, revision), len(orjson.dumps(data))

        return await self._definitions.get(f"{namespace}/{revision}", read)

    async def _values(
        self, place: MailboxKey, entry: Entry, definition: Definition
    ) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """The run's params and the job's inputs: from the entry, or from the run where they are too large for it."""
        if entry.params is not None:
            return entry.params, entry.inputs
        run = await self._run(place, entry)
        return run.params, job_inputs({task.name: task for task in definition.tasks}, place.job, run.state)

    async def _run(self, place: MailboxKey, entry: Entry) -> "RunRead":
        """The run as it is when a job of this task is first leased here: what concerns the task stands still then."""

        async def read() -> tuple[RunRead, int]:
            run = await self._get(DAG_RUNS, place.run.namespace, place.run.name)
            if uid_of(run) != entry.run_uid:
                raise InvalidJobError(f"DAGRun {place.run} is another one now: it has been deleted and made again")
            return _read_run(run, place), len(orjson.dumps(run))

        return await self._runs.get(f"{entry.run_uid}/{entry.round}/{place.job.task}", read)

    async def _get(self, kind: Kind, namespace: str, name: str) -> Obj:
        try:
            return await self._reads.get(kind, namespace, name)
        except NotFoundError as error:
            fact = f"{kind.kind} {namespace}/{name} does not exist"
            if kind is CONTROLLER_REVISIONS:
                fact = f"{fact} and its DAG has another content by now"
                raise DefinitionGoneError(f"{fact}: start the run anew") from error
            raise InvalidJobError(f"{fact}; somebody has deleted it: start the run anew") from error


def _read_run(run: Obj, place: MailboxKey) -> RunRead:
    try:
        params = (run.get("spec") or {}).get("params") or {}
        return RunRead(params, decode_run_status(run["status"]) if "status" in run else RunState())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        fact = f"the status of DAGRun {place.run} cannot be read ({error!r})"
        raise InvalidJobError(f"{fact}; somebody has edited it: start the run anew") from error


def _verified(data: object, namespace: str, revision: str) -> Definition:
    """The definition, if it is the one that the revision's name promises."""
    where = f"ControllerRevision {namespace}/{revision}"
    remedy = f"delete it, and start the run anew after DAG {dag_of_revision(revision)} has been read again"
    if not isinstance(data, dict):
        raise InvalidJobError(f"{where} holds no definition; {remedy}")
    found = definition_hash(data)
    if not revision.endswith(f"-{found}"):
        raise InvalidJobError(f"{where} holds a content with the hash {found}: it has been changed; {remedy}")
    definition = read_definition(data)
    if isinstance(definition, list):
        raise InvalidJobError(f"{where} cannot be read: {definition[0]}; {remedy}")
    return definition


def _task_of(definition: Definition, place: MailboxKey, revision: str) -> Task:
    for task in definition.tasks:
        if task.name == place.job.task and (task.items_from is not None or place.job.index < task.size):
            return task
    fact = f"revision {revision} has no job {place.job}"
    raise InvalidJobError(f"{fact}; the run names another revision than it was made from: start it anew")
