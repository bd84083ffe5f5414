"""Plays timelines: a sentence a line, each of which does one thing on the stage or checks one thing.

On the stage stand one run as the API server keeps it, any number of leaders, and what workers have said. A leader
*decides* from the run as stored when it looks; its *write arrives* later, or never; it *plans* when it does both at
once. The real core decides; only the two refusals of the API server (a version, an epoch) are played here.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from fencepost.core.definition import Task
from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase, RunPhase
from fencepost.core.placement import PoolQueue, PoolSpec
from fencepost.core.plan_run import Report, RunFacts, RunPlan, advance_run, lease_jobs
from fencepost.core.run_state import Outcome, RunState
from tests.unit.support.builders import DAG, NOW_S, RUN, RUN_UID, a_definition, a_graph, a_job, a_result, a_task, stored
from tests.unit.support.sentences import meaning_of, sentences

TASK = re.compile(r"(?P<name>\w+)(?: after (?P<parents>[\w, ]+))?(?:: (?P<traits>.+))?")


@dataclass
class Leader:
    """A replica that leads, or believes it does."""

    epoch: int
    version: int = 0
    plan: RunPlan | None = None
    state: RunState | None = None
    """What it has decided to write, under the version that it has read."""


class Stage:
    """Everything there is at one moment of a play."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.timeout_s: float | None = None
        self.now_s = NOW_S
        self.run = self.run_before = RunState()
        self.version = 0
        self.epoch = 0
        self.leaders: dict[str, Leader] = {}
        self.refusal = ""
        self.reports: list[Report] = []
        self.lost: set[str] = set()
        self.taken_away: set[tuple[JobKey, int]] = set()
        self.cancelled = False
        self.plan = RunPlan(self.run)

    # What happens.

    def has_task(self, name: str, parents: str | None, traits: str | None) -> None:
        task = a_task(name, *(parents or "").replace(",", " ").split())
        for number, trait in re.findall(r"(\d+) (jobs|at once|retry|retries)", traits or ""):
            match trait:
                case "jobs":
                    task = replace(task, count=int(number))
                case "at once":
                    task = replace(task, max_parallel=int(number))
                case _:
                    task = replace(task, retries=replace(task.retries, limit=int(number)))
        self.tasks.append(task)

    def has_timeout(self, seconds: str) -> None:
        self.timeout_s = float(seconds)

    def leads(self, name: str, epoch: str) -> None:
        self.leaders[name] = Leader(int(epoch))
        self.epoch = max(self.epoch, int(epoch))

    def decides(self, name: str, slots: str | None) -> None:
        leader = self.leaders[name]
        facts = RunFacts(
            RUN_UID, leader.epoch, self.cancelled, self.reports, self.lost, self.taken_away, refused=frozenset()
        )
        graph, definition = a_graph(*self.tasks), a_definition(*self.tasks, timeout_s=self.timeout_s)
        leader.version = self.version
        leader.plan = advance_run(self.run, graph, definition, facts, self.now_s)
        pool = PoolQueue(PoolSpec("default", share_max=1.0))
        for number, worker in re.findall(r"(a|\d+) slots? on (\w+)", slots or ""):
            pool.slots.set(worker, *[1 if number == "a" else int(number)] * 2)
        pool.offer(DAG, RUN, leader.plan.demands)
        leader.state, _ = lease_jobs(leader.plan, graph, list(pool.grants(self.now_s)), self.now_s)

    def write_arrives(self, name: str) -> None:
        leader = self.leaders[name]
        assert leader.plan is not None
        assert leader.state is not None
        if leader.version != self.version:
            self.refusal = "the run has changed since it was read"
        elif leader.epoch < self.epoch:
            self.refusal = f"epoch {leader.epoch} is over"
        else:
            self.refusal = ""
            self.plan, self.run_before, self.run = leader.plan, self.run, stored(leader.state)
            self.version += 1

    def plans(self, name: str, slots: str | None) -> None:
        self.decides(name, slots)
        self.write_arrives(name)
        assert not self.refusal, f"{name}'s write is refused: {self.refusal}"

    def says(self, worker: str, outcome: str, job: str, token: str) -> None:
        self.reports.append(Report(worker, a_job(job), a_result(int(token), Outcome(outcome))))

    def is_lost(self, worker: str) -> None:
        self.lost.add(worker)

    def is_taken_away(self, job: str, token: str) -> None:
        self.taken_away.add((a_job(job), int(token)))

    def is_cancelled(self) -> None:
        self.cancelled = True

    # What must be so.

    def runs_on(self, job: str, worker: str, token: str, attempt: str, losses: str | None) -> None:
        lease = self.run.leases[a_job(job)]
        assert (lease.worker, lease.token, lease.attempt, lease.losses) == (
            worker,
            int(token),
            int(attempt),
            int(losses or 0),
        )

    def waits_until(self, job: str, seconds: str, attempt: str) -> None:
        waiting = self.run.waiting[a_job(job)]
        assert (waiting.not_before_s - NOW_S, waiting.attempt) == (float(seconds), int(attempt))

    def run_is(self, phase: str, reason: str | None) -> None:
        assert self.run.phase is RunPhase(phase)
        assert reason is None or self.run.reason == reason

    def job_is(self, job: str, phase: str) -> None:
        key = a_job(job)
        assert key not in self.run.leases
        assert key not in self.run.waiting
        task = self.run.tasks.get(key.task)
        assert ((task and task.phase_of(key.index)) or JobPhase.PENDING) is JobPhase(phase)

    def nothing_has_changed(self) -> None:
        assert self.run == self.run_before

    def is_refused(self, why: str) -> None:
        assert self.refusal == why

    def told_to_stop(self) -> None:
        assert self.plan.stopping

    def looks_again(self, seconds: str) -> None:
        assert self.plan.wake_at_s == NOW_S + float(seconds)


