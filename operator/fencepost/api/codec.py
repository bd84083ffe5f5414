"""Stored strings to core values and back.

Hot maps hold short strings, because that is what an API server stores cheaply: one string a lease, token first.

    DAGRun.status.leases["load/3"]      7 default-5d9f7c-x2k4q 1 2026-11-30T13:00:00Z
    DAGRun.status.waiting["load/4"]     2+1 2026-11-30T13:05:00Z             (attempt 2, one worker lost before)
    DAGRun.status.dying["load/5"]       0 3+1 Failed 1 2026-11-30T13:00:01.250Z 2026-11-30T13:00:02.000Z
    DAGRun.status.tasks["load"]         Succeeded=0-12,15 Failed=14 @1.250+9.104   (seconds after the run's start, for)
                                Succeeded=0 queued@3.500         (its other jobs wait for a slot since then)
    Worker.spec.leases[key]             7 Run 1 600 30 nightly-etl-4k2… <run UID> 2026-11-30T13:00:00Z {"region":"eu"}
    Worker.status.results[key]          7 Failed 3 2026-11-30T13:00:01.250Z 2026-11-30T13:00:02.000Z {"message":"…"}

A dash stands for "none". Every parse raises ValueError on what it cannot read, naming the text: the caller sets the
object aside.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

import orjson

from fencepost.api.times import format_duration, format_time, parse_time
from fencepost.core.intervals import IntervalSet, parse_intervals
from fencepost.core.names import JobKey, parse_job_key
from fencepost.core.phases import ENDED_PHASES, JobPhase, RunPhase
from fencepost.core.run_state import (
    Death,
    Entry,
    Lease,
    LetterSet,
    Order,
    Outcome,
    Result,
    RunState,
    TaskState,
    Waiting,
)

T = TypeVar("T")

NONE = "-"
QUEUED = "queued@"
SUSPENDED = "Suspended"
"""The condition of a run that is; it says since when."""
PARAMS_IN_RUN = "@run"
"""In place of an entry's params and inputs: the worker reads them from the run. After a slash, the run's round."""
PARAMS_BYTES_MAX = 512
"""Of params and inputs as JSON in an entry; more are read from the run. The name of an input is written as `$(name)`,
which no param can be called."""
SIZE_WORD = "of"
"""In a task's string: how many jobs it has, where an output has decided: `of=25 Succeeded=0-12`."""
MESSAGE_BYTES_MAX = 1024
RUN_MESSAGE_LENGTH_MAX = 4096
"""Of `DAGRun.status.message`, in characters; a longer one would be refused for ever."""
STRINGS_KEPT = 8192
"""Of each sort, with what they mean: each write of a run is read again whole, and changes few of its strings."""


def _attempt_text(attempt: int, losses: int) -> str:
    return f"{attempt}+{losses}" if losses else str(attempt)


def _parse_attempt(text: str) -> tuple[int, int]:
    attempt, _, losses = text.partition("+")
    return int(attempt), int(losses or 0)


def _parts(text: str, least: int, most: int) -> list[str]:
    parts = text.split(" ", most - 1)
    if len(parts) < least:
        raise ValueError(f"{text[:120]!r} has {len(parts)} words, wanted at least {least}")
    return parts


def encode_lease(lease: Lease) -> str:
    """As in `DAGRun.status.leases`."""
    attempt = _attempt_text(lease.attempt, lease.losses)
    return f"{lease.token} {lease.worker} {attempt} {format_time(lease.leased_at_s, millis=True)}"


def decode_lease(text: str) -> Lease:
    """The inverse of `encode_lease`."""
    token, worker, attempts, leased_at = _parts(text, 4, 4)
    attempt, losses = _parse_attempt(attempts)
    return Lease(int(token), worker, attempt, losses, parse_time(leased_at))


def encode_waiting(waiting: Waiting) -> str:
    """As in `DAGRun.status.waiting`."""
    return f"{_attempt_text(waiting.attempt, waiting.losses)} {format_time(waiting.not_before_s, millis=True)}"


def decode_waiting(text: str) -> Waiting:
    """The inverse of `encode_waiting`."""
    attempts, not_before = _parts(text, 2, 2)
    attempt, losses = _parse_attempt(attempts)
    return Waiting(attempt, losses, parse_time(not_before))


def encode_death(death: Death) -> str:
    """As in `DAGRun.status.dying`."""
    words = [
        str(death.round),
        _attempt_text(death.attempt, death.losses),
        death.outcome,
        NONE if death.exit_code is None else str(death.exit_code),
        NONE if death.started_at_s is None else format_time(death.started_at_s, millis=True),
        NONE if death.ended_at_s is None else format_time(death.ended_at_s, millis=True),
    ]
    return " ".join(words)


def decode_death(text: str) -> Death:
    """The inverse of `encode_death`."""
    round_, attempts, outcome, exit_code, started, ended = _parts(text, 6, 6)
    attempt, losses = _parse_attempt(attempts)
    return Death(
        round=int(round_),
        attempt=attempt,
        losses=losses,
        outcome=outcome,
        exit_code=None if exit_code == NONE else int(exit_code),
        started_at_s=None if started == NONE else parse_time(started),
        ended_at_s=None if ended == NONE else parse_time(ended),
    )


