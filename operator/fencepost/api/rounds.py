"""What a person asks of a run that has begun: `spec.rerun` and `spec.overrides`, to and from values of the core.

Reading is lenient where the schema cannot be strict: a run must never be set aside for a wish that a person has
misspelled. Indices may come in any order, what is no index is passed over, and so is the mark of no job.
"""

import re
from collections.abc import Mapping
from typing import Any

from fencepost.core.definition import FAN_OUT_MAX
from fencepost.core.intervals import IntervalSet
from fencepost.core.phases import MARKS, JobPhase
from fencepost.core.run_spec import Mark, Rerun, RerunFrom

ALL_JOBS = "*"
_SPAN = re.compile(r"\s*([0-9]{1,5})(?:-([0-9]{1,5}))?\s*")
_MARKED = re.compile(r"[^/]+(/[0-9]{1,5})?")


def read_rerun(spec: Mapping[str, Any]) -> Rerun:
    """What the round of `spec.round` runs again; what another round was to run does not count."""
    rerun = spec.get("rerun")
    if not rerun or rerun.get("round") != spec.get("round", 0):
        return Rerun()
    return Rerun(
        source=RerunFrom(rerun.get("from", RerunFrom.FAILED)),
        jobs={task: _indices(text) for task, text in rerun.get("jobs", {}).items()},
        downstream=bool(rerun.get("downstream", False)),
    )


def read_marks(spec: Mapping[str, Any]) -> Mapping[str, Mark]:
    """The jobs that are marked by hand, in whatever round."""
    return {
        job: Mark(JobPhase(mark["phase"]), str(mark.get("by", "")), int(mark.get("round", 0)))
        for job, mark in spec.get("overrides", {}).items()
        if _MARKED.fullmatch(job) and mark["phase"] in MARKS
    }


def rerun_part(rerun: Rerun, round_: int) -> dict[str, Any]:
    """`spec.rerun` as it is sent, for the round of this number."""
    part: dict[str, Any] = {"round": round_, "from": str(rerun.source)}
    if rerun.jobs:
        part["jobs"] = {task: ALL_JOBS if jobs is None else str(jobs) for task, jobs in rerun.jobs.items()}
    if rerun.downstream:
        part["downstream"] = True
    return part


def _indices(text: str) -> IntervalSet | None:
    if text.strip() == ALL_JOBS:
        return None
    numbers: set[int] = set()
    for part in text.split(","):
        if found := _SPAN.fullmatch(part):
            first = int(found[1])
            numbers |= set(range(first, min(int(found[2] or first), FAN_OUT_MAX) + 1))
    return IntervalSet.of(numbers)
