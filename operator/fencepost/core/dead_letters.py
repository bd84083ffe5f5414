"""Dead letters: what is left of a job that failed for good, so that somebody can look at it and have it run again.

The order of writes is what makes them safe. A job dies in the write that folds its last failure; the same write notes
it as dying, and the run does not finish while a job is. Then the letter is created, under a name that follows from the
job and its round, so that creating it twice is creating it once. The next write of the run drops the note. Whoever
crashes in between, the note is there and the letter is written by the next leader.

A DAG keeps so many letters and no more. Beyond that the oldest letters that were replayed with success make room; where
there is none, a death is counted and leaves no letter.

What a run does not keep, and so does not survive a change of leaders: the times of earlier attempts, and the end of the
output of all but the first few jobs that failed.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fencepost.core.draft import Draft
from fencepost.core.graph import Graph
from fencepost.core.intervals import EMPTY, IntervalSet
from fencepost.core.names import JobKey, content_hash
from fencepost.core.phases import JobPhase
from fencepost.core.rounds import tasks_below
from fencepost.core.run_state import Death, Lease, LetterSet, Result, RunState

REPLAYING, SUCCEEDED, FAILED, REFUSED = "Replaying", "Succeeded", "Failed", "Refused"
"""What a letter tells of its last replay: it has begun; how the job ended; it cannot be run."""
WORKER_LOST = "WorkerLost"
"""In place of an outcome: no worker has said how its last attempt ended."""
NOT_STARTED = "NotStarted"
"""In place of an outcome: it failed before a worker had it."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt of a job that failed, as it was seen."""

    number: int
    result: Result


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a letter tells of its last replay."""

    phase: str = ""
    """Replaying, Succeeded, Failed or Refused; empty if it was never replayed."""
    replay: int = 0
    run: str = ""
    run_uid: str = ""
    round: int = 0


@dataclass(frozen=True, slots=True)
class Letter:
    """A stored dead letter, as far as it matters for replaying it."""

    dag: str
    run: str
    run_uid: str
    job: JobKey
    round: int
    revision: str = ""
    replay: int = 0
    """How often a person has asked for a replay."""
    replayed: Replayed = Replayed()

    @property
    def pending(self) -> bool:
        """Whether a replay has been asked for that the letter does not tell of yet."""
        return self.replay > self.replayed.replay


@dataclass(frozen=True, slots=True)
class Stored:
    """A letter that a DAG keeps, as far as it matters for who makes room."""

    name: str
    created_s: float
    replayed_well: bool


def letter_name(dag: str, run_uid: str, job: JobKey, round_: int) -> str:
    """The name of the letter of a job that died in this round of the run with this UID."""
    return f"{dag}-d{_hash(f'{run_uid}/{job}/{round_}')}"


def replay_run_name(dag: str, letter: str, replay: int) -> str:
    """The name of the run that replays a letter for the n-th time, where the letter's own run is gone.

    Never one of a scheduled run, which ends in ten digits.
    """
    return f"{dag}-r{_hash(f'{letter}#{replay}')}"


def note_deaths(draft: Draft, failed: Iterable[JobKey], results: Mapping[JobKey, Result], room: int) -> int:
    """Note the jobs that failed for good as dying, as many as there is room for letters; how many are left without.

    `results`: the accepted ones. A job that died at the same time as others is told of first if it comes first by name.
    """
    dead = sorted(set(failed))
    for job in dead[: max(0, room)]:
        draft.dying[job] = _death(draft.stored, job, results.get(job))
    return max(0, len(dead) - max(0, room))


def forget_told(draft: Draft, lettered: Collection[JobKey], told: Mapping[LetterSet, IntervalSet]) -> None:
    """Drop the notes of what stands in letters by now. `told`: letters that tell that they are being replayed."""
    for job in lettered:
        draft.dying.pop(job, None)
    for letters, indices in told.items():
        left = draft.replays.pop(letters, EMPTY).difference(indices)
        if left:
            draft.replays[letters] = left


def to_make_room(stored: Collection[Stored], limit: int) -> list[str] | None:
    """The letters that go before another one is written; None where no room can be made."""
    surplus = len(stored) + 1 - limit
    if surplus <= 0:
        return []
    done = sorted((letter for letter in stored if letter.replayed_well), key=lambda each: (each.created_s, each.name))
    return [letter.name for letter in done[:surplus]] if len(done) >= surplus else None


def only_from(graph: Graph, job: JobKey, epoch: int) -> RunState | None:
    """A new run in which this job and what depends on it is to run, and all else counts as done; None: no such job."""
    task = graph.tasks.get(job.task)
    if task is None or job.index >= task.size:
        return None
    draft = Draft(RunState(epoch=epoch, total=graph.size))
    below = tasks_below(graph, {job.task})
    for other in graph.order:
        if other.name not in below:
            jobs = IntervalSet.span(0, other.size - 1)
            jobs = jobs.difference(IntervalSet.of([job.index])) if other is task else jobs
            draft.mark(other, jobs, JobPhase.SUCCEEDED)
    return draft.freeze()


def _death(stored: RunState, job: JobKey, result: Result | None) -> Death:
    lease: Lease | None = stored.leases.get(job)
    waiting = stored.waiting.get(job)
    if lease is None:
        tried = 0 if waiting is None else waiting.attempt - 1
        return Death(stored.round, tried, 0 if waiting is None else waiting.losses, NOT_STARTED)
    if result is None:
        return Death(stored.round, lease.attempt, lease.losses + 1, WORKER_LOST)
    return Death(
        stored.round,
        lease.attempt,
        lease.losses,
        str(result.outcome),
        result.exit_code,
        result.started_at_s,
        result.ended_at_s,
    )


def _hash(text: str) -> str:
    """Nine characters after a letter: together as long as what ends the name of a scheduled run, and never digits."""
    return content_hash(text.encode())[:9]
