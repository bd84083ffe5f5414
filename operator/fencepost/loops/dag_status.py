"""The status of a DAG that people read, made from what its leader remembers."""

from collections.abc import Sequence
from typing import Any

from fencepost.api.times import format_time
from fencepost.core.intents import WriteDagStatus
from fencepost.core.plan_dag import Fate
from fencepost.core.problems import Problem
from fencepost.core.schedule import Schedule
from fencepost.core.zones import Effect
from fencepost.loops.dag_memory import DagMemory, stored_mark_s
from fencepost.loops.definitions import Definitions
from fencepost.observe.dags import DagView
from fencepost.observe.runs import RunView

TIMES_SHOWN = 3
CHANGES_SHOWN = 2
POOL_NOT_USABLE = "PoolNotUsable"
VALID = "Valid"
PREVIEW_GOOD_S = 86_400.0
"""How long a preview without any change is believed."""
MESSAGE_LENGTH_MAX = 4096
"""Of a condition; a cycle through thousands of tasks spells a long one."""


EFFECTS = {
    Effect.RUN_AFTER: "what they leave out is due right after",
    Effect.SKIPPED: "what they leave out is not due",
    Effect.FIRST: "what comes twice is due at the first pass",
    Effect.SECOND: "what comes twice is due at the second pass",
    Effect.BOTH: "what comes twice is due at both passes",
}


def dag_status(
    view: DagView, memory: DagMemory, runs: Sequence[RunView], revisions: Definitions, pool_problem: str, now_s: float
) -> WriteDagStatus | None:
    """The write that brings a DAG's status up to date; None when it is."""
    finished = [run for run in runs if run.state is not None and run.state.finish_s is not None]
    last = max(finished, key=lambda run: run.state.finish_s if run.state and run.state.finish_s else 0.0, default=None)
    problem = _problem(view, pool_problem)
    active = sum(not run.finished for run in runs)
    status: dict[str, Any] = {
        "observedGeneration": view.generation,
        "conditions": [_ready(view, problem, now_s)],
        "active": active,
        "state": _state(view, memory, problem, active),
        **{fate.value: memory.counts[fate] for fate in Fate},
        "deadLettersMissed": memory.letters_missed or None,
        "lastScheduledRun": memory.last_scheduled_run,
        "scheduleHash": memory.schedule_hash,
        "scheduleSeenTime": format_time(memory.schedule_seen_s),
        "revision": revisions.stored_revision(view),
        "earlierRevisions": revisions.earlier_revisions(view),
    }
    if view.checked is not None and view.checked.schedule:
        status["schedule"] = view.checked.schedule.summary
        status |= _coming(view.checked.schedule, memory, now_s) if problem is None else {}
    if memory.mark_s:
        status["lastScheduledTime"] = format_time(memory.mark_s)
    if last is not None and last.state is not None and last.state.finish_s is not None:
        finish = format_time(last.state.finish_s)
        status["lastRun"] = {"name": last.key.name, "phase": str(last.state.phase), "finishTime": finish}
    elif "lastRun" in view.status:
        status["lastRun"] = view.status["lastRun"]
    kept = {name: value for name, value in status.items() if value not in ("", None, [])}
    memory.stored_mark_s = stored_mark_s(view)
    return None if kept == view.status else WriteDagStatus(memory.authority, view.record, kept)


def condition_holds(view: DagView, pool_problem: str) -> bool:
    """Whether the stored condition is still right though the spec is the same: its pool may have come or gone, and an
    older version may have found less wrong with it."""
    stored, problem = _stored_ready(view), _problem(view, pool_problem)
    if stored.get("reason") != (problem.reason if problem else VALID):
        return False
    return problem is None or problem.reason != POOL_NOT_USABLE or stored.get("message") == _told(problem)


def _problem(view: DagView, pool_problem: str) -> Problem | None:
    """What is wrong with the DAG first of all; its pool comes last."""
    if view.problems:
        return view.problems[0]
    return Problem(POOL_NOT_USABLE, "spec.pool", pool_problem, "") if pool_problem else None


def _state(view: DagView, memory: DagMemory, problem: Problem | None, active: int) -> str:
    if problem is not None or view.checked is None:
        return "Invalid"
    if view.checked.spec.suspend:
        return "Suspended"
    return "Done" if view.checked.schedule.ends and memory.over and not active else "Ready"


def _coming(schedule: Schedule, memory: DagMemory, now_s: float) -> dict[str, Any]:
    """The next times, and the next clock changes that matter."""
    if memory.next_s is None:
        return {}
    times = [memory.next_s, *schedule.next_slots(memory.next_s, TIMES_SHOWN - 1)]
    coming: dict[str, Any] = {
        "nextScheduledTime": format_time(memory.next_s),
        "nextScheduledTimes": [format_time(time_s) for time_s in times],
    }
    if memory.preview is None or memory.preview[0] is not schedule or memory.preview[1] <= now_s:
        changes = schedule.changes(now_s, CHANGES_SHOWN)
        until_s = min((change.at_s for change, _ in changes), default=now_s + PREVIEW_GOOD_S)
        memory.preview = schedule, until_s, tuple(f"{change}; {EFFECTS[effect]}" for change, effect in changes)
    if memory.preview[2]:
        coming["clockChanges"] = list(memory.preview[2])
    return coming


def _ready(view: DagView, problem: Problem | None, now_s: float) -> dict[str, Any]:
    """The condition Ready; its transition time moves only when its status does."""
    status = "False" if problem else "True"
    old = _stored_ready(view)
    since = old.get("lastTransitionTime") if old.get("status") == status else None
    others = len(view.problems) - 1
    message = "the DAG is valid" if problem is None else _told(problem)
    return {
        "type": "Ready",
        "status": status,
        "reason": problem.reason if problem else VALID,
        "message": message + (f" (and {others} more)" if others > 0 else ""),
        "observedGeneration": view.generation,
        "lastTransitionTime": since or format_time(now_s),
    }


def _stored_ready(view: DagView) -> dict[str, Any]:
    """The condition Ready as it is stored; empty where there is none."""
    stored = view.status.get("conditions")
    return stored[0] if isinstance(stored, list) and stored and isinstance(stored[0], dict) else {}


def _told(problem: Problem) -> str:
    return str(problem).rstrip("; ")[:MESSAGE_LENGTH_MAX]
