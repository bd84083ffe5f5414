"""Promises about what people ask of runs: to wait, to go on in another round, to take their word, to replay letters."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from fencepost.api.names import DAG_RUNS, DAGS, DEAD_LETTERS, Kind
from fencepost.core.intervals import parse_intervals
from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase
from tests.unit.sim.check_attempts import Definitions, marked, stops, tasks_of
from tests.unit.sim.checker import Checker
from tests.unit.sim.history import Stored, Written
from tests.unit.sim.reading import Reading
from tests.unit.sim.scene import Scene

LETTERS_DEFAULT: Final = 100
STOPPED_S: Final = 60.0
"""A run that is cancelled in a well cluster has ended by then: its jobs have few seconds of grace here."""
SETTLED_S: Final = 60.0

LetterKey = tuple[str, str, int, int]
"""UID of the run, task, index, round in which it died."""


class PeoplesWordHolds(Checker):
    """Exactly so, from the write on that stores it: lease and wish stand in one object."""

    promise = "from the moment that it is stored, a suspended run leases nothing, nor a marked job"
    kinds = (DAG_RUNS,)

    def see(self, written: Written) -> Iterator[str]:
        run = written.after
        if run is None or not written.status_changed:
            return
        marks = run.spec.get("overrides") or {}
        for job, lease in written.new_leases.items():
            if run.spec.get("suspend"):
                yield f"{run.name} is suspended and leases {job} under token {lease.token}"
            if marks and marked(run, job):
                yield f"{run.name} {job} is marked by hand and leased under token {lease.token}"
        if run.run.reason == "Suspended":
            self.scene.coverage["run suspended"] += 1
        if run.run.phase.finished and marks:
            yield from self._ended_as_marked(run, marks)

    def _ended_as_marked(self, run: Stored, marks: Mapping[str, Any]) -> Iterator[str]:
        for job, phase in run.ended.items():
            mark = marks.get(str(job)) or {"round": -1}
            if mark.get("round", 0) != run.run.round:
                mark = marks.get(job.task) or {"round": -1}
            if mark.get("round", 0) == run.run.round:
                self.scene.coverage["job ended as marked"] += 1
                if phase != mark["phase"]:
                    yield f"{run.name} {job} is marked {mark['phase']} and has {phase}"


class RoundsKeepWhatIsGood(Definitions):
    promise = "another round runs again what was asked for, and keeps all else with its output"

    def changed(self, written: Written, run: Stored, definition: Mapping[str, Any]) -> Iterator[str]:
        before = written.before
        for job, lease in written.new_leases.items():
            known = before is not None and (job in before.run.leases or job in before.run.waiting)
            if not known and (lease.attempt, lease.losses) != (1, 0):
                yield f"{run.name} {job} begins with attempt {lease.attempt}+{lease.losses}"
        if before is None or before.run.round == run.run.round:
            return
        if run.run.round != before.run.round + 1 or run.spec.get("round", 0) < run.run.round:
            yield f"{run.name} goes from round {before.run.round} to {run.run.round}"
        self.scene.coverage["round begun"] += 1
        if not run.spec.get("overrides"):  # they have jobs judged anew
            yield from self._begun(before, run, tasks_of(definition))

    def _begun(self, before: Stored, run: Stored, tasks: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
        """A round has begun, in which nobody has marked anything."""
        rerun = run.spec.get("rerun") or {}
        if rerun.get("round") != run.run.round:
            rerun = {}
        reading = Reading(before, tasks, {}, {})
        chosen = {name: self._chosen(before, reading, rerun, name) for name in tasks}
        for letters, indices in run.run.replays.items():
            chosen[letters.task] |= set(indices)
        below = self._below(tasks, {name for name, jobs in chosen.items() if jobs})
        for job, phase in before.ended.items():
            left = rerun.get("downstream", False) or phase in (JobPhase.SKIPPED, JobPhase.CANCELLED)
            if job.index in chosen[job.task] or (job.task in below and left):
                at_once = run.ended.get(job) in (JobPhase.SUCCEEDED, JobPhase.FAILED)
                if at_once and job.task not in failed_at_once(run):
                    yield f"{run.name} {job} is to run again and still has {phase}"
                continue
            self.scene.coverage[f"kept through a round: {phase}"] += 1
            if run.ended.get(job) is not phase:
                yield f"{run.name} {job} had {phase}, is not to run again, and is {run.ended.get(job)}"
            if run.run.outputs.get(job) != before.run.outputs.get(job):
                yield f"{run.name} {job} loses its output to a round that does not concern it"

    @staticmethod
    def _chosen(run: Stored, reading: Reading, rerun: Mapping[str, Any], name: str) -> set[int]:
        every = set(range(reading.size(name)))
        match rerun.get("from", "Failed"):
            case "All":
                return every
            case "Failed":
                return {job.index for job, phase in run.ended.items() if job.task == name and phase != "Succeeded"}
        indices = (rerun.get("jobs") or {}).get(name)
        if indices is None:
            return set()
        return every if indices == "*" else every & set(parse_intervals(indices))

    @staticmethod
    def _below(tasks: Mapping[str, Mapping[str, Any]], names: set[str]) -> set[str]:
        below: set[str] = set()
        for _ in tasks:
            for name, task in tasks.items():
                if any(parent in names | below for parent in task.get("dependsOn") or ()):
                    below.add(name)
        return below


def failed_at_once(run: Stored) -> set[str]:
    """Tasks that may have failed in the very write in which they were opened, as nobody can say whether they run."""
    return {job.task for job, text in run.run.failures.items() if text.startswith(("ConditionFailed", "ListFailed"))}


class LettersAreWritten(Definitions):
    """One for each job that has failed for good, while its DAG has room for it, and before its run ends."""

    promise = "a job that failed for good leaves one dead letter before its run ends"
    kinds: ClassVar[tuple[Kind, ...]] = (*Definitions.kinds, DEAD_LETTERS)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._dead: dict[str, set[LetterKey]] = {}
        """By UID of the run: for which a letter must be written."""
        self._written: set[LetterKey] = set()

    def see(self, written: Written) -> Iterator[str]:
        if written.kind is not DEAD_LETTERS:
            yield from super().see(written)
        elif written.before is None:
            job = written.now.spec["job"]
            key = (job["runUID"], job["task"], job.get("index", 0), job["round"])
            if key in self._written:
                yield f"{written.name} tells once more of {key}"
            self._written.add(key)
            self.scene.coverage[f"dead letter {job['reason']}"] += 1

    def gone(self, run: Stored) -> Iterator[str]:
        self._dead.pop(run.uid, None)
        yield from ()

    def changed(self, written: Written, run: Stored, definition: Mapping[str, Any]) -> Iterator[str]:
        before = written.before
        dead = self._dead.setdefault(run.uid, set())
        fresh = [job for job, (_, phase) in written.ends.items() if phase is JobPhase.FAILED]
        marked = {job for job, (_, phase) in written.ends.items() if phase is JobPhase.SUCCEEDED}
        dead -= {(run.uid, job.task, job.index, run.run.round) for job in marked}  # a person has found it good
        known = before is not None or run.spec.get("trigger") == "Schedule"
        alone = known and not run.spec.get("overrides") and not stops(run, definition)
        if fresh and alone and self._has_room(run, fresh):
            dead |= {(run.uid, job.task, job.index, run.run.round) for job in fresh}
        if before is not None and before.run.round != run.run.round:
            dead = self._dead[run.uid] = {key for key in dead if key[3] == run.run.round}
        if run.run.phase.finished:
            dag = self.scene.history.objects[DAGS].get(run.spec["dag"])
            if dag is not None and dag.uid == run.spec.get("dagUID"):
                yield from (f"{run.name} ends, and there is no letter of {key}" for key in sorted(dead - self._written))
            dead.clear()

    def _has_room(self, run: Stored, fresh: Sequence[JobKey]) -> bool:
        """Whether there is room for these besides all that may be about to be written."""
        dag = self.scene.history.objects[DAGS].get(run.spec["dag"])
        limit = (dag.spec.get("deadLetters") or {}).get("limit", LETTERS_DEFAULT) if dag is not None else 0
        letters = self.scene.history.objects[DEAD_LETTERS].values()
        kept = sum(letter.spec["job"]["dag"] == run.spec["dag"] for letter in letters)
        runs = self.scene.history.objects[DAG_RUNS].values()
        dying = sum(len(each.run.dying) for each in runs if each.spec["dag"] == run.spec["dag"])
        return bool(kept + dying + len(fresh) <= limit)


class ReplaysAreMadeOnce(Checker):
    promise = "each replay of a dead letter has its job run once more, and the letter tells how that went"
    kinds = (DAG_RUNS, DEAD_LETTERS)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._asked: dict[LetterKey, int] = {}
        self._begun: dict[LetterKey, int] = {}
        self._rounds: dict[tuple[str, int], Mapping[JobKey, JobPhase]] = {}
        """By UID of a run and round: how its jobs ended."""

    def see(self, written: Written) -> Iterator[str]:
        if written.kind is DEAD_LETTERS:
            if written.after is not None:
                yield from self._told(written.before, written.after)
            return
        run, before = written.after, written.before
        if run is None:
            return
        if run.run.phase.finished:
            self._rounds[run.uid, run.run.round] = run.ended
        if before is None or run.run.round == before.run.round:
            return
        for (task, round_), indices in run.run.replays.items():
            for index in indices:
                key = (run.uid, task, index, round_)
                self._begun[key] = self._begun.get(key, 0) + 1
                self.scene.coverage["replay in a round"] += 1
                if self._begun[key] > self._asked.get(key, 0):
                    asked = self._asked.get(key, 0)
                    yield f"{run.name} replays {key} for the {self._begun[key]}. time, {asked} are asked for"

    def _told(self, before: Stored | None, letter: Stored) -> Iterator[str]:
        job = letter.spec["job"]
        key = (job["runUID"], job["task"], job.get("index", 0), job["round"])
        self._asked[key] = letter.spec.get("replay", 0)
        phase, old = letter.status.get("phase"), before.status if before is not None else {}
        if phase is None or letter.status == old:
            return
        self.scene.coverage[f"letter {phase}"] += 1
        if letter.status["replay"] > self._asked[key]:
            yield f"{letter.name} tells of replay {letter.status['replay']}, {self._asked[key]} are asked for"
        if phase in ("Succeeded", "Failed"):
            ends = self._rounds.get((letter.status["runUID"], letter.status.get("round", 0)), {})
            end = ends.get(JobKey(job["task"], job.get("index", 0)))
            if (phase == "Succeeded") != (end is JobPhase.SUCCEEDED):
                yield f"{letter.name} tells that its replay has {phase}, and the job has {end}"


class CancelledRunsEnd(Checker):
    promise = "in a well cluster a cancelled run ends in time"
    kinds = (DAG_RUNS,)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._since_s: dict[str, float] = {}
        """By UID."""

    def see(self, written: Written) -> Iterator[str]:
        run = written.after
        if run is None or run.run.phase.finished or not run.spec.get("cancel"):
            self._since_s.pop(written.now.uid, None)
        else:
            self._since_s.setdefault(run.uid, written.at_s)
        yield from ()

    def look(self) -> Iterator[str]:
        well_since_s = self.scene.plan.calm_from_s + SETTLED_S
        for uid, since_s in self._since_s.items():
            if self.scene.loop.now_s - max(since_s, well_since_s) > STOPPED_S:
                run = next(run for run in self.scene.history.objects[DAG_RUNS].values() if run.uid == uid)
                yield f"{run.name} was cancelled at {since_s:g} s and is {run.run.phase}: {run.run.message}"


REPAIR_CHECKERS = (PeoplesWordHolds, RoundsKeepWhatIsGood, LettersAreWritten, ReplaysAreMadeOnce, CancelledRunsEnd)
