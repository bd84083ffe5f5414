"""One run on a stage: the real planner, a store that keeps what it plans, and a clock that only a story moves."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fencepost.core.definition import Task
from fencepost.core.intervals import IntervalSet
from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase
from fencepost.core.placement import Grant
from fencepost.core.plan_run import Report, RunFacts, RunPlan, advance_run, lease_jobs
from fencepost.core.rounds import begin_round, open_jobs
from fencepost.core.run_spec import Mark, Rerun
from fencepost.core.run_state import Lease, LetterSet, Outcome, Result, RunState
from tests.unit.support.builders import NOW_S, RUN, RUN_UID, a_definition, a_graph, a_job, a_result, stored

FROM_FAILED = Rerun()


class RunStage:
    """A run of these tasks. Facts are collected until the next `plan`, which folds and stores."""

    def __init__(self, *tasks: Task, timeout_s: float | None = None) -> None:
        self.definition = a_definition(*tasks, timeout_s=timeout_s)
        self.graph = a_graph(*tasks)
        self.state = RunState()
        self.now_s = NOW_S
        self.epoch = 1
        self.cancelled = False
        self.suspended = False
        self.reports: list[Report] = []
        self.lost: set[str] = set()
        self.withdrawn: set[tuple[JobKey, int]] = set()
        self.refused: set[tuple[JobKey, int]] = set()
        self.marks: dict[str, Mark] = {}
        self.values: dict[str, str] = {}
        self.letters_room = 0
        self.lettered: set[JobKey] = set()
        self.told: dict[LetterSet, IntervalSet] = {}

    def facts(self) -> RunFacts:
        """What is known now."""
        return RunFacts(
            RUN_UID,
            self.epoch,
            self.cancelled,
            tuple(self.reports),
            self.lost,
            self.withdrawn,
            self.refused,
            marks=self.marks,
            suspended=self.suspended,
            values=self.values,
            letters_room=self.letters_room,
            lettered=self.lettered,
            told=self.told,
        )

    def look(self) -> RunPlan:
        """The plan of this moment; nothing is stored."""
        return advance_run(self.state, self.graph, self.definition, self.facts(), self.now_s)

    def plan(self, *grants: tuple[str, str]) -> RunPlan:
        """Fold, turn grants (task, worker) into leases, and store both in one write."""
        plan = self.look()
        asked = [Grant(RUN, task, worker) for task, worker in grants]
        leased, _ = lease_jobs(plan, self.graph, asked, self.now_s)
        self.state = stored(leased)
        self.reports, self.withdrawn, self.refused = [], set(), set()
        return plan

    def run_again(self, rerun: Rerun = FROM_FAILED, replays: Mapping[LetterSet, IntervalSet] | None = None) -> None:
        """A person asks for another round of the finished run, and it is taken up; the next `plan` stores it."""
        begun = replace(begin_round(self.state, self.state.round + 1), replays=replays or {})
        self.state = open_jobs(begun, self.graph, rerun)

    def mark(self, job: str, phase: JobPhase) -> None:
        """A person marks a job, or all of a task, in the present round."""
        self.marks[job] = Mark(phase, "eve", self.state.round)

    def plan_all(self, worker: str = "w1") -> RunPlan:
        """The same with a slot for every job that could start."""
        return self.plan(*[(demand.task, worker) for demand in self.look().demands for _ in range(demand.count)])

    def lease(self, job: str) -> Lease:
        """The lease on record."""
        return self.state.leases[a_job(job)]

    def says(self, job: str, outcome: Outcome = Outcome.SUCCEEDED, exit_code: int | None = None) -> None:
        """The worker that holds the job's lease reports on it."""
        lease = self.lease(job)
        self.hears(lease.worker, job, a_result(lease.token, outcome, exit_code))

    def puts_out(self, job: str, output: str) -> None:
        """The worker that holds the job's lease reports its success and what it has put out."""
        lease = self.lease(job)
        self.hears(lease.worker, job, a_result(lease.token, output=output))

    def hears(self, worker: str, job: str, result: Result) -> None:
        """A result stands in a worker's status, whoever holds the lease."""
        self.reports.append(Report(worker, a_job(job), result))

    def phase(self, job: str) -> JobPhase:
        """Where a job stands, by what is on record."""
        key = a_job(job)
        if key in self.state.leases:
            return JobPhase.RUNNING
        if key in self.state.waiting:
            return JobPhase.QUEUED
        task = self.state.tasks.get(key.task)
        return (task.phase_of(key.index) if task else None) or JobPhase.PENDING

    def phases(self, jobs: Iterable[str]) -> list[JobPhase]:
        """Where these jobs stand."""
        return [self.phase(job) for job in jobs]
