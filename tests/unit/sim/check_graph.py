"""Promises about graphs: which task runs, which is skipped, what its jobs see, and how the run ends.

Held against a plain reading of the documents (`reading`), at every write. What jobs put out follows from the token
whose result was accepted, as the checkers saw it accepted; the outputs that a run has recorded are not asked.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase
from fencepost.core.plan_workers import token_of
from tests.unit.sim.check_attempts import Definitions, marked, tasks_of
from tests.unit.sim.cluster import Job
from tests.unit.sim.history import Stored, Written
from tests.unit.sim.reading import FAIL, FAILED, RUN, SKIP, Reading
from tests.unit.sim.scene import Scene
from tests.unit.sim.scripts import Script, put_out

NO_ITEM = "no item, as its list has none for it: it is not to start"


class GraphIsKept(Definitions):
    promise = "a graph is followed as it is written"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._outputs: dict[str, dict[JobKey, str]] = {}
        """By UID of a run: what was put out under the tokens whose results were accepted."""
        self._partial: set[str] = set()
        """UIDs of runs of which a part counted as done when they were made."""
        self._begun: dict[str, set[str]] = {}
        """By UID of a run: the tasks of which a job has been leased in this round, since it was last opened again."""
        self._seen: dict[tuple[str, int], Mapping[str, str]] = {}
        """By execution and token: what the job is to see, by reference."""

    def gone(self, run: Stored) -> Iterator[str]:
        self._outputs.pop(run.uid, None)
        self._begun.pop(run.uid, None)
        yield from ()

    def changed(self, written: Written, run: Stored, definition: Mapping[str, Any]) -> Iterator[str]:
        before = written.before
        if before is None and run.ended:
            self._partial.add(run.uid)
        tasks = tasks_of(definition)
        outputs = self._account(written, run, tasks)
        params = {**definition.get("params", {}), **(run.spec.get("params") or {})}
        reading = Reading(run, tasks, params, outputs)
        yield from self._leased(written, reading, params)
        yield from self._ended(written, reading)
        if run.run.phase.finished and run.uid not in self._partial:
            yield from self._finished(reading)

    def job_started(self, job: Job) -> Iterator[str]:
        wanted = self._seen.get((job.execution, job.token))
        if wanted is None:
            return
        script = Script.of(job.launch.command)
        for name, value in wanted.items():
            shown = job.launch.env["FENCEPOST_ITEM"] if name == "FENCEPOST_ITEM" else script.value(name)
            if shown != value:
                yield f"{job.execution} under token {job.token} sees {name} as {shown!r}, not as {value!r}"
            self.scene.coverage[f"seen {name.partition('.')[0]}"] += 1

    def _account(self, written: Written, run: Stored, tasks: Mapping[str, Any]) -> Mapping[JobKey, str]:
        """What the run's jobs have put out by now."""
        outputs, before = self._outputs.setdefault(run.uid, {}), written.before
        for job, (_, phase) in written.ends.items():
            outputs.pop(job, None)
            lease = before.run.leases.get(job) if before is not None else None
            if phase is not JobPhase.SUCCEEDED or lease is None or marked(run, job):
                continue
            worker = self.scene.history.worker(lease.worker)
            result = worker.results.get(run.key_of(job), "") if worker is not None else ""
            if token_of(result or "0") == lease.token and " Succeeded " in result[:40]:
                puts = Script.of(tasks[job.task]["command"]).value("puts")
                outputs[job] = put_out(puts, f"{run.uid}/{job.task}/{job.index}", lease.token)
        return outputs

    def _leased(self, written: Written, reading: Reading, params: Mapping[str, str]) -> Iterator[str]:
        run = reading.run
        begun = self._account_begun(written, run)
        for name in {job.task for job in written.new_leases}:
            task = reading.tasks[name]
            is_asked = name not in begun and not kept(written, run, name, JobPhase.SUCCEEDED)
            verdict = reading.verdict(name) if is_asked else reading.by_rule(name)
            begun.add(name)
            self.scene.coverage[f"leased under {task.get('rule', 'AllSucceeded')}"] += 1
            if verdict != RUN:
                ends = {parent: reading.outcome(parent) for parent in task.get("dependsOn") or ()}
                yield f"{run.name} {name} is leased, it is to {verdict}: {task.get('rule')} {task.get('when')} {ends}"
            at_once = sum(job.task == name for job in run.run.leases)
            if at_once > task.get("maxParallel", at_once):
                yield f"{run.name} {name} has {at_once} leases, {task['maxParallel']} are allowed"
            if "forEach" in task and run.uid not in self._partial:
                yield from self._counted(written, reading, name)
        for job, lease in written.new_leases.items():
            key = (f"{run.uid}/{job.task}/{job.index}", lease.token)
            if run.uid not in self._partial and not run.spec.get("overrides"):
                self._seen[key] = self._what_it_sees(reading, job, params)

    def _account_begun(self, written: Written, run: Stored) -> set[str]:
        """The tasks that had begun before this write, and whose condition need not be asked any more."""
        begun, before = self._begun.setdefault(run.uid, set()), written.before
        if before is None or before.run.round != run.run.round:
            begun.clear()
        for name in {job.task for job, (old, _) in written.ends.items() if old is not None}:
            if not busy(written, name) and not kept(written, run, name, JobPhase.SUCCEEDED):
                begun.discard(name)
        return begun

    def _counted(self, written: Written, reading: Reading, name: str) -> Iterator[str]:
        """As many jobs as there are items, unless one that there was before has kept its end, or goes on."""
        run, before = reading.run, written.before
        size, items = reading.size(name), reading.items(name)
        if before is not None and (busy(written, name) or any(kept(written, run, name, end) for end in JobPhase)):
            recorded = before.run.tasks.get(name)
            if recorded is not None and recorded.size not in (None, size):
                yield f"{run.name} {name} has {size} jobs, it had {recorded.size}"
        elif items is not None and size != len(items):
            yield f"{run.name} {name} has {size} jobs for {len(items)} items"

    def _what_it_sees(self, reading: Reading, job: JobKey, params: Mapping[str, str]) -> Mapping[str, str]:
        task, script = reading.tasks[job.task], Script.of(reading.tasks[job.task]["command"])
        item = str(job.index)
        if "forEach" in task:
            items = reading.items(job.task) or []
            item = items[job.index] if job.index < len(items) else NO_ITEM
        known = {"index": str(job.index), "item": item, **{f"params.{name}": text for name, text in params.items()}}
        known |= {f"tasks.{parent}.output": reading.output(parent) for parent in task.get("dependsOn") or ()}
        return {"FENCEPOST_ITEM": item} | {name: text for name, text in known.items() if script.value(name)}

    def _ended(self, written: Written, reading: Reading) -> Iterator[str]:
        """Jobs that were skipped, or failed without a worker."""
        run, before = reading.run, written.before
        leased = before.run.leases if before is not None else {}
        fresh = {job: phase for job, (_, phase) in written.ends.items() if job not in leased}
        tried = {**leased, **(before.run.waiting if before is not None else {})}
        for name in {job.task for job, (_, now) in written.ends.items() if now is JobPhase.SKIPPED and job in tried}:
            self.scene.coverage["skipped after an attempt"] += 1
            if reading.by_rule(name) != SKIP:
                yield f"{run.name} {name} is skipped after an attempt, and its rule is met"
        for name in {job.task for job, phase in fresh.items() if phase is JobPhase.SKIPPED}:
            self.scene.coverage[f"skipped under {reading.tasks[name].get('rule', 'AllSucceeded')}"] += 1
            if reading.verdict(name) == RUN:
                yield f"{run.name} {name} is skipped, and its rule is met"
            if reading.by_rule(name) == RUN:
                self.scene.coverage["skipped as its condition is false"] += 1
        marked = run.spec.get("overrides") or {}
        for name in {job.task for job, phase in fresh.items() if phase is JobPhase.FAILED}:
            if reading.verdict(name) == FAIL:
                self.scene.coverage["failed as nobody can say whether or how often it runs"] += 1
            elif not any(mark.partition("/")[0] == name for mark in marked) and not self._queues(run, name):
                yield f"{run.name} {name} has failed, and nobody has run it"

    def _queues(self, run: Stored, name: str) -> bool:
        """Whether jobs of a task can wait too long for a slot."""
        definition = self._definitions[run.spec["revision"]]
        return "queueTimeout" in tasks_of(definition)[name] or "queueTimeout" in definition

    def _finished(self, reading: Reading) -> Iterator[str]:
        """In a run that nobody has touched, what ran is what was to run, and it ended as its tasks did."""
        run = reading.run
        if run.run.round or run.spec.get("overrides") or run.spec.get("cancel") or run.run.reason in UNFINISHED:
            return
        for name in reading.tasks:
            skipped = reading.count(name, JobPhase.SKIPPED)
            verdict = reading.verdict(name)
            if (verdict == SKIP) != bool(skipped) and reading.size(name):
                yield f"{run.name} {name} has {skipped} of {reading.size(name)} jobs skipped, it was to {verdict}"
        failed = [name for name in reading.tasks if reading.outcome(name) == FAILED]
        if bool(failed) != (run.run.phase == "Failed"):
            yield f"{run.name} is {run.run.phase}, and these tasks have failed: {failed}"


def kept(written: Written, run: Stored, name: str, phase: JobPhase) -> bool:
    """Whether a job of the task had ended so before this write, or when its run was made, and stays so."""
    state = run.run.tasks.get(name)
    fresh = sum(job.task == name and now is phase for job, (_, now) in written.ends.items())
    return state is not None and state.count(phase) > (fresh if written.before is not None else 0)


def busy(written: Written, name: str) -> bool:
    """Whether a job of the task had a lease before this write, or waited for another."""
    before = written.before
    return before is not None and any(job.task == name for job in (*before.run.leases, *before.run.waiting))


UNFINISHED = ("RunTimedOut", "DefinitionMissing", "RecordGarbled", "NeverBegan", "UnknownParam")
"""Why a run may end before its tasks do."""

GRAPH_CHECKERS = (GraphIsKept,)
