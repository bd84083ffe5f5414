"""The referee: reads what has been written to the API server, in order, and says which laws were broken.

It knows nothing of how schedulers work; it knows what must never have been stored, whoever died and whatever answer got
lost on the way.
"""

from collections import defaultdict
from collections.abc import Iterator

from fencepost.api.codec import decode_run_status
from fencepost.api.names import DAG_RUNS, DAGS, WORKER_POOLS, WORKERS, Kind
from fencepost.api.times import parse_time
from fencepost.core.names import JobKey, RunKey, mailbox_key
from fencepost.core.phases import JobPhase
from fencepost.core.plan_workers import answered, busy_slots, token_of
from fencepost.core.reserve import Marked, kept_slots
from fencepost.core.run_state import Lease, Order, Outcome, RunState
from fencepost.kube.protocol import EventType, Obj
from tests.unit.loops.stage import Stage


async def broken_laws(stage: Stage) -> list[str]:
    """Every law that was broken in a story, with where."""
    events: list[tuple[int, Kind, EventType, Obj]] = []
    for kind in (DAG_RUNS, WORKERS, DAGS):
        for event in await stage.history(kind):
            if event.type is not EventType.BOOKMARK:
                events.append((int(event.object["metadata"]["resourceVersion"]), kind, event.type, event.object))
    referee = Referee(stage)
    for version, kind, type_, obj in sorted(events, key=lambda event: event[0]):
        for law in referee.see(kind, type_, obj):
            referee.broken.append(f"version {version}, {kind} {obj['metadata']['name']}: {law}")
    return referee.broken + list(_twice_started(stage))


class Referee:
    """What is stored at one moment of the history, and what was before."""

    def __init__(self, stage: Stage) -> None:
        self.broken: list[str] = []
        self._stage = stage
        self._states: dict[str, RunState] = {}
        """By UID."""
        self._recorded: dict[str, tuple[str, int]] = {}
        """By mailbox key: worker and token of the leases that runs record."""
        self._deleted_at_s = {
            request.name: stage.clock.now_s() - stage.now_s + sent_s
            for sent_s, _, request in stage.requests
            if (request.verb, request.kind) == ("delete", DAG_RUNS)
        }
        self._workers: dict[str, Obj] = {}
        self._dags: dict[str, Obj] = {}
        """By name."""
        self._tokens: dict[tuple[str, JobKey], int] = defaultdict(int)
        self._slots: dict[tuple[str, str], str] = {}
        """Of each scheduled run's name and DAG's UID: the run's UID."""

    def see(self, kind: Kind, type_: EventType, obj: Obj) -> Iterator[str]:
        """The next thing that happened."""
        meta = obj["metadata"]
        gone = type_ is EventType.DELETED
        if kind is DAGS and gone:
            del self._dags[meta["name"]]
        elif kind is DAGS:
            self._dags[meta["name"]] = obj
        elif kind is DAG_RUNS:
            yield from self._run_gone(obj) if gone else self._run_written(obj)
        elif gone:
            del self._workers[meta["name"]]
        else:
            yield from self._worker_written(obj, self._workers.get(meta["name"]))
            self._workers[meta["name"]] = obj

    def _run_written(self, obj: Obj) -> Iterator[str]:
        meta, spec = obj["metadata"], obj["spec"]
        if meta["uid"] not in self._states and spec.get("trigger") == "Schedule":
            first = self._slots.setdefault((meta["name"], spec["dagUID"]), meta["uid"])
            if first != meta["uid"] and meta["name"] not in self._stage.deleted_by_people:
                yield "its slot fired before"
        before, after = self._states.get(meta["uid"], RunState()), _state(obj)
        self._states[meta["uid"]] = after
        for job, lease in after.leases.items():
            if before.leases.get(job) != lease:
                if lease.token <= self._tokens[meta["uid"], job]:
                    yield f"{job} is leased under token {lease.token}, which is not above all before"
                self._tokens[meta["uid"], job] = lease.token
                self._recorded[_key(obj, job)] = (lease.worker, lease.token)
        for job, lease in before.leases.items():
            if after.leases.get(job) != lease:
                if job not in after.leases:
                    del self._recorded[_key(obj, job)]
                yield from self._lease_ended(obj, job, lease, after)
        if after.round == before.round:
            yield from self._reopened(spec, before, after)
        elif not before.phase.finished or after.round != before.round + 1:
            yield f"round {after.round} began in a run that was {before.phase} in round {before.round}"

    def _reopened(self, spec: Obj, before: RunState, after: RunState) -> Iterator[str]:
        """Within a round a job ends once, unless a person marks it; then what was skipped below it goes on."""
        marked = _marked(spec, after.round)
        for job, phase in _ended(before).items():
            now = _ended(after).get(job)
            goes_on = bool(marked) and phase in (JobPhase.SKIPPED, JobPhase.CANCELLED)
            if now is not phase and not goes_on and marked.isdisjoint((str(job), job.task)):
                yield f"{job} had ended as {phase} and is {now} now"

    def _lease_ended(self, run: Obj, job: JobKey, lease: Lease, after: RunState) -> Iterator[str]:
        """A lease may end by its result, or when its worker is shut out, or when its entry is gone."""
        worker = self._workers.get(lease.worker)
        key = _key(run, job)
        result = (worker or {}).get("status", {}).get("results", {}).get(key, "")
        reported = bool(result) and token_of(result) == lease.token
        entry = worker["spec"].get("leases", {}).get(key, "") if worker else ""
        fenced = worker is None or worker["spec"].get("fenced")
        if not reported and not fenced and entry and token_of(entry) == lease.token:
            yield f"{job} was taken from {lease.worker} while its entry stood there unanswered"
        succeeded = reported and result.split(" ")[1] == Outcome.SUCCEEDED
        if not _marked(run["spec"], after.round).isdisjoint((str(job), job.task)):
            return
        if _ended(after).get(job) is JobPhase.SUCCEEDED and not succeeded:
            yield f"{job} succeeded and {lease.worker} does not say so under token {lease.token}"

    def _run_gone(self, run: Obj) -> Iterator[str]:
        meta, spec = run["metadata"], run["spec"]
        dag = self._dags.get(spec["dag"])
        state = self._states.pop(meta["uid"])
        for job in state.leases:
            del self._recorded[_key(run, job)]
        if meta["name"] in self._stage.deleted_by_people or dag is None or dag["metadata"]["uid"] != spec.get("dagUID"):
            return
        age_s = self._deleted_at_s[meta["name"]] - parse_time(meta["creationTimestamp"])
        if not state.phase.finished:
            yield "it was deleted before its end"
        if age_s < self._stage.history_age_min_s - 1:
            yield f"it was deleted at the age of {age_s:g} s"
        mark = dag.get("status", {}).get("lastScheduledTime")
        if spec.get("trigger") == "Schedule" and (mark is None or parse_time(mark) < parse_time(spec["scheduledTime"])):
            yield f"it was deleted while the stored mark was at {mark}"

    def _worker_written(self, obj: Obj, old: Obj | None) -> Iterator[str]:
        entries, results = _entries(obj), (obj.get("status") or {}).get("results") or {}
        before = _entries(old) if old else {}
        if not obj["spec"].get("fenced") and busy_slots(entries, results) > obj["spec"]["slots"]:
            yield f"{busy_slots(entries, results)} jobs on {obj['spec']['slots']} slots"
        critical = set(obj["spec"].get("critical", ()))
        others = busy_slots(entries, results, critical)
        for key, text in entries.items():
            new = token_of(before.get(key, "0 ")) != token_of(text)
            if new and key not in before.keys() | critical and others > obj["spec"]["slots"] - self._kept(obj):
                yield f"{key} is not critical, and was given a slot that is kept for jobs that are"
            if new and key in self._recorded and not self._is_recorded(obj, key, text):
                yield f"{key} was delivered under token {token_of(text)}, which no run records"
        for key, text in before.items():
            unanswered_stop = text.split(" ")[1] == Order.STOP and not answered(key, text, results)
            if key not in entries and self._is_recorded(obj, key, text) and not unanswered_stop:
                yield f"{key} was taken away while its run recorded it"

    def _kept(self, worker: Obj) -> int:
        """Slots that a worker keeps, by its mark and by what its pool said last."""
        spec = worker["spec"]
        pool = self._stage.find(WORKER_POOLS, spec["pool"])
        percent = pool["spec"].get("reserved", {}).get("critical", "0%") if pool is not None else "0%"
        return kept_slots(int(percent.removesuffix("%")), Marked(spec["slots"], spec.get("reservedSlots")))

    def _is_recorded(self, worker: Obj, key: str, text: str) -> bool:
        return self._recorded.get(key) == (worker["metadata"]["name"], token_of(text))


