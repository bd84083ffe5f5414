"""The story of one simulation: who wrote what, when and why, between the faults."""

from fencepost.api.names import DAG_RUNS, DAGS, LEASES, WORKERS
from fencepost.api.times import format_time
from tests.unit.sim.history import Stored, Written


class Story:
    """Lines, one a thing that happened. Told only when somebody will read it, as it costs as much as the rest."""

    def __init__(self, told: bool) -> None:
        self.lines: list[str] = []
        self._told = told

    def note(self, at_s: float, who: str, what: str) -> None:
        """Something other than a write."""
        if self._told:
            self.lines.append(f"{at_s:9.3f} {who:>10}  {what}")

    def written(self, written: Written) -> None:
        """A write."""
        if self._told and (what := _told_of(written)):
            self.note(written.at_s, written.sender, f"[{written.version}] {what}")


def _told_of(written: Written) -> str:
    before, after, kind = written.before, written.after, written.kind
    if after is None:
        return f"deletes {kind.kind} {written.name}"
    verb = "creates" if before is None else "writes"
    match kind:
        case _ if kind is DAG_RUNS:
            return f"{verb} run {written.name}: {_run(written, before, after)}"
        case _ if kind is WORKERS:
            return f"{verb} worker {written.name}: {_worker(before, after)}"
        case _ if kind is DAGS:
            return f"{verb} DAG {written.name}: {_dag(before, after)}"
        case _ if kind is LEASES:
            return _lease(before, after)
    return f"{verb} {kind.kind} {written.name}"


def _run(written: Written, before: Stored | None, after: Stored) -> str:
    run, old = after.run, before.run if before else None
    parts = [f"{run.phase} under epoch {run.epoch}"]
    for job, lease in run.leases.items():
        if old is None or old.leases.get(job) != lease:
            parts.append(f"leases {job} to {lease.worker} under token {lease.token} (attempt {lease.attempt})")
    for job in old.leases if old else ():
        if job not in run.leases:
            parts.append(f"takes {job} from {old.leases[job].worker if old else ''}")
    parts += [f"{job} has {phase}" for job, (_, phase) in written.ends.items()]
    for job, waiting in run.waiting.items():
        if old is None or old.waiting.get(job) != waiting:
            until = format_time(waiting.not_before_s)
            parts.append(f"{job} waits for attempt {waiting.attempt}+{waiting.losses} until {until}")
    if run.reason and (old is None or old.reason != run.reason):
        parts.append(f"{run.reason}: {run.message}")
    if before is not None and before.spec != after.spec:
        parts.append(f"spec {dict(after.spec)}")
    return ", ".join(parts)


def _worker(before: Stored | None, after: Stored) -> str:
    parts = []
    old_entries = before.entries if before else {}
    for key, text in after.entries.items():
        if old_entries.get(key) != text:
            parts.append(f"puts {key}: {' '.join(text.split(' ')[:3])}")
    parts += [f"removes {key}" for key in old_entries if key not in after.entries]
    old_results = before.results if before else {}
    parts += [f"answers {key}: {text[:60]}" for key, text in after.results.items() if old_results.get(key) != text]
    if after.fenced and not (before and before.fenced):
        parts.append("FENCES it")
    if after.status.get("draining") and not (before and before.status.get("draining")):
        parts.append("is draining")
    return ", ".join(parts) or "nothing new"


def _dag(before: Stored | None, after: Stored) -> str:
    status, old = after.status, before.status if before else {}
    parts = [
        f"{name} {status[name]}"
        for name in ("lastScheduledTime", "state", "skipped", "missed", "revision")
        if name in status and status.get(name) != old.get(name)
    ]
    if before is None or before.spec != after.spec:
        parts.append("spec")
    return ", ".join(parts)


def _lease(before: Stored | None, after: Stored) -> str:
    spec, old = after.spec, before.spec if before else {}
    if "leaseTransitions" not in spec:
        return "" if before is not None else f"creates Lease {after.name}"
    if spec == old:
        return ""
    return f"Lease {after.name}: epoch {spec['leaseTransitions']}, holder {spec.get('holderIdentity') or 'nobody'}"
