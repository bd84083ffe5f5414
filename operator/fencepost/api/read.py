"""Objects as JSON to values of the core. Bad input is a value: each returns Problems instead, and none raises.

DAGs and pools are rare and written by people, so they go through the models, which say everything that is wrong. Runs
and workers come by the hundred a second and are written by us under the server's schema, so they are read by hand; what
is wrong with one of those was garbled by someone, and one Problem says where.
"""

import math
from collections.abc import Mapping
from typing import Any, TypeVar

from fencepost.api.dag_models import DAGSpec
from fencepost.api.pool_models import WorkerPoolSpec
from fencepost.api.revisions import definition_of
from fencepost.api.rounds import read_marks, read_rerun
from fencepost.api.run_models import DAGRunSpec
from fencepost.api.schedule_models import Schedule
from fencepost.api.schema import NAME_LENGTH_MAX
from fencepost.api.times import parse_duration, parse_time
from fencepost.api.validation import name_problems, parse
from fencepost.core.concurrency import QUEUE_DEFAULT, Concurrency, Limits
from fencepost.core.cron import Gap, Overlap
from fencepost.core.dag_spec import DagSpec
from fencepost.core.definition import Priority
from fencepost.core.history import HistoryLimits
from fencepost.core.names import DAG_NAME_LENGTH_MAX, DagKey, spread_offset_s
from fencepost.core.placement import PoolSpec
from fencepost.core.problems import Problem
from fencepost.core.renewals import INTERVAL_STEP_S
from fencepost.core.run_spec import RunSpec
from fencepost.core.run_state import Trigger
from fencepost.core.schedule_spec import CatchUp, ScheduleSpec
from fencepost.core.worker_record import WORKER_SLOTS_MAX, WorkerRecord

T = TypeVar("T")

NAMESPACE_DEFAULT = "default"
"""Of an object in a file that names none, as kubectl has it without a context of its own."""
_GARBLED_REMEDY = "somebody has edited it by hand, or it is older than its schema; delete it or put it right"


def read_dag(dag: Mapping[str, Any]) -> DagSpec | list[Problem]:
    """A DAG's spec with its defaults. Not checked: the graph, cron expressions, the zone (see `core.check`)."""
    problems = name_problems(dag, DAG_NAME_LENGTH_MAX)
    spec = parse(DAGSpec, dag.get("spec"), "spec")
    if isinstance(spec, list) or problems:
        return [*problems, *(spec if isinstance(spec, list) else ())]
    schedule, concurrency = spec.schedule, spec.concurrency
    policy = Concurrency(concurrency.policy)
    return DagSpec(
        definition=definition_of(spec),
        schedule=ScheduleSpec() if schedule is None else _schedule(schedule, dag["metadata"]),
        suspend=spec.suspend,
        limits=Limits(
            policy,
            runs_max=None if policy is Concurrency.ALLOW else concurrency.limit or 1,
            queue_max=concurrency.queue_limit or QUEUE_DEFAULT,
        ),
        ttl_s=None if spec.ttl_after_finished is None else parse_duration(spec.ttl_after_finished),
        history=HistoryLimits(
            succeeded=spec.history.succeeded,
            failed=spec.history.failed,
            ttl_s=None if spec.history.ttl is None else parse_duration(spec.history.ttl),
        ),
        letters_limit=spec.dead_letters.limit,
        letters_ttl_s=parse_duration(spec.dead_letters.ttl),
        priority=Priority.parse(spec.priority),
    )


def _schedule(schedule: Schedule, metadata: Mapping[str, Any]) -> ScheduleSpec:
    key = DagKey(str(metadata.get("namespace") or NAMESPACE_DEFAULT), metadata["name"])
    not_before_s = None if schedule.not_before is None else math.ceil(parse_time(schedule.not_before))
    not_after_s = None if schedule.not_after is None else int(parse_time(schedule.not_after))
    deadline = schedule.starting_deadline
    return ScheduleSpec(
        crons=tuple(schedule.cron or ()),
        at=tuple(int(parse_time(time)) for time in schedule.at or ()),
        time_zone=schedule.time_zone,
        gap=Gap(schedule.dst.gap),
        overlap=Overlap(schedule.dst.overlap),
        offset_s=spread_offset_s(key, parse_duration(schedule.spread)),
        not_before_s=not_before_s,
        not_after_s=not_after_s,
        starting_deadline_s=None if deadline is None else parse_duration(deadline),
        catch_up=CatchUp(schedule.catch_up.policy),
        catch_up_limit=schedule.catch_up.limit,
    )


