"""Dead letters on the wire: what one tells, written once; and one that is stored, read."""

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.api.letter_models import ATTEMPTS_TOLD_MAX, MESSAGE_LENGTH_MAX
from fencepost.api.read import garbled
from fencepost.api.times import format_time
from fencepost.core.dead_letters import Attempt, Letter, Replayed
from fencepost.core.names import JobKey, RunKey
from fencepost.core.problems import Problem
from fencepost.core.run_spec import RunSpec
from fencepost.core.run_state import Death, Result


def dead_job(
    run: RunKey,
    run_uid: str,
    spec: RunSpec,
    job: JobKey,
    death: Death,
    attempts: Sequence[Attempt],
    message: str,
    now_s: float,
) -> dict[str, Any]:
    """`DeadLetter.spec.job`. `attempts`: those that were seen, oldest first. `message`: the end of the last output."""
    told: dict[str, Any] = {
        "dag": spec.dag,
        "dagUID": spec.dag_uid,
        "run": run.name,
        "runUID": run_uid,
        "revision": spec.revision,
        "round": death.round,
        "task": job.task,
        "index": job.index,
        "scheduledTime": format_time(spec.scheduled_s),
        "params": dict(spec.params),
        "reason": death.outcome,
        "exitCode": death.exit_code,
        "attempt": death.attempt,
        "losses": death.losses,
        "time": format_time(death.ended_at_s or now_s),
        "message": message[-MESSAGE_LENGTH_MAX:],
        "attempts": [_attempt_part(attempt.number, attempt.result) for attempt in attempts][-ATTEMPTS_TOLD_MAX:],
    }
    return {name: value for name, value in told.items() if value not in (None, "", {}, [])}


def read_letter(letter: Mapping[str, Any]) -> Letter | list[Problem]:
    """A stored DeadLetter, as far as it matters for replaying it."""
    try:
        spec, job, status = letter["spec"], letter["spec"]["job"], letter.get("status") or {}
        return Letter(
            dag=str(job["dag"]),
            run=str(job["run"]),
            run_uid=str(job["runUID"]),
            job=JobKey(str(job["task"]), int(job.get("index", 0))),
            round=int(job.get("round", 0)),
            revision=str(job.get("revision", "")),
            replay=int(spec.get("replay", 0)),
            replayed=Replayed(
                phase=str(status.get("phase", "")),
                replay=int(status.get("replay", 0)),
                run=str(status.get("run", "")),
                run_uid=str(status.get("runUID", "")),
                round=int(status.get("round", 0)),
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return [garbled(error)]


def replayed_part(replayed: Replayed, message: str, now_s: float) -> dict[str, Any]:
    """A DeadLetter's status."""
    told = {
        "phase": replayed.phase,
        "replay": replayed.replay,
        "run": replayed.run,
        "runUID": replayed.run_uid,
        "round": replayed.round,
        "message": message[:MESSAGE_LENGTH_MAX],
        "time": format_time(now_s),
    }
    return {name: value for name, value in told.items() if value != ""}


def _attempt_part(number: int, result: Result) -> dict[str, Any]:
    part = {
        "attempt": number,
        "outcome": str(result.outcome),
        "exitCode": result.exit_code,
        "startTime": None if result.started_at_s is None else format_time(result.started_at_s, millis=True),
        "endTime": None if result.ended_at_s is None else format_time(result.ended_at_s, millis=True),
    }
    return {name: value for name, value in part.items() if value is not None}
