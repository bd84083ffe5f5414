"""The laws of tokens, attempts and order, through any sequence of leases, results, losses, stops and new leaders."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from fencepost.api.codec import encode_run_status
from fencepost.core.definition import LOSS_LIMIT_DEFAULT, Task
from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase, RunPhase
from fencepost.core.placement import Grant
from fencepost.core.plan_run import RunPlan, advance_run, lease_jobs
from fencepost.core.run_state import Lease, Outcome, RunState
from tests.unit.support.builders import NOW_S, RUN, a_result, a_task, stored
from tests.unit.support.run_stage import RunStage

NAMES = "abcd"
BACKOFF_S = {1: 10, 2: 20}


@st.composite
def dags(draw: st.DrawFn) -> list[Task]:
    """One to four tasks, each of none to three jobs, in a chain or with any edges from earlier to later ones."""
    tasks = []
    for place, name in enumerate(NAMES[: draw(st.integers(1, 4))]):
        parents = [parent for parent in NAMES[:place] if draw(st.booleans())]
        tasks.append(
            a_task(
                name,
                *(parents if draw(st.booleans()) else NAMES[:place][-1:]),
                count=draw(st.sampled_from([None, 0, 2, 3])),
                max_parallel=draw(st.sampled_from([None, None, 1, 2])),
                retries=draw(st.integers(0, 2)),
            )
        )
    return tasks


def jobs_of(task: Task) -> list[JobKey]:
    return [JobKey(task.name, index) for index in range(task.size)]


class AnyRun(RuleBasedStateMachine):
    """A run, and a model that knows only what leases were given and what was said of them."""

    @initialize(tasks=dags(), timeout_s=st.sampled_from([None, None, 60]))
    def begin(self, tasks: list[Task], timeout_s: float | None) -> None:
        self.stage = RunStage(*tasks, timeout_s=timeout_s)
        self.memory = RunState()
        """The state as a leader that never died holds it; the stage's own has been through the store."""
        self.given: dict[JobKey, list[Lease]] = {}
        self.own_failures: dict[JobKey, int] = {}
        self.losses: dict[JobKey, int] = {}
        self.workers = 0

    def choose_lease(self, data: st.DataObject) -> tuple[JobKey, Lease]:
        return data.draw(st.sampled_from(sorted(self.stage.state.leases.items())))

    # What may happen between two plans.

    @precondition(lambda self: self.stage.state.leases)
    @rule(data=st.data(), outcome=st.sampled_from(list(Outcome)))
    def a_worker_answers(self, data: st.DataObject, outcome: Outcome) -> None:
        job, lease = self.choose_lease(data)
        now_s = self.stage.now_s
        self.stage.hears(lease.worker, str(job), a_result(lease.token, outcome, None, now_s - 1, now_s))

    @rule(data=st.data(), outcome=st.sampled_from(list(Outcome)), other_worker=st.booleans())
    def somebody_answers_for_a_lease_that_is_not_on_record(
        self, data: st.DataObject, outcome: Outcome, other_worker: bool
    ) -> None:
        jobs = [job for task in self.stage.graph.order for job in jobs_of(task)]
        job = data.draw(st.sampled_from(jobs or [JobKey("none", 0)]))
        lease = self.stage.state.leases.get(job, Lease(self.stage.state.lease_counter, "w0", 1, 0, 0))
        token = (
            lease.token if other_worker else data.draw(st.integers(0, 99).filter(lambda token: token != lease.token))
        )
        worker = f"not-{lease.worker}" if other_worker else lease.worker
        want = self.stage.look()

        self.stage.hears(worker, str(job), a_result(token, outcome))

        assert self.stage.look() == want

    @precondition(lambda self: self.stage.state.leases)
    @rule(data=st.data(), how=st.sampled_from(["lost", "withdrawn", "refused"]))
    def a_lease_is_taken_back(self, data: st.DataObject, how: str) -> None:
        job, lease = self.choose_lease(data)
        if how == "lost":
            self.stage.lost.add(lease.worker)
        elif how == "withdrawn":
            self.stage.withdrawn.add((job, lease.token))
        else:
            self.stage.refused.add((job, lease.token))

    @rule(seconds=st.integers(1, 30))
    def time_passes(self, seconds: int) -> None:
        self.stage.now_s += seconds

    @rule()
    def another_leader_takes_over(self) -> None:
        self.stage.epoch += 1
        self.memory = self.stage.state

    @precondition(lambda self: self.stage.now_s > NOW_S + 40)
    @rule()
    def a_person_cancels_the_run(self) -> None:
        self.stage.cancelled = True

    # The plan, and the laws.

    @rule(data=st.data())
    def a_leader_plans(self, data: st.DataObject) -> None:
        demands = self.stage.look().demands
        grants = [
            Grant(RUN, demand.task, self.a_worker(data))
            for demand in demands
            for _ in range(data.draw(st.integers(0, demand.count + 1)))
        ]
        self.plan(grants)

    def a_worker(self, data: st.DataObject) -> str:
        """One of two workers; when one has been lost, another comes in its place."""
        while f"w{self.workers}" in self.stage.lost or f"w{self.workers + 1}" in self.stage.lost:
            self.workers += 1
        return f"w{self.workers + data.draw(st.integers(0, 1))}"

    def plan(self, grants: list[Grant]) -> None:
        stage, before, facts = self.stage, self.stage.state, self.stage.facts()
        plan = stage.look()
        straight = advance_run(self.memory, stage.graph, stage.definition, facts, stage.now_s)
        assert decisions(straight) == decisions(plan), "a leader that has read its state decides otherwise"
        for job, lease in before.leases.items():
            assert self.standing(job, plan.state) == self.settled(job, lease)

        after, unused = lease_jobs(plan, stage.graph, grants, stage.now_s)
        assert len(after.leases) - len(plan.state.leases) == len(grants) - len(unused)
        self.check_moves(before, plan.state)
        self.check_leases(plan.state, after)
        self.check_totals(after)
        assert after.epoch == stage.epoch or before.phase.finished
        self.memory, _ = lease_jobs(straight, stage.graph, grants, stage.now_s)
        stage.state = stored(after)
        stage.reports, stage.withdrawn, stage.refused = [], set(), set()

    def settled(self, job: JobKey, lease: Lease) -> Any:
        """Where the job stands once what is known of its lease has been folded: restated from the rules alone."""
        stage, now_s = self.stage, self.stage.now_s
        assert stage.state.start_s is not None
        ends_s = stage.state.start_s + (stage.definition.timeout_s or 1e9)
        stopping = stage.cancelled or now_s >= ends_s
        key = (job, lease.token)
        said = [
            r.result.outcome
            for r in stage.reports
            if (r.job, r.worker, r.result.token) == (job, lease.worker, lease.token)
        ]
        limit = stage.graph.tasks[job.task].retries.limit
        if said:
            outcome = said[0]
        elif lease.worker in stage.lost or (key in stage.withdrawn and stopping):
            outcome = Outcome.STOPPED
        elif key in stage.withdrawn:
            outcome = Outcome.TIMED_OUT
        elif key in stage.refused:
            outcome = Outcome.HANDED_BACK
        else:
            return lease
        match outcome:
            case Outcome.SUCCEEDED:
                return JobPhase.SUCCEEDED
            case Outcome.INVALID | Outcome.MISSING:
                return JobPhase.FAILED
            case Outcome.HANDED_BACK:
                return JobPhase.CANCELLED if stopping else (lease.attempt, lease.losses, now_s)
            case Outcome.STOPPED if stopping:
                return JobPhase.CANCELLED
            case Outcome.STOPPED:
                self.losses[job] = self.losses.get(job, 0) + 1
                return (
                    JobPhase.FAILED if lease.losses == LOSS_LIMIT_DEFAULT else (lease.attempt, lease.losses + 1, now_s)
                )
            case _ if stopping:
                return JobPhase.FAILED
            case _:
                self.own_failures[job] = self.own_failures.get(job, 0) + 1
                if lease.attempt > limit:
                    return JobPhase.FAILED
                return (lease.attempt + 1, lease.losses, now_s + BACKOFF_S[lease.attempt])

    def standing(self, job: JobKey, state: RunState) -> Any:
        """A job's lease, what it waits for, or the phase in which it has ended."""
        if job in state.leases:
            return state.leases[job]
        if wait := state.waiting.get(job):
            return (wait.attempt, wait.losses, wait.not_before_s)
        return state.tasks[job.task].phase_of(job.index)

    def check_moves(self, before: RunState, after: RunState) -> None:
        """What has ended stays as it ended, a run that has finished as it finished, and counters do not fall."""
        assert not before.phase.finished or after == before
        for name, task in before.tasks.items():
            for phase, indices in task.ended.items():
                assert set(indices) <= set(after.tasks[name].ended[phase])
        assert after.lease_counter == before.lease_counter
        assert after.leases.items() <= before.leases.items()
        assert before.start_s in (None, after.start_s)

    def check_leases(self, planned: RunState, after: RunState) -> None:
        """Each new lease has a token above all before it; nothing starts too early, too often, or too many at once."""
        graph = self.stage.graph
        new = {job: lease for job, lease in after.leases.items() if job not in planned.leases}
        assert after.lease_counter == planned.lease_counter + bool(new)
        assert not new or after.phase is RunPhase.RUNNING
        for job, lease in new.items():
            task = graph.tasks[job.task]
            assert lease.token == after.lease_counter > max([old.token for old in self.given.get(job, [])], default=0)
            assert lease.attempt == self.own_failures.get(job, 0) + 1 <= task.retries.limit + 1
            assert lease.losses == self.losses.get(job, 0) <= LOSS_LIMIT_DEFAULT
            wait = planned.waiting.get(job)
            assert wait is None or wait.not_before_s <= self.stage.now_s
            for parent in self.ancestors(task):
                ended = after.tasks[parent.name].count(JobPhase.SUCCEEDED) if parent.size else 0
                assert ended == parent.size, f"{job} starts before {parent.name} has ended well"
            self.given.setdefault(job, []).append(lease)
        for task in graph.order:
            running = sum(job.task == task.name for job in after.leases)
            assert task.max_parallel is None or running <= task.max_parallel

    def ancestors(self, task: Task) -> list[Task]:
        """Every task that must have ended before this one, however far above."""
        parents = [self.stage.graph.tasks[name] for name in task.depends_on]
        return [*parents, *(above for parent in parents for above in self.ancestors(parent))]

    def check_totals(self, state: RunState) -> None:
        """Each job is in one place; done, open and idle add up to all; a finished run is done with every job."""
        jobs = {job for task in self.stage.graph.order for job in jobs_of(task)}
        ended = [
            JobKey(name, index)
            for name, task in state.tasks.items()
            for indices in task.ended.values()
            for index in indices
        ]
        places = [*ended, *state.leases, *state.waiting]
        assert len(places) == len(set(places))
        assert set(places) <= jobs
        assert (state.done, state.total) == (len(ended), len(jobs))
        assert state.phase.finished == (len(ended) == len(jobs))
        assert (state.finish_s is not None) == state.phase.finished
        failed = sum(task.count(JobPhase.FAILED) for task in state.tasks.values())
        assert state.phase is not RunPhase.SUCCEEDED or failed == 0

    def teardown(self) -> None:
        """Every run ends when every lease is answered in the end, be it badly."""
        if not hasattr(self, "stage"):
            return
        for _ in range(60):
            if self.stage.state.phase.finished:
                return
            for job in self.stage.state.leases:
                self.stage.says(str(job), Outcome.FAILED)
            wake_at_s = self.stage.look().wake_at_s
            grants = [Grant(RUN, d.task, "last") for d in self.stage.look().demands for _ in range(d.count)]
            self.plan(grants)
            self.stage.now_s = max(self.stage.now_s, wake_at_s or 0)
        raise AssertionError("the run does not end")


def decisions(plan: RunPlan) -> Any:
    """What a plan decides, as far as anybody can see it."""
    return encode_run_status(plan.state), replace(plan, state=RunState(), failed=tuple(sorted(plan.failed)))


@pytest.mark.timeout(360)  # a failure is made small first
def test_the_laws_hold_through_any_sequence_of_events() -> None:
    run_state_machine_as_test(
        AnyRun,
        settings=settings(max_examples=80, stateful_step_count=30, suppress_health_check=list(HealthCheck)),
    )
