"""Promises about leases, tokens and results, as runs record them."""

from collections.abc import Iterator, Mapping
from typing import Final

from fencepost.api.codec import decode_result
from fencepost.api.dag_models import LOSSES_MAX
from fencepost.api.names import DAG_RUNS, WORKER_POOLS, WORKERS
from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase
from fencepost.core.plan_workers import token_of
from fencepost.core.run_state import Lease, Outcome
from tests.unit.sim.checker import Checker
from tests.unit.sim.cluster import Job
from tests.unit.sim.history import Stored, Written
from tests.unit.sim.scene import Scene

CAP_MEMORY_S: Final = 60.0
"""A leader may count slots of workers that were there so long ago."""
RUN_BYTES_MAX: Final = 384 * 1024


class TokensGrow(Checker):
    promise = "each lease of a job has a higher token than the one before"
    kinds = (DAG_RUNS,)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._highest: dict[tuple[str, JobKey], int] = {}
        self._started: dict[tuple[str, int], str] = {}
        self._last: dict[tuple[str, str], int] = {}

    def see(self, written: Written) -> Iterator[str]:
        before, after = written.before, written.after
        for job, lease in written.new_leases.items():
            assert after is not None
            highest = self._highest.get((after.uid, job), 0)
            if lease.token <= highest:
                yield f"{after.name} {job} is leased under token {lease.token} after {highest}"
            if lease.token > after.run.lease_counter:
                yield f"{after.name} {job} is leased under token {lease.token}, above the run's counter"
            self._highest[after.uid, job] = lease.token
            self.scene.coverage["lease again" if highest else "lease"] += 1
        if before is not None and after is not None and before.status and after.status:
            for name in ("epoch", "leaseCounter", "round"):
                if after.status.get(name, 0) < before.status.get(name, 0):
                    yield f"{name} of {after.name} falls from {before.status[name]} to {after.status[name]}"

    def job_started(self, job: Job) -> Iterator[str]:
        first = self._started.setdefault((job.execution, job.token), job.worker)
        if self._last.get((job.worker, job.execution), 0) >= job.token:
            yield f"{job.execution} is started on {job.worker} under token {job.token}, which is not new there"
        elif first != job.worker:
            yield f"{job.execution} is started under token {job.token} on {first} and on {job.worker}"
        self._last[job.worker, job.execution] = job.token
        self.scene.coverage["job started"] += 1


class OneResultForEachJob(Checker):
    """What becomes of each lease that a run records no longer, and that what has ended stays so.

    Where a person deletes a worker, its last results count for a leader that had read them, and are lost to others.
    """

    promise = "one result is accepted for each job, that of the lease on record, and none is lost"
    kinds = (DAG_RUNS,)

    def see(self, written: Written) -> Iterator[str]:
        before, after = written.before, written.after
        if before is None or after is None:
            return
        marks = after.spec.get("overrides")
        if after.run.round == before.run.round and not marks:
            for job, (was, now) in written.ends.items():
                if was is not None:
                    yield f"{after.name} {job} had ended as {was} and is {now} now"
        for job, lease in before.run.leases.items():
            if after.run.leases.get(job) != lease:
                yield from self._lease_ended(after, job, lease)
        for job, (was, now) in written.ends.items() if not marks else ():
            if was is None and now is JobPhase.SUCCEEDED and job not in before.run.leases:
                yield f"{after.name} {job} has succeeded without a lease on record"

    def _lease_ended(self, run: Stored, job: JobKey, lease: Lease) -> Iterator[str]:
        worker, left = self.scene.history.worker(lease.worker), self.scene.history.left.get(lease.worker)
        what = f"{run.name} {job}, leased to {lease.worker} under token {lease.token},"
        key, ended = run.key_of(job), run.end_of(job)
        text = worker.results.get(key) if worker is not None else None
        if text is not None and token_of(text) == lease.token:
            outcome = decode_result(text).outcome
            self.scene.coverage[f"folded {outcome}"] += 1
            if run.spec.get("overrides"):
                return
            unread = ended is not JobPhase.SUCCEEDED and left is not None and left.uid in self.scene.deleted_by_people
            if (ended is JobPhase.SUCCEEDED) != (outcome is Outcome.SUCCEEDED) and not unread:
                yield f"{what} was answered with {outcome} and is {ended}"
            if ended is JobPhase.SUCCEEDED and not self._has_run(run, job, lease):
                yield f"{what} succeeded, and no such job has ever ended well there"
            return
        if ended is JobPhase.SUCCEEDED and not run.spec.get("overrides"):
            yield f"{what} succeeded, and its worker does not say so"
        entry = worker.entries.get(key) if worker is not None else None
        if worker is None or worker.fenced or left is not None:
            self.scene.coverage["lease lost with its worker"] += 1
        elif entry is not None and token_of(entry) == lease.token:
            yield f"{what} was taken away while its entry stood there unanswered"
        else:
            self.scene.coverage["lease taken back"] += 1

    def _has_run(self, run: Stored, job: JobKey, lease: Lease) -> bool:
        execution = f"{run.uid}/{job.task}/{job.index}"
        return any(
            (each.execution, each.token, each.worker, each.exit_code) == (execution, lease.token, lease.worker, 0)
            for each in reversed(self.scene.book)
        )


