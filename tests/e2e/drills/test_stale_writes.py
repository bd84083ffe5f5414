"""What a deposed leader and a lost worker may still send, one by one: the API server itself refuses each.

All is sent by the operator's or a worker's own identity, which is good in itself; what is stale is in the write.
"""

import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass

import pytest

from fencepost.api import names as wire
from fencepost.api.codec import encode_result
from fencepost.api.names import SYSTEM_NAMESPACE_DEFAULT
from fencepost.api.times import format_time
from fencepost.core.names import member_lease_name, shard_lease_name
from fencepost.core.run_state import Outcome, Result
from tests.e2e.drills.ground import LIMIT_S, WORKERS, Ground
from tests.e2e.support.dags import NAMESPACE, dag, name_in_shard, shard_of_dag, task
from tests.e2e.support.objects import Obj, Objects, RefusedError, meta_name
from tests.e2e.support.stage import Stage

SHARD = 3


@dataclass(frozen=True)
class Scene:
    """A run in flight, whose leader has been deposed and whose record has moved on since."""

    stage: Stage
    operator: Objects
    worker: Objects
    """Of WORKERS[0]."""
    before: Obj
    """The run as the deposed leader knew it."""
    shard_lease: Obj
    member_lease: Obj
    """Both as the deposed leader knew them."""
    mailbox: Obj
    """The Worker that the run's job is leased to, as it is now."""

    def now(self) -> Obj:
        """The run as it is stored."""
        return self.stage.run(meta_name(self.before))


@pytest.fixture(scope="module")
def scene(ground: Ground) -> Iterator[Scene]:
    """The leader dies, and the next one leases the second of two jobs."""
    stage, ledger, name = ground.stage, ground.stage.ledger("stale"), name_in_shard("stale", SHARD)
    first, second = (
        task("first", command=ledger.gated("first")),
        task("second", "first", command=ledger.gated("second")),
    )
    run = stage.launch(dag(name, first, second))
    stage.wait_for_lease(run, "first/0")
    leader = stage.leader_of(name)
    before, shard_lease = stage.run(run), lease_of(stage, shard_lease_name(shard_of_dag(name)))
    member_lease = lease_of(stage, member_lease_name(shard_lease["spec"]["holderIdentity"]))

    leader.process.kill()
    ledger.open("first")
    stage.wait("another leads it", lambda: stage.epoch(name) > shard_lease["spec"]["leaseTransitions"], LIMIT_S)
    lease = stage.wait_for_lease(run, "second/0", LIMIT_S)
    stage.wait("it is delivered", lambda: ledger.count("start", "second"), LIMIT_S)
    mailbox = stage.worker_object(lease.worker)
    assert mailbox is not None
    kubeconfigs = stage.fleet.fencepost
    operator, worker = kubeconfigs.operator_kubeconfig(), kubeconfigs.worker_kubeconfig(WORKERS[0])
    yield Scene(stage, Objects(operator), Objects(worker), before, shard_lease, member_lease, mailbox)
    ledger.open("second")
    stage.wait_for_phase(run, "Succeeded", limit_s=LIMIT_S)
    ground.muster()


def lease_of(stage: Stage, name: str) -> Obj:
    return stage.admin.get(wire.LEASES, name, SYSTEM_NAMESPACE_DEFAULT)


def stale_version(scene: Scene) -> None:
    scene.operator.replace(scene.before)


def stale_epoch(scene: Scene) -> None:
    late = scene.now()
    late["status"]["epoch"] = scene.before["status"]["epoch"]
    scene.operator.replace(late)


def stale_epoch_of_a_creation(scene: Scene) -> None:
    """What a leader that was frozen in the middle of a create sends when it wakes up."""
    late, slot_s = deepcopy(scene.before), int(time.time()) // 60 * 60
    name = f"{late['spec']['dag']}-{slot_s}"
    late["metadata"] = {"name": name, "namespace": NAMESPACE, "labels": late["metadata"]["labels"]}
    late["spec"] |= {"trigger": "Schedule", "scheduledTime": format_time(slot_s)}
    scene.operator.create(late)


def stale_token_in_the_record(scene: Scene) -> None:
    late = scene.now()
    late["status"]["leaseCounter"] = scene.before["status"]["leaseCounter"]
    scene.operator.replace(late)


def stale_token_in_the_mailbox(scene: Scene) -> None:
    late = scene.stage.worker_object(meta_name(scene.mailbox))
    assert late is not None
    leases = late["spec"]["leases"]
    for key, text in leases.items():
        token, _, rest = text.partition(" ")
        leases[key] = f"{int(token) - 1} {rest}"
    scene.operator.replace(late)


def stale_token_in_a_result(scene: Scene) -> None:
    late = scene.stage.worker_object(meta_name(scene.mailbox))
    assert late is not None
    [key, text], *_ = late["spec"]["leases"].items()
    result = Result(int(text.partition(" ")[0]) - 1, Outcome.SUCCEEDED, 0, time.time() - 1, time.time())
    late["status"] = {**late.get("status", {}), "results": {key: encode_result(result)}}
    of_itself = scene.stage.fleet.fencepost.worker_kubeconfig(meta_name(late).rpartition("-")[0])
    Objects(of_itself).replace(late, subresource="status")


def stale_identity_of_a_member(scene: Scene) -> None:
    scene.operator.replace(scene.member_lease)


def stale_identity_of_a_leader(scene: Scene) -> None:
    scene.operator.replace(scene.shard_lease)


def identity_of_another_worker(scene: Scene) -> None:
    other = next(
        worker for worker in scene.stage.workers_of("default") if not meta_name(worker).startswith(f"{WORKERS[0]}-")
    )
    late = deepcopy(other)
    late["status"] = {**late.get("status", {}), "draining": True}
    scene.worker.replace(late, subresource="status")


def leadership_wiped_away(scene: Scene) -> None:
    scene.operator.delete(wire.LEASES, meta_name(scene.shard_lease), SYSTEM_NAMESPACE_DEFAULT)


@pytest.mark.parametrize(
    ("write", "want_status", "want_words"),
    [
        (stale_version, 409, "has been modified"),
        (stale_epoch, 422, "status.epoch"),
        (stale_epoch_of_a_creation, 403, "comes too late"),
        (stale_token_in_the_record, 422, "status.leaseCounter"),
        (stale_token_in_the_mailbox, 422, "the token of an entry never decreases"),
        (stale_token_in_a_result, 422, "must carry the token of the entry"),
        (stale_identity_of_a_member, 409, "Precondition failed: UID"),
        (stale_identity_of_a_leader, 409, "has been modified"),
        (identity_of_another_worker, 403, "only a worker itself"),
        (leadership_wiped_away, 403, "the Lease of a shard cannot be deleted"),
    ],
)
def test_a_stale_write_is_refused_by_the_api_server_itself(
    scene: Scene, write: Callable[[Scene], None], want_status: int, want_words: str
) -> None:
    before = scene.now()["metadata"]["resourceVersion"]

    with pytest.raises(RefusedError) as refusal:
        write(scene)

    assert (refusal.value.status, want_words in refusal.value.message) == (want_status, True), refusal.value.message
    assert scene.now()["metadata"]["resourceVersion"] == before
