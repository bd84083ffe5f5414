"""Where the stories take place: a fleet on a cluster, seen by its administrator and by a user.

Whatever a person does in them is done as the user, who has the built-in role `edit` and no more. All waiting is for a
condition, with a limit that is far above what it takes, since the machine may be busy.
"""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fencepost.api import names as wire
from fencepost.api.codec import decode_run_status
from fencepost.api.names import SYSTEM_NAMESPACE_DEFAULT
from fencepost.core.names import SHARDS_DEFAULT, member_lease_name, parse_job_key, shard_lease_name
from fencepost.core.ring import assign
from fencepost.core.run_state import Lease, RunState
from tests.e2e.controlplane.waiting import eventually
from tests.e2e.support.dags import NAMESPACE, pool, run_of, shard_of_dag
from tests.e2e.support.fleet import Fleet, Member, fleet
from tests.e2e.support.install import Fencepost, InstallError, kubectl
from tests.e2e.support.ledger import Ledger
from tests.e2e.support.objects import Objects, meta_name

Obj = dict[str, Any]
T = TypeVar("T")
Recorder = Callable[[str, object], None]
"""pytest's `record_property`, by which a story hands on a figure that it has measured."""

LIMIT_S = 60.0
HISTORY_AGE_S = 1
"""How long every run is kept at least, instead of two minutes."""
DRAIN_TIMEOUT_S = 20
MEMBER = member_lease_name("")
FINISHED = ("Succeeded", "Failed", "Cancelled")


