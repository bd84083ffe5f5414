"""Promises about attempts: how often a job is tried, what ends it for good, and what is cancelled for which reason.

Held against `docs/attempts.md`, at every write, by what workers said of the leases that a write settles.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from fencepost.api.names import CONTROLLER_REVISIONS, DAG_RUNS, Kind
from fencepost.api.times import parse_duration
from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase
from fencepost.core.run_state import Lease
from tests.unit.sim.checker import Checker
from tests.unit.sim.history import Stored, Written
from tests.unit.sim.reading import Reading
from tests.unit.sim.scene import Scene

TIME_LIMIT_CODE = 124
LOSSES_DEFAULT = 5
SETTLED_S = 60.0
OVER_S = 8.0
"""Until it is delivered, and its result is folded. A leader would stop it by itself, but not that soon."""
BEING_STOPPED = ("Cancelling", "TimingOut", "Cancelled", "RunTimedOut")


class Definitions(Checker):
    """Remembers definitions by revision, which are named by their content: they may be gone when they are needed."""

    kinds: ClassVar[tuple[Kind, ...]] = (DAG_RUNS, CONTROLLER_REVISIONS)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._definitions: dict[str, Mapping[str, Any]] = {}

    def see(self, written: Written) -> Iterator[str]:
        run = written.after
        if run is None:
            yield from self.gone(written.now)
        elif written.kind is CONTROLLER_REVISIONS:
            self._definitions[run.name] = run.obj["data"]
        elif written.status_changed:
            definition = self._definitions.get(run.spec.get("revision", ""))
            if definition is not None:
                yield from self.changed(written, run, definition)

    def changed(self, written: Written, run: Stored, definition: Mapping[str, Any]) -> Iterator[str]:
        """The status of a run has changed."""
        yield from ()

    def gone(self, run: Stored) -> Iterator[str]:
        """It is deleted, if it is one."""
        yield from ()


def tasks_of(definition: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """By name."""
    return {task["name"]: task for task in definition["tasks"]}


def marked(run: Stored, job: JobKey) -> bool:
    """Whether a person has said how a job ended in the present round."""
    marks = run.spec.get("overrides") or {}
    return any(
        key in (job.task, f"{job.task}/{job.index}") and mark.get("round", 0) == run.run.round
        for key, mark in marks.items()
    )


def stops(run: Stored, definition: Mapping[str, Any]) -> bool:
    """Whether a run is cancelled or out of time, by the clock of whoever has written it."""
    if run.spec.get("cancel") or run.run.reason in BEING_STOPPED:
        return True
    start_s, end_s = run.run.start_s, run.run.finish_s
    limit = definition.get("timeout")
    return limit is not None and start_s is not None and end_s is not None and end_s - start_s >= parse_duration(limit)


class TriedAsOftenAsItMay(Definitions):
    promise = "a job that fails is tried again as often as its rules say, and no more"

    def changed(self, written: Written, run: Stored, definition: Mapping[str, Any]) -> Iterator[str]:
        before = written.before
        if (
            before is None
            or run.run.round != before.run.round
            or any(stops(each, definition) for each in (before, run))
        ):
            return
        tasks = tasks_of(definition)
        for job, lease in before.run.leases.items():
            if run.run.leases.get(job) == lease or marked(run, job) or job.task not in tasks:
                continue
            task = tasks[job.task]
            if (task.get("forEach") or {}).get("failFast"):
                continue  # it may have been told to stop
            yield from self._settled(run, job, lease, retries_of(task, definition))

    def _settled(self, run: Stored, job: JobKey, lease: Lease, retries: Mapping[str, Any]) -> Iterator[str]:
        worker, gone = self.scene.history.worker(lease.worker), lease.worker in self.scene.history.left
        text = worker.results.get(run.key_of(job), "") if worker is not None else ""
        token, outcome, code, *_ = [*text.split(" "), "", "", ""]
        failed = run.end_of(job) is JobPhase.FAILED
        waiting, leased = run.run.waiting.get(job), run.run.leases.get(job)
        attempt, losses = (0, 0)
        if waiting is not None or leased is not None:
            following = waiting or leased
            assert following is not None
            attempt, losses = following.attempt, following.losses
        losses_max = retries.get("lossLimit", LOSSES_DEFAULT)
        what = f"{run.name} {job}, attempt {lease.attempt}+{lease.losses},"
        if token != str(lease.token):
            # nobody has said how it ended: a worker was lost, or has not obeyed
            if failed and gone and lease.losses < losses_max:
                yield f"{what} has lost its worker and is given up"
            return
        if gone and (losses > lease.losses or (failed and lease.losses >= losses_max)):
            return  # it was deleted before anybody had read that
        if outcome not in ("Failed", "TimedOut") or run.end_of(job) is JobPhase.SKIPPED:
            return  # what is skipped is held against its rule (`check_graph`)
        again = may_be_tried_again(retries, lease.attempt, outcome, code)
        self.scene.coverage[f"attempt failed, {'another follows' if again else 'the last one'}"] += 1
        if again and failed:
            yield f"{what} has {outcome} {code} and is given up: {dict(retries)}"
        elif not again and not failed:
            yield f"{what} has {outcome} {code} and is tried again: {dict(retries)}"
        elif again and (attempt, losses) != (lease.attempt + 1, lease.losses):
            yield f"{what} has {outcome} {code} and is followed by attempt {attempt}+{losses}"


def retries_of(task: Mapping[str, Any], definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """A task's, over the DAG's."""
    return {**definition.get("retries", {}), **task.get("retries", {})}


def may_be_tried_again(retries: Mapping[str, Any], attempt: int, outcome: str, code: str) -> bool:
    """Whether an attempt that ended so is followed by another."""
    number = TIME_LIMIT_CODE if outcome == "TimedOut" else int(code)
    if number < 0:
        number = 128 - number
    only = retries.get("retryOn") or [number]
    return attempt <= retries.get("limit", 0) and number in only and number not in retries.get("failOn", ())


class NothingIsCancelledForNothing(Definitions):
    promise = "a job is cancelled for a reason"

    def changed(self, written: Written, run: Stored, definition: Mapping[str, Any]) -> Iterator[str]:
        fresh = [job for job, (_, phase) in written.ends.items() if phase is JobPhase.CANCELLED]
        if not fresh or stops(run, definition):
            return
        reading = Reading(run, tasks_of(definition), {}, {})
        for name in {job.task for job in fresh}:
            room = reading.size(name) - reading.wanted(name)
            if not (reading.tasks[name].get("forEach") or {}).get("failFast"):
                yield f"{run.name} {name} is cancelled, and nobody has asked for it"
            elif reading.count(name, JobPhase.FAILED) <= room:
                yield f"{run.name} {name} fails fast though it can still succeed"
            else:
                self.scene.coverage["cancelled as its task fails fast"] += 1


class AttemptsKeepTheirLimit(Definitions):
    """By what is written: the lease of an attempt goes soon after its limit, as its worker stops it then."""

    promise = "in a well cluster an attempt is over soon after its limit and its grace"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._limited: dict[tuple[str, JobKey], tuple[Lease, float, float]] = {}
        """By UID of the run: its leases, since when, and for how long at most."""

    def changed(self, written: Written, run: Stored, definition: Mapping[str, Any]) -> Iterator[str]:
        for job in written.before.run.leases if written.before is not None else ():
            if job not in run.run.leases and self._limited.pop((run.uid, job), None) is not None:
                self.scene.coverage["attempt with a limit is over"] += 1
        tasks = tasks_of(definition) if written.new_leases else {}
        for job, lease in written.new_leases.items():
            if "timeout" in tasks.get(job.task, {}):
                grace_s = parse_duration(definition["terminationGracePeriod"])
                limit_s = parse_duration(tasks[job.task]["timeout"]) + grace_s + OVER_S
                self._limited[run.uid, job] = lease, written.at_s, limit_s
        yield from ()

    def gone(self, run: Stored) -> Iterator[str]:
        for place in [place for place in self._limited if place[0] == run.uid]:
            del self._limited[place]
        yield from ()

    def look(self) -> Iterator[str]:
        now_s, well_since_s = self.scene.loop.now_s, self.scene.plan.calm_from_s + SETTLED_S
        if now_s < well_since_s:
            return
        for (uid, job), (lease, since_s, limit_s) in self._limited.items():
            if now_s - max(since_s, well_since_s) > limit_s:
                yield f"{job} of run {uid}, leased to {lease.worker} at {since_s:g} s, is not over at {now_s:g} s"


ATTEMPT_CHECKERS = (TriedAsOftenAsItMay, NothingIsCancelledForNothing, AttemptsKeepTheirLimit)