def encode_replays(replays: Mapping[LetterSet, IntervalSet]) -> dict[str, str]:
    """As in `DAGRun.status.replays`: by task, `round=indices` of the letters."""
    words: dict[str, list[str]] = {}
    for letters, indices in sorted(replays.items()):
        words.setdefault(letters.task, []).append(f"{letters.round}={indices}")
    return {task: " ".join(each) for task, each in words.items()}


def decode_replays(stored: Mapping[str, str]) -> dict[LetterSet, IntervalSet]:
    """The inverse of `encode_replays`."""
    replays = {}
    for task, text in stored.items():
        for word in text.split():
            round_, _, indices = word.partition("=")
            replays[LetterSet(task, int(round_))] = parse_intervals(indices)
    return replays


def encode_task(task: TaskState, run_start_s: float) -> str:
    """As in `DAGRun.status.tasks`; the span counts from the run's start, as a run may have thousands of tasks."""
    words = [] if task.size is None else [f"{SIZE_WORD}={task.size}"]
    words += [f"{phase}={task.ended[phase]}" for phase in ENDED_PHASES if task.ended.get(phase)]
    if task.first_start_s is not None and task.last_end_s is not None:
        words.append(f"@{task.first_start_s - run_start_s:.3f}+{task.last_end_s - task.first_start_s:.3f}")
    if task.queued_s is not None:
        words.append(f"{QUEUED}{task.queued_s - run_start_s:.3f}")
    return " ".join(words)


def decode_task(text: str, run_start_s: float) -> TaskState:
    """The inverse of `encode_task`."""
    ended: dict[JobPhase, IntervalSet] = {}
    start_s = end_s = queued_s = None
    size: int | None = None
    for word in text.split():
        name, equals, value = word.partition("=")
        if word.startswith("@"):
            offset, _, span = word[1:].partition("+")
            start_s = run_start_s + float(offset)
            end_s = start_s + float(span)
        elif name == SIZE_WORD and equals:
            size = int(value)
        elif word.startswith(QUEUED):
            queued_s = run_start_s + float(word.removeprefix(QUEUED))
        elif equals:
            ended[JobPhase(name)] = parse_intervals(value)
        else:
            raise ValueError(f"{word!r} is neither phase=indices nor of=size nor @start+span nor queued@start")
    return TaskState(ended, start_s, end_s, queued_s, size)


def encode_entry(entry: Entry) -> str:
    """As in `Worker.spec.leases`."""
    timeout = NONE if entry.timeout_s is None else f"{entry.timeout_s:.12g}"
    params = in_run = f"{PARAMS_IN_RUN}/{entry.round}" if entry.round else PARAMS_IN_RUN
    if entry.params is not None:
        inputs = {f"$({name})": value for name, value in entry.inputs.items()}
        params = orjson.dumps({**entry.params, **inputs}).decode()
    if len(params) > PARAMS_BYTES_MAX:
        params = in_run
    return (
        f"{entry.token} {entry.order} {entry.attempt} {timeout} {entry.grace_s:.12g} {entry.revision} "
        f"{entry.run_uid} {format_time(entry.scheduled_s)} {params}"
    )


def decode_entry(text: str) -> Entry:
    """The inverse of `encode_entry`; params that were too large come back as None."""
    token, order, attempt, timeout, grace, revision, run_uid, scheduled, params = _parts(text, 9, 9)
    in_run = params.partition("/") if params.startswith(PARAMS_IN_RUN) else None
    values = {} if in_run else _string_map(orjson.loads(params))
    return Entry(
        token=int(token),
        order=Order(order),
        attempt=int(attempt),
        timeout_s=None if timeout == NONE else float(timeout),
        grace_s=float(grace),
        revision=revision,
        run_uid=run_uid,
        scheduled_s=int(parse_time(scheduled)),
        params=None if in_run else {name: value for name, value in values.items() if not name.startswith("$(")},
        inputs={name[2:-1]: value for name, value in values.items() if name.startswith("$(")},
        round=int(in_run[2] or 0) if in_run else 0,
    )