def _twice_started(stage: Stage) -> Iterator[str]:
    """A lease is started once; a worker starts a job only under a token above those it has seen."""
    seen: dict[tuple[str, str], str] = {}
    last: dict[tuple[str, str], int] = defaultdict(int)
    for worker, job in stage.started:
        execution, token = job.launch.env["FENCEPOST_EXECUTION_ID"], job.launch.env["FENCEPOST_TOKEN"]
        if (execution, token) in seen:
            yield f"{execution} was started under token {token} on {seen[execution, token]}, and again on {worker}"
        seen[execution, token] = worker
        if int(token) <= last[worker, execution]:
            yield f"{execution} was started on {worker} under token {token} after {last[worker, execution]}"
        last[worker, execution] = int(token)


def _state(run: Obj | None) -> RunState:
    return decode_run_status(run["status"]) if run is not None and "status" in run else RunState()


def _ended(state: RunState) -> dict[JobKey, JobPhase]:
    return {
        JobKey(name, index): phase
        for name, task in state.tasks.items()
        for phase, indices in task.ended.items()
        for index in indices
    }


def _marked(spec: Obj, round_: int) -> set[str]:
    """The jobs, and tasks, that a person has marked in this round."""
    return {key for key, mark in spec.get("overrides", {}).items() if mark.get("round", 0) == round_}


def _entries(worker: Obj) -> dict[str, str]:
    return dict(worker["spec"].get("leases") or {})


def _key(run: Obj, job: JobKey) -> str:
    meta = run["metadata"]
    return str(mailbox_key(RunKey(meta["namespace"], meta["name"]), meta["uid"], job))