SENTENCES: list[tuple[str, Callable[..., None]]] = [
    (rf"task {TASK.pattern}", Stage.has_task),
    (r"timeout (\d+) s", Stage.has_timeout),
    (r"(\w+) leads under epoch (\d+)", Stage.leads),
    (r"(\w+) plans(?:, with (.+))?", Stage.plans),
    (r"(\w+) decides(?:, with (.+))?", Stage.decides),
    (r"(\w+)'s write arrives", Stage.write_arrives),
    (r"(\w+) says (\w+) for (\S+) under token (\d+)", Stage.says),
    (r"(\w+) is lost", Stage.is_lost),
    (r"the entry of (\S+) under token (\d+) is taken away", Stage.is_taken_away),
    (r"a person cancels the run", Stage.is_cancelled),
    (r"-> (\S+) runs on (\w+): token (\d+), attempt (\d+)(?:, (\d+) loss(?:es)?)?", Stage.runs_on),
    (r"-> (\S+) waits until (\d+) s: attempt (\d+)", Stage.waits_until),
    (r"-> the run is (\w+)(?:: (\w+))?", Stage.run_is),
    (r"-> (\S+) is (Pending|Succeeded|Failed|Skipped|Cancelled)", Stage.job_is),
    (r"-> nothing has changed", Stage.nothing_has_changed),
    (r"-> it is refused: (.+)", Stage.is_refused),
    (r"-> what runs is told to stop", Stage.told_to_stop),
    (r"-> \w+ looks again at (\d+) s", Stage.looks_again),
]


def play(text: str) -> None:
    """Play a timeline; AssertionError, with the line, where something is otherwise than it says."""
    stage = Stage()
    for sentence in sentences(text):
        if sentence.seconds is not None:
            assert NOW_S + sentence.seconds >= stage.now_s, f"line {sentence.number}: time runs forward"
            stage.now_s = NOW_S + sentence.seconds
        act, words = meaning_of(sentence, SENTENCES)
        try:
            act(stage, *words)
        except (AssertionError, KeyError) as error:
            where = f"line {sentence.number}: {sentence.text!r}"
            raise AssertionError(f"{where} is not so: {error!r}\n{stage.run}") from error