def _string_map(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ValueError(f"{str(value)[:120]!r} is not a map of strings")
    return value


def encode_result(result: Result) -> str:
    """As in `Worker.status.results`."""
    words = [
        str(result.token),
        str(result.outcome),
        NONE if result.exit_code is None else str(result.exit_code),
        NONE if result.started_at_s is None else format_time(result.started_at_s, millis=True),
        NONE if result.ended_at_s is None else format_time(result.ended_at_s, millis=True),
    ]
    texts = {"message": result.message, "output": result.output}
    if any(texts.values()):
        words.append(orjson.dumps({name: text for name, text in texts.items() if text}).decode())
    return " ".join(words)


def decode_result(text: str) -> Result:
    """The inverse of `encode_result`."""
    token, outcome, exit_code, started, ended, *rest = _parts(text, 5, 6)
    texts = _string_map(orjson.loads(rest[0])) if rest else {}
    return Result(
        token=int(token),
        outcome=Outcome(outcome),
        exit_code=None if exit_code == NONE else int(exit_code),
        started_at_s=None if started == NONE else parse_time(started),
        ended_at_s=None if ended == NONE else parse_time(ended),
        message=texts.get("message", ""),
        output=texts.get("output", ""),
    )


def encode_run_status(state: RunState) -> dict[str, Any]:
    """A whole `DAGRun.status`. Conditions are for people, and read back only for since when a run is suspended."""
    status: dict[str, Any] = {
        "phase": str(state.phase),
        "epoch": state.epoch,
        "leaseCounter": state.lease_counter,
        "round": state.round,
        "done": f"{state.done}/{state.total}",
    }
    texts = {"reason": state.reason, "message": state.message[:RUN_MESSAGE_LENGTH_MAX]}
    status |= {name: text for name, text in texts.items() if text}
    maps: dict[str, dict[str, str]] = {
        "leases": {str(job): encode_lease(lease) for job, lease in state.leases.items()},
        "waiting": {str(job): encode_waiting(waiting) for job, waiting in state.waiting.items()},
        "tasks": {name: encode_task(task, state.start_s or 0.0) for name, task in state.tasks.items()},
        "failures": {str(job): text for job, text in state.failures.items()},
        "outputs": {str(job): text for job, text in state.outputs.items()},
        "dying": {str(job): encode_death(death) for job, death in state.dying.items()},
        "replays": encode_replays(state.replays),
    }
    status |= {name: entries for name, entries in maps.items() if entries}
    if state.start_s is not None:
        status["startTime"] = format_time(state.start_s, millis=True)
    if state.finish_s is not None:
        status["finishTime"] = format_time(state.finish_s, millis=True)
        status["duration"] = format_duration(state.finish_s - (state.start_s or state.finish_s))
    if conditions := _run_conditions(state):
        status["conditions"] = conditions
    return status


def _run_conditions(state: RunState) -> list[dict[str, str]]:
    """None of a run that is simply under way: each would be paid for at every write, twice (in managedFields too)."""
    if state.finish_s is not None:
        kind = "Complete" if state.phase is RunPhase.SUCCEEDED else "Failed"
        conditions = [_condition(state, each, state.message, state.finish_s) for each in (kind, "Finished")]
        if kind == "Failed":
            # what kstatus, and with it Flux and Helm, takes for a failure of a kind that it does not know
            conditions.append(_condition(state, "Stalled", "the run has failed, see condition Failed", state.finish_s))
        return conditions
    return [] if state.suspended_s is None else [_condition(state, SUSPENDED, state.message, state.suspended_s)]


def _condition(state: RunState, kind: str, message: str, since_s: float) -> dict[str, str]:
    return {
        "type": kind,
        "status": "True",
        "reason": state.reason or str(state.phase),
        "message": message[:RUN_MESSAGE_LENGTH_MAX],
        "lastTransitionTime": format_time(since_s),
    }


def _suspended_s(status: Mapping[str, Any]) -> float | None:
    times = [each["lastTransitionTime"] for each in status.get("conditions", ()) if each["type"] == SUSPENDED]
    return parse_time(times[0]) if times else None


def decode_run_status(status: Mapping[str, Any]) -> RunState:
    """A stored status as the core reads it; ValueError (or KeyError, TypeError) when somebody has garbled it."""
    done, slash, total = status["done"].partition("/")
    if not slash:
        raise ValueError(f"done is {status['done']!r}, wanted the form 3/102")
    start_s = _time_or_none(status, "startTime")
    return RunState(
        phase=RunPhase(status["phase"]),
        epoch=int(status["epoch"]),
        lease_counter=int(status["leaseCounter"]),
        round=int(status.get("round", 0)),
        start_s=start_s,
        finish_s=_time_or_none(status, "finishTime"),
        suspended_s=_suspended_s(status),
        leases=_job_map(status, "leases", _known_lease),
        waiting=_job_map(status, "waiting", decode_waiting),
        tasks={name: _known_task(text, start_s or 0.0) for name, text in status.get("tasks", {}).items()},
        failures=_job_map(status, "failures", str),
        outputs=_job_map(status, "outputs", str),
        dying=_job_map(status, "dying", decode_death),
        replays=decode_replays(status.get("replays", {})),
        done=int(done),
        total=int(total),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
    )


def _time_or_none(status: Mapping[str, Any], name: str) -> float | None:
    return parse_time(status[name]) if name in status else None


def _job_map(status: Mapping[str, Any], name: str, decode: Callable[[str], T]) -> dict[JobKey, T]:
    return {_known_job_key(key): decode(text) for key, text in status.get(name, {}).items()}


_known_lease = lru_cache(STRINGS_KEPT)(decode_lease)
_known_task = lru_cache(STRINGS_KEPT)(decode_task)
_known_job_key = lru_cache(STRINGS_KEPT)(parse_job_key)
