"""Where the drills take place: a control plane of their own that may be ill-treated, and a fleet each of whose members
reaches it over a line of its own.

The reckoning at the end of each drill compares two witnesses that know nothing of each other, the ledger that the jobs
wrote and the audit log of the API server, with what the runs say of themselves.
"""

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.api.codec import decode_run_status
from fencepost.core.names import execution_id
from fencepost.core.run_state import Lease
from tests.e2e.controlplane import ControlPlane
from tests.e2e.controlplane.processes import reap
from tests.e2e.support.audit import AuditLog
from tests.e2e.support.dags import dag, name_in_shard, task
from tests.e2e.support.fleet import Member
from tests.e2e.support.ledger import Ledger
from tests.e2e.support.lines import Line, Lines
from tests.e2e.support.stage import Stage

SHARDS = 16
REPLICAS = ("operator-0", "operator-1")
WORKERS = ("worker-0", "worker-1", "worker-2", "worker-3")
SLOTS = 4
LIMIT_S = 120.0
"""For what is only waited for, and not measured: the machine may be busy."""


@dataclass
class Ground:
    """Everything that a drill may touch."""

    plane: ControlPlane
    stage: Stage
    lines: Lines
    audit: AuditLog

    def line_of(self, member: Member) -> Line:
        """The way of a member to the API server."""
        return self.lines[member.name]

    def load(self, ledger: Ledger, runs: int, width: int, seconds: float) -> list[str]:
        """So many runs, over all shards: each `width` jobs that take so long, and one after them."""
        wide = task("wide", command=ledger.careful(f"sleep {seconds:.3f}"), forEach={"count": width})
        last = task("last", "wide", command=ledger.careful())
        stem = ledger.file.stem
        shards = [number * SHARDS // runs for number in range(runs)]
        return [self.stage.launch(dag(name_in_shard(f"{stem}-{shard}", shard), wide, last)) for shard in shards]

    def let_pass(self, seconds: float, what: str) -> None:
        """Until so much time has passed."""
        since_s = time.monotonic()
        self.stage.wait(what, lambda: time.monotonic() - since_s > seconds)

    def led_by(self, *members: Member) -> bool:
        """Whether these lead all shards."""
        led = self.stage.shards_led()
        return len(led) == SHARDS and set(led.values()) <= {member.name for member in members}

    def epochs(self) -> dict[int, int]:
        """Of every shard."""
        return {shard: int(self.stage.shard_lease(shard)["leaseTransitions"]) for shard in range(SHARDS)}

    def revive(self) -> set[str]:
        """Start each member again whose process has ended, as a kubelet would; their names."""
        ended = {name for name, member in self.stage.fleet.members.items() if member.process.wait(0)}
        for name in ended:
            reap(self.stage.fleet.members[name].process.pid)
            if name.startswith("operator"):
                self.stage.operator(name)
            else:
                self.stage.worker(name, slots=SLOTS)
        return ended

    def muster(self) -> None:
        """See to it that everybody is there and in service, for the next drill."""
        self.revive()
        self.stage.wait_for_replicas(*REPLICAS)
        self.stage.wait_for_slots("default", SLOTS * len(WORKERS))

    def reckon(self, ledger: Ledger, runs: Sequence[str]) -> set[str]:
        """Every run succeeds; of its jobs none is missing, none was accepted twice, none under an old token, and none
        was begun again unless a worker was lost under it. Those who have ended meanwhile are started again, and named.
        """
        ended: set[str] = set()

        def all_ended_well() -> bool:
            ended.update(self.revive())
            phases = [self.stage.status(run).get("phase") for run in runs]
            assert {"Failed", "Cancelled"}.isdisjoint(phases)
            return all(phase == "Succeeded" for phase in phases)

        self.stage.wait("all runs have succeeded", all_ended_well, LIMIT_S)
        want_jobs = set().union(*(self._reckon_run(ledger, run) for run in runs))
        assert {line.execution for line in ledger.lines("commit")} == want_jobs
        return ended

    def _reckon_run(self, ledger: Ledger, run: str) -> set[str]:
        now = self.stage.run(run)
        uid = now["metadata"]["uid"]
        states = [decode_run_status(version["status"]) for version in self.audit.versions(now) if version.get("status")]
        for what in ("epoch", "lease_counter", "done"):
            values = [getattr(state, what) for state in states]
            assert values == sorted(values), f"{what} of {run} has fallen: {values}"
        leases: dict[str, dict[int, Lease]] = defaultdict(dict)
        for state in states:
            for job, lease in state.leases.items():
                leases[execution_id(uid, job)].setdefault(lease.token, lease)
        assert states[-1].done == states[-1].total == len(leases)
        for execution, given in leases.items():
            _reckon_job(ledger, execution, list(given.values()))
        return set(leases)

    def never_repeated(self, ledger: Ledger) -> None:
        """A fault that may cost no lease: each job ran once."""
        assert not ledger.repeated()
        assert not ledger.count("refused")


def _reckon_job(ledger: Ledger, execution: str, given: list[Lease]) -> None:
    """`given`: every lease that the job has had, in order."""
    tokens = [lease.token for lease in given]
    assert tokens == sorted(tokens), f"{execution} was leased under falling tokens: {tokens}"
    for what in ("start", "commit"):
        noted = [line.token for line in ledger.lines(what) if line.execution == execution]
        assert len(noted) == len(set(noted)), f"{execution} has noted {what} twice under one token: {noted}"
        assert noted == sorted(noted), f"the ledger took {what} of {execution} under an old token: {noted}"
        assert set(noted) <= set(tokens), f"{execution} has a token that was never given: {noted}, given {tokens}"
        assert len(noted) <= 1 + given[-1].losses, f"{execution} has noted {what} {noted}, {given[-1].losses} were lost"
    assert noted[-1:] == tokens[-1:], f"{execution} ended under {tokens[-1]}, and committed under {noted}"
