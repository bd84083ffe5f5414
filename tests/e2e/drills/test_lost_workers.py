"""Three workers lost at once in the middle of their leases, each in its own way; told once, looked at from all sides.

One is frozen with its jobs alive, one is cut off half-open, one is killed with its results on their way. Their jobs run
elsewhere under the next token. Then the frozen one wakes up, the line heals, and the dead one's last words arrive.
"""

import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from fencepost.api import names as wire
from fencepost.core.names import JobKey, execution_id
from fencepost.core.run_state import Lease
from tests.e2e.controlplane.processes import reap
from tests.e2e.drills.ground import LIMIT_S, SLOTS, WORKERS, Ground
from tests.e2e.support.audit import Request
from tests.e2e.support.dags import dag, task
from tests.e2e.support.ledger import Ledger
from tests.e2e.support.stage import Recorder

FROZEN, CUT_OFF, KILLED, WELL = WORKERS
SPEECH_S = 1.5
JOBS = SLOTS * len(WORKERS)
RELOCATION_LIMIT_S = 45.0


@dataclass
class Losses:
    """What has happened; moments are Unix seconds."""

    run: str
    uid: str
    ledger: Ledger
    first: dict[JobKey, Lease]
    """Of all jobs, before the losses."""
    exit_codes: dict[str, int | None] = field(default_factory=dict)
    """By the pod's name, of those that ended by themselves."""
    lost_s: float = 0.0
    relocated_s: float = 0.0
    """From the losses until all their jobs had started elsewhere: a duration."""
    back_s: float = 0.0
    """When all of them were heard again."""

    def jobs_of(self, pod: str) -> list[JobKey]:
        """That were leased to it."""
        return [job for job, lease in self.first.items() if lease.worker.rpartition("-")[0] == pod]

    def worker_of(self, pod: str) -> str:
        """Its Worker's name."""
        return self.first[self.jobs_of(pod)[0]].worker

    def open_gates(self, pod: str) -> None:
        """Of its jobs."""
        for job in self.jobs_of(pod):
            self.ledger.open(str(job.index))

    def noted(self, what: str, jobs: list[JobKey], times: int = 1) -> bool:
        """Whether each of these jobs has noted this so often."""
        counts = Counter(line.execution for line in self.ledger.lines(what))
        return all(counts[execution_id(self.uid, job)] >= times for job in jobs)


@pytest.fixture(scope="module")
def losses(ground: Ground) -> Iterator[Losses]:
    """All slots are busy, and three of four workers are lost."""
    stage, ledger = ground.stage, ground.stage.ledger("losses")
    wide = task("wide", command=ledger.careful(ledger.until_own_open()), forEach={"count": JOBS})
    run = stage.launch(dag("losses", wide))
    stage.wait("all slots are busy", lambda: ledger.count("start") == JOBS)
    told = Losses(run, stage.run(run)["metadata"]["uid"], ledger, dict(stage.state(run).leases))

    lose(ground, told)
    relocate(ground, told)
    bring_back(ground, told)
    stage.wait_for_phase(run, "Succeeded", limit_s=LIMIT_S)
    yield told
    ground.muster()


def lose(ground: Ground, told: Losses) -> None:
    """Freeze one, cut one off, and kill one whose results have been sent and have not arrived."""
    stage = ground.stage
    frozen, cut_off, killed = (stage.fleet.members[pod] for pod in (FROZEN, CUT_OFF, KILLED))
    frozen.process.send(signal.SIGSTOP)
    ground.line_of(cut_off).hold()
    ground.line_of(killed).hold(answers_too=False)
    told.open_gates(KILLED)
    stage.wait("its jobs have ended", lambda: told.noted("commit", told.jobs_of(KILLED)))
    ground.let_pass(SPEECH_S, "it has answered into the void")
    killed.process.send(signal.SIGKILL)
    told.lost_s = time.time()


