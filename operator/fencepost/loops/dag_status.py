"""What a leader remembers of a DAG, and the status that it writes from it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.api.times import format_time, parse_time
from fencepost.core.intents import Authority, WriteDagStatus
from fencepost.core.problems import Problem
from fencepost.observe.dags import DagView
from fencepost.observe.runs import RunView

FIRED_REMEMBERED_MAX = 1000
MESSAGE_LENGTH_MAX = 4096
"""Of a condition; a cycle through thousands of tasks spells a long one."""


@dataclass(slots=True)
class DagMemory:
    """What the leader of now knows of a DAG's schedule."""

    authority: Authority
    uid: str
    mark_s: float
    """Every slot up to it has its fate; not lower than what is stored."""
    stored_mark_s: float
    schedule_hash: str
    schedule_seen_s: float
    """No slot up to here fires: the schedule was first seen in its present form then."""
    skipped: int
    missed: int
    live: bool = False
    """Read live under this authority; no slot is decided before."""
    planned: bool = False
    """Its slots have been looked at under this authority, so that the next line is true."""
    next_s: float | None = None
    skip_reason: str = ""
    skip_announced: str = ""
    fired: dict[int, str] = field(default_factory=dict)
    """Slots fired by this leader, the latest ones, each with its run's UID."""

    @staticmethod
    def read(view: DagView, authority: Authority) -> "DagMemory":
        """From a DAG as it stands in the cache. Garbled fields count as absent."""
        status = view.status
        mark_s = stored_mark_s(view)
        return DagMemory(
            authority=authority,
            uid=view.uid,
            mark_s=mark_s,
            stored_mark_s=mark_s,
            schedule_hash=str(status.get("scheduleHash", "")),
            schedule_seen_s=_time(status.get("scheduleSeenTime")) or view.created_s,
            skipped=_count(status.get("skipped")),
            missed=_count(status.get("missed")),
        )

    def follow(self, view: DagView, now_s: float) -> None:
        """Take note of an edited schedule: nothing before now fires under the new one."""
        if view.schedule_hash and view.schedule_hash != self.schedule_hash:
            self.schedule_seen_s = view.created_s if not self.schedule_hash else now_s
            self.schedule_hash = view.schedule_hash

    def fired_slot(self, slot_s: int, uid: str) -> None:
        """A slot's run is known to exist."""
        self.mark_s = max(self.mark_s, slot_s)
        self.fired[slot_s] = uid
        if len(self.fired) > FIRED_REMEMBERED_MAX:
            del self.fired[next(iter(self.fired))]


def dag_status(
    view: DagView, memory: DagMemory, runs: Sequence[RunView], revision_stored: str, pool_problem: str, now_s: float
) -> WriteDagStatus | None:
    """The write that brings a DAG's status up to date; None when it is."""
    finished = [run for run in runs if run.state is not None and run.state.finish_s is not None]
    last = max(finished, key=lambda run: run.state.finish_s if run.state and run.state.finish_s else 0.0, default=None)
    problem = view.problems[0] if view.problems else None
    if problem is None and pool_problem:
        problem = Problem("PoolNotUsable", "spec.pool", pool_problem, "")
    status: dict[str, Any] = {
        "observedGeneration": view.generation,
        "conditions": [_ready(view, problem, now_s)],
        "active": sum(not run.finished for run in runs),
        "state": "Invalid" if problem else "Suspended" if view.checked and view.checked.spec.suspend else "Ready",
        "skipped": memory.skipped,
        "missed": memory.missed,
        "scheduleHash": memory.schedule_hash,
        "scheduleSeenTime": format_time(memory.schedule_seen_s),
        "revision": revision_stored,
    }
    if view.checked is not None and view.checked.schedule:
        status["schedule"] = view.checked.schedule.summary
    if memory.mark_s:
        status["lastScheduledTime"] = format_time(memory.mark_s)
    if memory.next_s is not None and problem is None:
        status["nextScheduledTime"] = format_time(memory.next_s)
    if last is not None and last.state is not None and last.state.finish_s is not None:
        finish = format_time(last.state.finish_s)
        status["lastRun"] = {"name": last.key.name, "phase": str(last.state.phase), "finishTime": finish}
    elif "lastRun" in view.status:
        status["lastRun"] = view.status["lastRun"]
    kept = {name: value for name, value in status.items() if value not in ("", None)}
    memory.stored_mark_s = stored_mark_s(view)
    return None if kept == view.status else WriteDagStatus(memory.authority, view.record, kept)


def stored_mark_s(view: DagView) -> float:
    """The mark as the DAG's object holds it, in Unix seconds; a garbled one counts as none."""
    return _time(view.status.get("lastScheduledTime"))


def stored_next_s(view: DagView) -> float:
    """The next slot as the DAG's object tells it, in Unix seconds; none counts as 0."""
    return _time(view.status.get("nextScheduledTime"))


def _ready(view: DagView, problem: Problem | None, now_s: float) -> dict[str, Any]:
    """The condition Ready; its transition time moves only when its status does."""
    status = "False" if problem else "True"
    stored = view.status.get("conditions")
    old = stored[0] if isinstance(stored, list) and stored and isinstance(stored[0], dict) else {}
    since = old.get("lastTransitionTime") if old.get("status") == status else None
    others = len(view.problems) - 1
    message = "the DAG is valid" if problem is None else str(problem).rstrip("; ")
    return {
        "type": "Ready",
        "status": status,
        "reason": problem.reason if problem else "Valid",
        "message": message[:MESSAGE_LENGTH_MAX] + (f" (and {others} more)" if others > 0 else ""),
        "observedGeneration": view.generation,
        "lastTransitionTime": since or format_time(now_s),
    }


def _time(value: object) -> float:
    try:
        return parse_time(value) if isinstance(value, str) else 0.0
    except ValueError:
        return 0.0


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
