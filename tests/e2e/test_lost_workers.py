"""A worker that is killed in the middle of its jobs, told once and looked at from all sides; and workers that restart.

The dead worker's object is held by a finalizer of our own, so that there still is something to write to when its late
result comes.
"""

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from fencepost.api import names as wire
from fencepost.api.codec import decode_run_status, encode_result
from fencepost.api.names import SYSTEM_NAMESPACE_DEFAULT
from fencepost.core.run_state import Lease, Outcome, Result
from tests.e2e.controlplane.processes import reap
from tests.e2e.support.dags import NAMESPACE, Obj, dag, pool, task
from tests.e2e.support.ledger import processes_of
from tests.e2e.support.objects import Objects, RefusedError, versions_of
from tests.e2e.support.stage import Recorder, Stage

POOL = "fragile"
PODS = ("fragile-0", "fragile-1")
JOB = "victim/0"
RELOCATION_LIMIT_S = 45.0
CHILDREN_LIMIT_S = 5.0
HOLD = "test.fencepost.dev/hold"
FAMILY = "sleep 600 & setsid sh -c 'sleep 600 & wait' & "
"""Besides the job's own shell four processes, two of which have left its process group."""
FAMILY_SIZE = 5


@dataclass(frozen=True)
class Kill:
    """What has happened."""

    run: str
    worker: str
    """That was killed."""
    entry_key: str
    """Of the job, in that worker's mailbox."""
    lease: Lease
    at_s: float
    """Unix seconds."""
    family_gone_s: float
    """From the kill until no process of the job was left."""


@pytest.fixture(scope="module")
def fragile(stage: Stage) -> Iterator[None]:
    """A pool of its own with two workers."""
    stage.admin.create(pool(POOL))
    for pod in PODS:
        stage.worker(pod, pool=POOL, slots=2)
    stage.wait_for_slots(POOL, 4)
    yield
    stage.dismiss(*PODS)
    stage.admin.delete(wire.WORKER_POOLS, POOL)


@pytest.fixture(scope="module")
def kill(stage: Stage, fragile: None) -> Iterator[Kill]:
    """A worker is killed under a job that has children of its own."""
    ledger = stage.ledger("victim")
    run = stage.launch(dag("victim", task("victim", command=ledger.job(FAMILY + ledger.until_open())), pool=POOL))
    stage.wait("the whole family lives", lambda: len(processes_of(run)) >= FAMILY_SIZE)
    lease = stage.wait_for_lease(run, JOB)
    worker = stage.admin.merge(
        wire.WORKERS, lease.worker, {"metadata": {"finalizers": [HOLD]}}, SYSTEM_NAMESPACE_DEFAULT
    )
    [entry_key] = worker["spec"]["leases"]

    killed_s = time.time()
    stage.member_of(lease.worker).process.send(signal.SIGKILL)
    stage.wait("the job's processes are gone", lambda: not processes_of(run), CHILDREN_LIMIT_S)
    yield Kill(run, lease.worker, entry_key, lease, killed_s, time.time() - killed_s)
    ledger.open()


@pytest.fixture(scope="module")
def second(stage: Stage, kill: Kill) -> Lease:
    """The job's lease after its loss, once it has started again."""
    stage.wait("the job has started again", lambda: stage.ledger("victim").count("start") == 2)
    return stage.wait_for_lease(kill.run, JOB)


def held_worker(stage: Stage, kill: Kill) -> Obj:
    worker = stage.worker_object(kill.worker)
    assert worker is not None, "our finalizer holds it"
    return worker


def test_its_jobs_die_with_it_with_all_that_they_have_started(kill: Kill, record_property: Recorder) -> None:
    record_property("family_gone_s", round(kill.family_gone_s, 2))

    assert kill.family_gone_s < CHILDREN_LIMIT_S


def test_workers_that_are_restarted_one_by_one_under_load_lose_and_fail_nothing(stage: Stage, kill: Kill) -> None:
    """Meanwhile, in another pool: the Lease of the worker that was killed has yet to run out."""
    ledger, since = stage.ledger("restarts"), stage.admin.version(wire.DAG_RUNS)
    many = task("many", command=ledger.sleep(0.8), forEach={"count": 120})
    run = stage.launch(dag("restarts", many))
    stage.wait("the load is on", lambda: ledger.count("start") >= 12)

    for pod in ("worker-0", "worker-1", "worker-2"):
        process = stage.fleet.members[pod].process
        assert stage.status(run)["phase"] == "Running", "the load must last until the last restart"
        process.send(signal.SIGTERM)
        assert process.wait(30), f"{pod} does not end"
        assert reap(process.pid) == 0
        stage.worker(pod)
    stage.wait_for_phase(run, "Succeeded")

    starts = ledger.starts()
    assert len(starts) == 120
    assert not ledger.repeated()
    assert not ledger.unfinished()
    changes = stage.admin.changes(wire.DAG_RUNS, since, NAMESPACE)
    states = [decode_run_status(each["status"]) for each in versions_of(changes, run) if "status" in each]
    leases = {lease for state in states for lease in state.leases.values()}
    assert {(lease.attempt, lease.losses) for lease in leases} == {(1, 0)}
    stage.wait_for_slots("default", 12)


def test_its_jobs_run_elsewhere_in_time_under_a_higher_token_as_the_same_attempt(
    stage: Stage, kill: Kill, second: Lease, record_property: Recorder
) -> None:
    relocated_s = stage.ledger("victim").lines("start")[-1].at_s - kill.at_s
    record_property("relocated_s", round(relocated_s, 2))

    assert relocated_s < RELOCATION_LIMIT_S
    assert second.worker != kill.worker
    assert second.token > kill.lease.token
    assert (kill.lease.attempt, kill.lease.losses) == (1, 0)
    assert (second.attempt, second.losses) == (1, 1)


def test_its_late_result_is_refused_by_the_api_server(stage: Stage, kill: Kill, second: Lease) -> None:
    worker = held_worker(stage, kill)
    late = Result(kill.lease.token, Outcome.SUCCEEDED, 0, time.time() - 1, time.time(), output="late")
    worker["status"] = {**worker.get("status", {}), "results": {kill.entry_key: encode_result(late)}}
    itself = Objects(stage.fleet.fencepost.worker_kubeconfig(kill.worker.rpartition("-")[0]))

    with pytest.raises(RefusedError) as refusal:
        itself.replace(worker, subresource="status")

    assert refusal.value.status == 422
    assert "fenced" in refusal.value.message
    assert stage.lease(kill.run, JOB) == second


def test_its_object_is_swept_once_its_mailbox_is_empty(stage: Stage, kill: Kill, second: Lease) -> None:
    def swept() -> bool:
        return "deletionTimestamp" in held_worker(stage, kill)["metadata"]

    stage.wait("the operator deletes it", swept)
    spec = held_worker(stage, kill)["spec"]
    assert (spec["fenced"], spec.get("leases", {})) == (True, {})
    stage.admin.merge(wire.WORKERS, kill.worker, {"metadata": {"finalizers": None}}, SYSTEM_NAMESPACE_DEFAULT)
    stage.wait("it is gone", lambda: stage.worker_object(kill.worker) is None)


def test_its_job_ends_well_in_the_end_and_has_ended_once(stage: Stage, kill: Kill, second: Lease) -> None:
    ledger = stage.ledger("victim")
    ledger.open()
    stage.wait_for_phase(kill.run, "Succeeded")

    assert [line.token for line in ledger.lines("start")] == [kill.lease.token, second.token]
    assert [line.token for line in ledger.lines("end")] == [second.token]
