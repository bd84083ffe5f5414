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
class Loss:
    """What has happened."""

    run: str
    worker: str
    """That was killed."""
    entry_key: str
    """Of the job, in that worker's mailbox."""
    first: Lease
    second: Lease
    family_gone_s: float
    """From the kill until no process of the job was left."""
    relocated_s: float
    """From the kill until the job had started again."""


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
def loss(stage: Stage, fragile: None) -> Iterator[Loss]:
    """A worker is killed under a job that has children of its own, and the job has started again elsewhere."""
    ledger = stage.ledger("victim")
    run = stage.launch(dag("victim", task("victim", command=ledger.job(FAMILY + ledger.until_open())), pool=POOL))
    stage.wait("the whole family lives", lambda: len(processes_of(run)) >= FAMILY_SIZE)
    first = stage.wait_for_lease(run, JOB)
    worker = stage.admin.merge(
        wire.WORKERS, first.worker, {"metadata": {"finalizers": [HOLD]}}, SYSTEM_NAMESPACE_DEFAULT
    )
    [entry_key] = worker["spec"]["leases"]

    killed_s = time.monotonic()
    stage.member_of(first.worker).process.send(signal.SIGKILL)
    stage.wait("the job's processes are gone", lambda: not processes_of(run), CHILDREN_LIMIT_S)
    family_gone_s = time.monotonic() - killed_s
    stage.wait("the job has started again", lambda: ledger.count("start") == 2, 2 * RELOCATION_LIMIT_S)
    relocated_s = time.monotonic() - killed_s
    yield Loss(run, first.worker, entry_key, first, stage.wait_for_lease(run, JOB), family_gone_s, relocated_s)
    ledger.open()


def held_worker(stage: Stage, loss: Loss) -> Obj:
    worker = stage.worker_object(loss.worker)
    assert worker is not None, "our finalizer holds it"
    return worker


def test_its_jobs_die_with_it_with_all_that_they_have_started(loss: Loss, record_property: Recorder) -> None:
    record_property("family_gone_s", round(loss.family_gone_s, 2))

    assert loss.family_gone_s < CHILDREN_LIMIT_S


def test_its_jobs_run_elsewhere_in_time_under_a_higher_token_as_the_same_attempt(
    loss: Loss, record_property: Recorder
) -> None:
    record_property("relocated_s", round(loss.relocated_s, 2))

    assert loss.relocated_s < RELOCATION_LIMIT_S
    assert loss.second.worker != loss.worker
    assert loss.second.token > loss.first.token
    assert (loss.first.attempt, loss.first.losses) == (1, 0)
    assert (loss.second.attempt, loss.second.losses) == (1, 1)


def test_its_late_result_is_refused_by_the_api_server(stage: Stage, loss: Loss) -> None:
    worker = held_worker(stage, loss)
    late = Result(loss.first.token, Outcome.SUCCEEDED, 0, time.time() - 1, time.time(), output="late")
    worker["status"] = {**worker.get("status", {}), "results": {loss.entry_key: encode_result(late)}}
    itself = Objects(stage.fleet.fencepost.worker_kubeconfig(loss.worker.rpartition("-")[0]))

    with pytest.raises(RefusedError) as refusal:
        itself.replace(worker, subresource="status")

    assert refusal.value.status == 422
    assert "fenced" in refusal.value.message
    assert stage.lease(loss.run, JOB) == loss.second


def test_its_object_is_swept_once_its_mailbox_is_empty(stage: Stage, loss: Loss) -> None:
    def swept() -> bool:
        return "deletionTimestamp" in held_worker(stage, loss)["metadata"]

    stage.wait("the operator deletes it", swept)
    spec = held_worker(stage, loss)["spec"]
    assert (spec["fenced"], spec.get("leases", {})) == (True, {})
    stage.admin.merge(wire.WORKERS, loss.worker, {"metadata": {"finalizers": None}}, SYSTEM_NAMESPACE_DEFAULT)
    stage.wait("it is gone", lambda: stage.worker_object(loss.worker) is None)


def test_its_job_ends_well_in_the_end_and_has_ended_once(stage: Stage, loss: Loss) -> None:
    ledger = stage.ledger("victim")
    ledger.open()
    stage.wait_for_phase(loss.run, "Succeeded")

    assert [line.token for line in ledger.lines("start")] == [loss.first.token, loss.second.token]
    assert [line.token for line in ledger.lines("end")] == [loss.second.token]


def test_workers_that_are_restarted_one_by_one_under_load_lose_and_fail_nothing(stage: Stage) -> None:
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
