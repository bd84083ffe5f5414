"""A DAG's definition as a ControllerRevision keeps it: which part of the spec, its hash, and back.

The part is taken as it was written, not as it was read, so a later version that reads more or fills in other defaults
finds the same hash for the same text. The name of a revision ends in the hash, so whoever reads one can check it.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from fencepost.api.dag_models import DAGSpec, EnvVar, Retries, Task
from fencepost.api.times import parse_duration
from fencepost.api.validation import parse
from fencepost.core import definition as core
from fencepost.core.definition import Definition, Priority, RetryPolicy, SuccessThreshold
from fencepost.core.names import content_hash
from fencepost.core.problems import Problem
from fencepost.core.rules import Rule

DEFINITION_FIELDS = (
    "params",
    "pool",
    "priority",
    "queueTimeout",
    "retries",
    "tasks",
    "terminationGracePeriod",
    "timeout",
)
"""Of a DAG's spec: what changes how a run goes. What only decides when and whether there is one makes no revision."""


def definition_data(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The `data` of the ControllerRevision for this spec (JSON in, JSON out, nothing copied below the top)."""
    return {field: spec[field] for field in DEFINITION_FIELDS if field in spec}


def definition_hash(data: Mapping[str, Any]) -> str:
    """Ten characters that name these data, whatever the order of their keys."""
    return content_hash(orjson.dumps(data, option=orjson.OPT_SORT_KEYS))


def read_definition(data: Any) -> Definition | list[Problem]:
    """What a revision holds; Problems where it was written by hand, or by a version that could do more."""
    spec = parse(DAGSpec, data, "data")
    return spec if isinstance(spec, list) else definition_of(spec)


def definition_of(spec: DAGSpec) -> Definition:
    """A DAG's definition with every default in its place: tasks carry their own priority and retries."""
    retries = _retries(spec.retries, RetryPolicy())
    priority = Priority.parse(spec.priority)
    grace = spec.termination_grace_period
    return Definition(
        tasks=tuple(_task(task, retries, priority, spec.queue_timeout) for task in spec.tasks),
        pool=spec.pool,
        timeout_s=_seconds(spec.timeout),
        **({} if grace is None else {"grace_s": parse_duration(grace)}),
        params=tuple((spec.params or {}).items()),
    )


def _task(task: Task, retries: RetryPolicy, priority: Priority, queue_timeout: str | None) -> core.Task:
    each = task.for_each
    return core.Task(
        name=task.name,
        command=tuple(task.command),
        depends_on=tuple(task.depends_on or ()),
        rule=Rule.ALL_SUCCEEDED if task.rule is None else Rule(task.rule),
        args=tuple(task.args or ()),
        env=tuple((each.name, each.value) for each in task.env or ()),
        env_from=tuple(source for each in task.env or () if (source := _env_source(each)) is not None),
        count=None if each is None else each.count,
        items=None if each is None or each.items is None else tuple(each.items),
        items_from=None if each is None else each.from_,
        when=task.when,
        success_threshold=None if task.for_each is None else _threshold(task.for_each.success_threshold),
        fail_fast=task.for_each is not None and task.for_each.fail_fast is True,
        max_parallel=task.max_parallel,
        timeout_s=_seconds(task.timeout),
        queue_timeout_s=_seconds(task.queue_timeout or queue_timeout),
        retries=retries if task.retries is None else _retries(task.retries, retries),
        priority=priority if task.priority is None else Priority.parse(task.priority),
    )


def _env_source(variable: EnvVar) -> core.EnvSource | None:
    source = variable.value_from
    reference = None if source is None else source.secret_key_ref or source.config_map_key_ref
    if source is None or reference is None:
        return None
    secret = source.secret_key_ref is not None
    return core.EnvSource(variable.name, secret, reference.name, reference.key, reference.optional)


def _retries(written: Retries | None, over: RetryPolicy) -> RetryPolicy:
    """What is written, laid over a policy that fills the rest."""
    if written is None:
        return over
    backoff = written.backoff
    return RetryPolicy(
        limit=over.limit if written.limit is None else written.limit,
        base_s=over.base_s if backoff is None or backoff.base is None else parse_duration(backoff.base),
        factor=over.factor if backoff is None or backoff.factor is None else backoff.factor,
        cap_s=over.cap_s if backoff is None or backoff.cap is None else parse_duration(backoff.cap),
        jitter=over.jitter if backoff is None or backoff.jitter is None else backoff.jitter,
        retry_on=over.retry_on if written.retry_on is None else tuple(written.retry_on),
        fail_on=over.fail_on if written.fail_on is None else tuple(written.fail_on),
        loss_limit=over.loss_limit if written.loss_limit is None else written.loss_limit,
    )


def _threshold(written: int | str | None) -> SuccessThreshold | None:
    if isinstance(written, str):
        return SuccessThreshold(int(written.removesuffix("%")), is_percent=True)
    return None if written is None else SuccessThreshold(written)


def _seconds(duration: str | None) -> float | None:
    return None if duration is None else parse_duration(duration)