def read_pool(pool: Mapping[str, Any]) -> PoolSpec | list[Problem]:
    """A WorkerPool's spec with its defaults."""
    problems = name_problems(pool, NAME_LENGTH_MAX)
    spec = parse(WorkerPoolSpec, pool.get("spec", {}), "spec")
    if isinstance(spec, list) or problems:
        return [*problems, *(spec if isinstance(spec, list) else ())]
    return PoolSpec(
        name=pool["metadata"]["name"],
        share_max=int(spec.max_share_per_dag.removesuffix("%")) / 100,
        ageing_period_s=parse_duration(spec.ageing.period),
        namespaces=tuple(spec.namespaces.allow),
        reserved_percent=0 if spec.reserved is None else int(spec.reserved.critical.removesuffix("%")),
    )


def check_run(run: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with a run that a person has written, beyond the DAG it names."""
    spec = parse(DAGRunSpec, run.get("spec"), "spec")
    return spec if isinstance(spec, list) else []


def read_run_spec(run: Mapping[str, Any]) -> RunSpec | list[Problem]:
    """A stored DAGRun's spec. A manual run without a scheduled time has the time of its creation."""
    try:
        spec = run["spec"]
        time = spec.get("scheduledTime") or run["metadata"]["creationTimestamp"]
        return RunSpec(
            dag=_typed(str, spec["dag"]),
            trigger=Trigger(spec.get("trigger", Trigger.MANUAL)),
            scheduled_s=int(parse_time(time)),
            dag_uid=_typed(str, spec.get("dagUID", "")),
            revision=_typed(str, spec.get("revision", "")),
            params=tuple(_texts(spec.get("params", {})).items()),
            cancel=_typed(bool, spec.get("cancel", False)),
            round=_typed(int, spec.get("round", 0)),
            rerun=read_rerun(spec),
            marks=read_marks(spec),
            suspend=_typed(bool, spec.get("suspend", False)),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return [garbled(error)]


def read_worker(worker: Mapping[str, Any]) -> WorkerRecord | list[Problem]:
    """A Worker's spec and status; the strings of its maps are not decoded."""
    try:
        spec, status = worker["spec"], worker.get("status", {})
        slots = _typed(int, spec["slots"])
        if not 1 <= slots <= WORKER_SLOTS_MAX:
            raise ValueError(f"spec.slots is {slots}, not within 1 to {WORKER_SLOTS_MAX}")
        return WorkerRecord(
            pool=_typed(str, spec["pool"]),
            slots=slots,
            fenced=_typed(bool, spec.get("fenced", False)),
            leases=_texts(spec.get("leases", {})),
            results=_texts(status.get("results", {})),
            draining=_typed(bool, status.get("draining", False)),
            left=_typed(bool, status.get("left", False)),
            renewal_interval_s=_typed(int, spec.get("renewalIntervalSeconds", INTERVAL_STEP_S)),
            seen=_typed(str, status.get("seen", "")),
            critical=frozenset(_typed(list, spec.get("critical", []))),
            reserved_slots=_typed(int, spec["reservedSlots"]) if "reservedSlots" in spec else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return [garbled(error)]


def _typed(type_: type[T], value: Any) -> T:
    if not isinstance(value, type_):
        raise TypeError(f"{str(value)[:80]!r} is a {type(value).__name__}, not a {type_.__name__}")
    return value


def _texts(value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise TypeError(f"{str(value)[:80]!r} is not a map of strings")
    return value


def garbled(error: Exception) -> Problem:
    """What is wrong with an object that we write ourselves, and that cannot be read."""
    fact = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return Problem("Garbled", "", f"the object cannot be read: {fact}", _GARBLED_REMEDY)