def relocate(ground: Ground, told: Losses) -> None:
    """Make room on the worker that is left, and let the jobs of the others through it. Those of the frozen one, which
    live on there, come to their end twice."""
    stage = ground.stage
    told.open_gates(WELL)
    cut_off = stage.fleet.members[CUT_OFF].process
    stage.wait("the worker that was cut off has ended by itself", lambda: cut_off.wait(0), LIMIT_S)
    told.exit_codes[CUT_OFF] = reap(cut_off.pid)
    told.open_gates(CUT_OFF)
    again = told.jobs_of(FROZEN)
    stage.wait("the jobs of the frozen one have started again", lambda: told.noted("start", again, times=2), LIMIT_S)
    told.open_gates(FROZEN)
    again += told.jobs_of(CUT_OFF) + told.jobs_of(KILLED)
    stage.wait("all their jobs have started again", lambda: told.noted("start", again, times=2), LIMIT_S)
    told.relocated_s = max(line.at_s for line in told.ledger.lines("start")) - told.lost_s


def bring_back(ground: Ground, told: Losses) -> None:
    """What was held is heard, and the frozen one wakes up."""
    stage = ground.stage
    stage.wait("the old jobs were refused", lambda: told.noted("refused", told.jobs_of(FROZEN)), LIMIT_S)
    told.back_s = time.time()
    for pod in (CUT_OFF, KILLED):
        ground.lines[pod].heal()
    frozen = stage.fleet.members[FROZEN].process
    frozen.send(signal.SIGCONT)
    stage.wait("it has ended by itself", lambda: frozen.wait(0), LIMIT_S)
    told.exit_codes[FROZEN] = reap(frozen.pid)
    stage.wait("the dead one's last words are heard", lambda: late_results(ground, told, KILLED), LIMIT_S)


def late_results(ground: Ground, told: Losses, pod: str) -> list[Request]:
    requests = ground.audit.requests(wire.WORKERS, source=ground.lines[pod].address, since_s=told.back_s)
    return [request for request in requests if request.name == told.worker_of(pod)]


def test_their_jobs_run_elsewhere_in_time_under_the_next_token(
    ground: Ground, losses: Losses, record_property: Recorder
) -> None:
    record_property("relocated_s", round(losses.relocated_s, 1))
    ground.reckon(losses.ledger, [losses.run])

    assert losses.relocated_s < RELOCATION_LIMIT_S
    repeated = {line.job for lines in losses.ledger.repeated().values() for line in lines}
    assert repeated == {str(job) for pod in (FROZEN, CUT_OFF, KILLED) for job in losses.jobs_of(pod)}


def test_jobs_that_outlive_their_lease_are_refused_by_what_they_write_to(losses: Losses) -> None:
    refused = losses.ledger.lines("refused")

    assert sorted(line.job for line in refused) == sorted(map(str, losses.jobs_of(FROZEN)))
    assert {line.token for line in refused} == {losses.first[job].token for job in losses.jobs_of(FROZEN)}


def test_a_worker_that_is_cut_off_ends_its_jobs_before_others_have_them(losses: Losses) -> None:
    jobs = set(map(str, losses.jobs_of(CUT_OFF)))
    commits = [line for line in losses.ledger.lines("commit") if line.job in jobs]

    assert losses.exit_codes[CUT_OFF] == 1
    assert len(commits) == len(jobs)
    assert {line.token for line in commits}.isdisjoint(losses.first[job].token for job in losses.jobs_of(CUT_OFF))


def test_a_worker_that_was_frozen_ends_when_it_wakes_up_and_nothing_that_it_says_is_stored(
    ground: Ground, losses: Losses, record_property: Recorder
) -> None:
    late = late_results(ground, losses, FROZEN)
    record_property("late_writes_of_a_frozen_worker", [request.status for request in late])

    assert losses.exit_codes[FROZEN] == 1
    assert not any(request.stored for request in late)


def test_results_that_arrive_after_their_worker_was_given_up_are_refused(
    ground: Ground, losses: Losses, record_property: Recorder
) -> None:
    late = late_results(ground, losses, KILLED)
    record_property("late_results_of_a_dead_worker", [request.status for request in late])

    assert late
    assert {request.status for request in late} <= {404, 409, 422}