@dataclass
class Stage:
    """A fleet, and the people who use it."""

    fleet: Fleet
    admin: Objects
    user: Objects
    user_kubeconfig: Path
    folder: Path

    # Who is on it

    def operator(self, name: str) -> Member:
        """Start a replica, and do not wait for it."""
        return self.fleet.operator(name, wait=False, history_age=HISTORY_AGE_S)

    def worker(self, pod: str, pool: str = "default", slots: int = 4) -> Member:
        """Start a worker, and do not wait for it."""
        return self.fleet.worker(pod, wait=False, pool=pool, slots=slots, drain_timeout=DRAIN_TIMEOUT_S)

    def replicas(self) -> list[Member]:
        """The operator's processes."""
        return [member for name, member in self.fleet.members.items() if name.startswith("operator")]

    def dismiss(self, *pods: str) -> None:
        """Ask workers to end, all of them if none is named, and do not wait for it: they take leave of the operator."""
        replicas = self.replicas()
        for name, member in self.fleet.members.items():
            if name in pods or (not pods and member not in replicas):
                member.process.send(signal.SIGTERM)

    # What people do

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """kubectl as the user in the tests' namespace; what it prints. InstallError where it fails."""
        return kubectl(self.user_kubeconfig, f"--namespace={NAMESPACE}", *arguments, stdin=stdin)

    def refusal(self, *arguments: str, stdin: str = "") -> str:
        """What a kubectl that must fail says."""
        try:
            said = self.kubectl(*arguments, stdin=stdin)
        except InstallError as error:
            return str(error)
        raise AssertionError(f"kubectl {' '.join(arguments)} went through: {said}")

    def apply(self, dag: Obj) -> str:
        """Create a DAG, as the user; its name."""
        return meta_name(self.user.create(dag))

    def start(self, dag: str, run: str = "", **spec: Any) -> str:
        """Make a run by hand, as the user; its name."""
        return meta_name(self.user.create(run_of(dag, run or f"{dag}-by-hand", **spec)))

    def launch(self, dag: Obj, **spec: Any) -> str:
        """Create a DAG and a run of it, as the user; the run's name."""
        return self.start(self.apply(dag), **spec)

    def cancel(self, run: str) -> None:
        """Cancel a run, as the user."""
        self.user.merge(wire.DAG_RUNS, run, {"spec": {"cancel": True}}, NAMESPACE)

    def ledger(self, name: str) -> Ledger:
        """A ledger of this name, which no other story should have."""
        return Ledger(self.folder / f"{name}.ledger")

    # What is there

    def run(self, name: str) -> Obj:
        """A run's object."""
        return self.user.get(wire.DAG_RUNS, name, NAMESPACE)

    def status(self, name: str) -> Obj:
        """A run's status; empty while nobody has taken it up."""
        status: Obj = self.run(name).get("status", {})
        return status

    def state(self, name: str) -> RunState:
        """A run's status, decoded."""
        return decode_run_status(self.status(name))

    def lease(self, run: str, job: str) -> Lease | None:
        """The lease of a job of a run; None while it has none."""
        status = self.status(run)
        return decode_run_status(status).leases.get(parse_job_key(job)) if status else None

    def dag(self, name: str) -> Obj:
        """A DAG's object."""
        return self.user.get(wire.DAGS, name, NAMESPACE)

    def dag_status(self, name: str) -> Obj:
        """A DAG's status; empty while nobody has looked at it."""
        status: Obj = self.dag(name).get("status", {})
        return status

    def runs_of(self, dag: str) -> list[Obj]:
        """All runs of a DAG."""
        return [run for run in self.user.all_of(wire.DAG_RUNS, NAMESPACE) if run["spec"]["dag"] == dag]

    def events(self, name: str) -> list[Obj]:
        """The Events about an object of this name."""
        found = self.admin.all_of(wire.EVENTS, NAMESPACE)
        return [event for event in found if event["involvedObject"]["name"] == name]

    def worker_object(self, name: str) -> Obj | None:
        """A Worker's object, by its own name."""
        return self.admin.find(wire.WORKERS, name, SYSTEM_NAMESPACE_DEFAULT)

    def workers_of(self, pool: str) -> list[Obj]:
        """The live Workers of a pool."""
        found = self.admin.all_of(wire.WORKERS, SYSTEM_NAMESPACE_DEFAULT)
        return [worker for worker in found if worker["spec"]["pool"] == pool and not worker["spec"].get("fenced")]

    def member_of(self, worker: str) -> Member:
        """The process behind a Worker's name."""
        return self.fleet.members[worker.rpartition("-")[0]]

    # Who leads

    def shard_lease(self, shard: int) -> Obj:
        """The spec of a shard's Lease."""
        spec: Obj = self.admin.get(wire.LEASES, shard_lease_name(shard), SYSTEM_NAMESPACE_DEFAULT)["spec"]
        return spec

    def epoch(self, dag: str) -> int:
        """Of the shard of a DAG, as it stands in its Lease."""
        return int(self.shard_lease(shard_of_dag(dag))["leaseTransitions"])

    def leader_of(self, dag: str) -> Member:
        """The replica that leads the shard of a DAG."""
        shard = shard_of_dag(dag)
        return self.wait(f"shard {shard} is led", lambda: self._leader(shard))

    def shards_led(self) -> dict[int, str]:
        """The replica of each shard that is led by a member that lives, as far as its own Lease tells."""
        leases = self._lease_specs()
        found = {}
        for shard in range(SHARDS_DEFAULT):
            holder = leases.get(shard_lease_name(shard), {}).get("holderIdentity") or ""
            if f"{MEMBER}{holder}" in leases:
                found[shard] = holder.rpartition("-")[0]
        return found

    def _lease_specs(self) -> dict[str, Obj]:
        return {meta_name(lease): lease["spec"] for lease in self.admin.all_of(wire.LEASES, SYSTEM_NAMESPACE_DEFAULT)}

    def _leader(self, shard: int) -> Member | None:
        return self.fleet.members.get(self.shards_led().get(shard, ""))

    # What is to come

    def wait(self, what: str, condition: Callable[[], T | None], limit_s: float = LIMIT_S) -> T:
        """The first value of the condition that counts as true; TimeoutError after the limit."""
        found = eventually(what, condition, limit_s=limit_s)
        assert found is not None
        return found

    def wait_for_dag(self, name: str, field: str, value: object = None) -> Obj:
        """A DAG's status, once it has a field (of this value)."""
        return self.wait(f"DAG {name} tells its {field}", lambda: _having(self.dag_status(name), field, value))

    def wait_for_run(self, name: str, field: str) -> Obj:
        """A run's status, once it has a field."""
        return self.wait(f"run {name} tells its {field}", lambda: _having(self.status(name), field))

    def wait_for_phase(self, run: str, *phases: str, limit_s: float = LIMIT_S) -> Obj:
        """The run's status once its phase is one of these; fails at once when it has ended in another."""

        def reached() -> Obj | None:
            status = self.status(run)
            phase = status.get("phase")
            if phase in FINISHED and phase not in phases:
                raise AssertionError(f"run {run} is {phase}, wanted {' or '.join(phases)}: {json.dumps(status)}")
            return status if phase in phases else None

        return self.wait(f"run {run} is {' or '.join(phases)}", reached, limit_s)

    def wait_for_lease(self, run: str, job: str, limit_s: float = LIMIT_S) -> Lease:
        """The lease of a job, once it has one."""
        return self.wait(f"job {job} of run {run} is leased", lambda: self.lease(run, job), limit_s)

    def wait_for_slots(self, pool: str, slots: int) -> None:
        """Until every replica sees so many live slots in a pool."""

        def seen() -> bool:
            return all(member.metric("fencepost_slots_live", pool=pool) == slots for member in self.replicas())

        self.wait(f"pool {pool} has {slots} slots", seen)

    def wait_for_replicas(self, *names: str) -> None:
        """Until these replicas, and no others, are members and ready, and each leads what the ring gives it."""
        for name in names:
            self.wait(f"{name} is ready", self.fleet.members[name].ready)

        def shared() -> bool:
            leases = self._lease_specs()
            members = {lease.removeprefix(MEMBER) for lease in leases if lease.startswith(MEMBER)}
            if {identity.rpartition("-")[0] for identity in members} != set(names):
                return False
            leaders = assign(SHARDS_DEFAULT, members)
            return all(
                leases.get(shard_lease_name(shard), {}).get("holderIdentity") == leaders[shard] for shard in leaders
            )

        self.wait(f"{' and '.join(names)} share all shards", shared)


