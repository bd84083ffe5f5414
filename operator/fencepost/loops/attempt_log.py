"""What was seen of the attempts of jobs that may die yet: told in their dead letters, and nowhere stored before.

Only a leader that saw an attempt end knows of it; the next one does not. What is kept is little: the latest attempts of
jobs that have failed and not succeeded since, and the output of the last one alone.
"""

from collections.abc import Sequence
from dataclasses import replace

from fencepost.core.dead_letters import Attempt
from fencepost.core.names import JobKey
from fencepost.core.run_state import Result

ATTEMPTS_KEPT_MAX = 10
"""Of one job."""


class AttemptLog:
    """Failed attempts by run and job."""

    def __init__(self) -> None:
        self._runs: dict[str, dict[JobKey, list[Attempt]]] = {}

    def note(self, run_uid: str, job: JobKey, number: int, result: Result) -> None:
        """The job's attempt of this number has failed."""
        kept = self._runs.setdefault(run_uid, {}).setdefault(job, [])
        kept[:] = [replace(each, result=replace(each.result, message="", output="")) for each in kept]
        kept.append(Attempt(number, result))
        del kept[:-ATTEMPTS_KEPT_MAX]

    def drop(self, run_uid: str, job: JobKey) -> None:
        """The job will leave no letter."""
        jobs = self._runs.get(run_uid, {})
        jobs.pop(job, None)

    def of(self, run_uid: str, job: JobKey) -> Sequence[Attempt]:
        """What was seen, oldest first."""
        return self._runs.get(run_uid, {}).get(job, ())

    def forget(self, run_uid: str) -> None:
        """The run has ended, is gone, or is another replica's."""
        self._runs.pop(run_uid, None)