class LossesAreBounded(Checker):
    promise = "no job loses one worker after the other for ever"
    kinds = (DAG_RUNS,)

    def see(self, written: Written) -> Iterator[str]:
        for job, lease in written.new_leases.items():
            if lease.losses > LOSSES_MAX:
                yield f"{written.name} {job} is leased after {lease.losses} losses"


class ShareHolds(Checker):
    """By the slots there were at most within the last minute: no later than that a leader has heard of a loss.

    A lease holds a slot until its worker has answered or is lost, whether or not its run says so already.
    """

    promise = "a DAG holds no more of its pool than its share"
    kinds = (DAG_RUNS, WORKERS, WORKER_POOLS)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._slots: list[tuple[float, int]] = [(0.0, 0)]
        self._percents: list[tuple[float, int]] = []
        self._leases: dict[str, dict[str, Mapping[str, Lease]]] = {}
        """By DAG, by run, by mailbox key."""

    def see(self, written: Written) -> Iterator[str]:
        if written.kind is WORKERS:
            live = (w for w in self.scene.history.objects[WORKERS].values() if not w.fenced)
            self._slots.append((written.at_s, sum(worker.spec["slots"] for worker in live)))
            _forget(self._slots, written.at_s - CAP_MEMORY_S)
            return
        if written.kind is WORKER_POOLS:
            self._percents.append((written.at_s, int(written.now.spec["maxSharePerDAG"].removesuffix("%"))))
            return
        run = written.now
        runs = self._leases.setdefault(run.spec["dag"], {})
        if written.after is None or not written.after.run.leases:
            runs.pop(run.uid, None)
            return
        runs[run.uid] = {run.key_of(job): lease for job, lease in written.after.run.leases.items()}
        if not written.new_leases:
            return
        slots = max(slots for _, slots in self._slots)
        _forget(self._percents, written.at_s - CAP_MEMORY_S)
        share = max(1, slots * max(percent for _, percent in self._percents) // 100)
        if sum(map(len, runs.values())) > share:
            held = sum(self._holds_slot(key, lease) for leases in runs.values() for key, lease in leases.items())
            if held > share:
                yield f"DAG {run.spec['dag']} holds {held} slots of {slots}, {share} are its share"

    def _holds_slot(self, key: str, lease: Lease) -> bool:
        worker = self.scene.history.objects[WORKERS].get(lease.worker)
        if worker is None or worker.fenced:
            return False
        result = worker.results.get(key)
        return result is None or token_of(result) != lease.token


def _forget(known: list[tuple[float, int]], until_s: float) -> None:
    """What was true before, except for what was true last."""
    while len(known) > 1 and known[1][0] < until_s:
        known.pop(0)


class RunsAreSmall(Checker):
    promise = "no object outgrows its limit"
    kinds = (DAG_RUNS,)

    def see(self, written: Written) -> Iterator[str]:
        if written.after is not None and written.after.size_bytes > RUN_BYTES_MAX:
            yield f"run {written.name} has {written.after.size_bytes} bytes"


LEASE_CHECKERS = (TokensGrow, OneResultForEachJob, LossesAreBounded, ShareHolds, RunsAreSmall)