def _having(status: Obj, field: str, value: object = None) -> Obj | None:
    return status if field in status and value in (None, status[field]) else None


@contextmanager
def stage_on(fencepost: Fencepost, folder: Path) -> Iterator[Stage]:
    """A stage with nobody on it yet, with the pool `default`; what was made on it goes when it ends."""
    admin = Objects(fencepost.admin_kubeconfig)
    user_kubeconfig = fencepost.user_kubeconfig()
    fencepost.kubectl("wait", "--for=delete", f"namespace/{NAMESPACE}", "--timeout=60s")
    fencepost.kubectl("create", "namespace", NAMESPACE)
    admin.create(pool("default"))
    try:
        with fleet(fencepost, folder / "logs") as made:
            stage = Stage(made, admin, Objects(user_kubeconfig), user_kubeconfig, folder)
            yield stage
            pods = sorted(made.members.keys() - {replica.name for replica in stage.replicas()})
            stage.dismiss()
        _sweep(fencepost, admin, pods)
    finally:
        admin.delete(wire.WORKER_POOLS, "default")
        fencepost.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def _sweep(fencepost: Fencepost, admin: Objects, pods: list[str]) -> None:
    """Take away what workers have left, as no operator is there any more to do it. Their Leases go with them."""
    fencepost.kubectl("delete", "pods", *pods, f"--namespace={SYSTEM_NAMESPACE_DEFAULT}", "--wait=false")
    for name in map(meta_name, admin.all_of(wire.WORKERS, SYSTEM_NAMESPACE_DEFAULT)):
        if name.rpartition("-")[0] in pods:
            admin.delete(wire.WORKERS, name, SYSTEM_NAMESPACE_DEFAULT)
