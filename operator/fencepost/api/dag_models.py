"""The kind DAG: its tasks, edges and limits. Its schedule and its status have pages of their own.

What needs more than one look at one place (cycles, unknown parents, cron expressions, zones) is beyond a schema and is
checked by the core; everything that a schema or a CEL rule within the server's cost limit can see is here.
"""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, field_validator, model_validator

from fencepost.api.dag_status_models import MARK_RULE, DAGStatus
from fencepost.api.schedule_models import Concurrency, Schedule
from fencepost.api.schema import (
    ATOMIC_LIST,
    ATOMIC_MAP,
    Duration,
    IntOrPercent,
    LaterObject,
    LaterText,
    Name,
    Part,
    Timeout,
    rule,
    rules,
    unfit,
)
from fencepost.core.attempts import EXIT_CODE_MAX
from fencepost.core.conditions import WHEN_LENGTH_MAX
from fencepost.core.definition import COMMAND_BYTES_MAX, FAN_OUT_MAX, ITEMS_BYTES_MAX, TASKS_MAX
from fencepost.core.rules import Rule

WORDS_MAX = 128
"""Of a command; of args too. The server refuses a schema whose rules could cost too much: this is near its limit."""
ENV_MAX = 96
DEPENDS_ON_MAX = 1000
PARAMS_MAX = 64
OBJECT_NAME_PATTERN = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"
PARAM_NAME_PATTERN = r"^[A-Za-z_][A-Za-z0-9_.-]{0,62}$"
_PARAM_NAME = re.compile(PARAM_NAME_PATTERN)
RETRIES_MAX = 100
EXIT_CODES_MAX = 64
"""In a rule on exit codes."""
LOSSES_MAX = 99
HISTORY_MAX = 1000
DEAD_LETTERS_MAX = 1000

RULES_OVER_PARENTS = [str(rule) for rule in Rule if rule.needs_parents]

RuleName = Literal["AllSucceeded", "AllDone", "AnySucceeded", "AnyFailed", "AllFailed", "NoneFailed"]
PriorityName = Literal["critical", "high", "normal", "low"]
TOO_LONG = "command, args and env of a task may have 8 KiB together; put what is large into a file that the job reads"

Word = Annotated[str, StringConstraints(max_length=COMMAND_BYTES_MAX)]
Item = Annotated[str, StringConstraints(max_length=ITEMS_BYTES_MAX)]
WORDS_RULE = rule(f"self.map(word, size(word)).sum() <= {COMMAND_BYTES_MAX}", TOO_LONG)
PROGRAM_RULE = rule("size(self) == 0 || self[0] != ''", "the first word of command is the program; it cannot be empty")
Words = Annotated[
    list[Word],
    Field(max_length=WORDS_MAX, json_schema_extra={**ATOMIC_LIST, **rules(WORDS_RULE)}),
]
Command = Annotated[
    list[Word],
    Field(min_length=1, max_length=WORDS_MAX, json_schema_extra={**ATOMIC_LIST, **rules(WORDS_RULE, PROGRAM_RULE)}),
]
ExitCodes = Annotated[
    list[Annotated[int, Field(ge=1, le=EXIT_CODE_MAX)]],
    Field(max_length=EXIT_CODES_MAX, json_schema_extra=ATOMIC_LIST),
]


def _check_param_names(params: dict[str, str]) -> dict[str, str]:
    """Here alone: CEL cannot bound the cost of a look at a map's keys."""
    for name in params:
        if not _PARAM_NAME.fullmatch(name):
            raise unfit(f"{name[:80]!r} cannot be the name of a param", f"use a name that matches {PARAM_NAME_PATTERN}")
    return params


Params = Annotated[
    dict[str, Word],
    Field(max_length=PARAMS_MAX, json_schema_extra=ATOMIC_MAP),
    AfterValidator(_check_param_names),
]


class Backoff(Part):
    """How long a failed job waits before it is started again: base * factor^(n-1), at most cap, moved by jitter."""

    base: Duration | None = None
    """Before the first retry; 10s if left out."""
    factor: Annotated[float, Field(ge=1, le=100)] | None = None
    """2 if left out."""
    cap: Duration | None = None
    """10m if left out."""
    jitter: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of the wait by which it is moved up or down; 0.1 if left out."""


class Retries(Part):
    """How often a failed job is started again. On a task: what it leaves out is as in the DAG."""

    limit: Annotated[int, Field(ge=0, le=RETRIES_MAX)] | None = None
    """Retries after the first attempt; 0 if left out."""
    backoff: Backoff | None = None
    retry_on: ExitCodes | None = None
    """Only an attempt that failed with one of these exit codes is followed by another; an empty list means any. A
    signal counts as 128 and its number, the time limit as 124."""
    fail_on: ExitCodes | None = None
    """An attempt that failed with one of these exit codes is the last. A code stands in one of the two lists only."""
    loss_limit: Annotated[int, Field(ge=0, le=LOSSES_MAX)] | None = None
    """How many workers may be lost under a job before it fails; 5 if left out. Losses use up no retries."""


class History(Part):
    """How many finished runs are kept, and for how long. Whichever limit is passed first, the run goes."""

    succeeded: Annotated[int, Field(ge=0, le=HISTORY_MAX)] = 3
    failed: Annotated[int, Field(ge=0, le=HISTORY_MAX)] = 10
    """Cancelled runs count here."""
    ttl: Timeout | None = None
    """How long after its end a run is kept at most; without, as long as it is among the latest."""


class DeadLetters(Part):
    """How many dead letters are kept, and how long."""

    limit: Annotated[int, Field(ge=0, le=DEAD_LETTERS_MAX)] = 100
    """Beyond it the oldest that were replayed with success go; where there is none, a job that fails leaves none."""
    ttl: Timeout = "168h"
    """After which one is deleted."""


class KeyRef(Part):
    """One value of an object in the DAG's namespace."""

    name: Annotated[str, StringConstraints(pattern=OBJECT_NAME_PATTERN, max_length=253)]
    """Of the object."""
    key: Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)]
    optional: bool = False
    """Where the object or the key is not there, the variable is left out; else the attempt fails."""


class ValueFrom(Part):
    """Where a value comes from: a Secret or a ConfigMap. Read by the worker, if its pool lets it."""

    secret_key_ref: KeyRef | None = None
    config_map_key_ref: KeyRef | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.secret_key_ref is None) == (self.config_map_key_ref is None):
            raise unfit("valueFrom names not exactly one source", "name secretKeyRef or configMapKeyRef")
        return self


class EnvVar(Part):
    """One environment variable."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!self.name.startsWith('FENCEPOST_')",
                "names that begin with FENCEPOST_ are set by the worker; rename it",
            )
        )
    )

    name: Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$", max_length=128)]
    value: Word = ""
    value_from: ValueFrom | None = None
    """Instead of a value."""

    @model_validator(mode="after")
    def _has_one_value(self) -> Self:
        if self.value and self.value_from is not None:
            raise unfit(f"{self.name!r} has a value and a valueFrom", "remove one of them")
        return self

    @field_validator("name")
    @classmethod
    def _not_ours(cls, name: str) -> str:
        if name.startswith("FENCEPOST_"):
            raise unfit(f"{name!r} begins with FENCEPOST_ and is set by the worker", "rename it")
        return name


Env = Annotated[
    list[EnvVar],
    Field(
        max_length=ENV_MAX,
        json_schema_extra={
            **ATOMIC_LIST,
            **rules(rule(f"self.map(each, size(each.name) + size(each.value)).sum() <= {COMMAND_BYTES_MAX}", TOO_LONG)),
        },
    ),
]


class ForEach(Part):
    """The task is run once for each item; its jobs are numbered from 0."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "(has(self.count) ? 1 : 0) + (has(self.from) ? 1 : 0) + (has(self.items) ? 1 : 0) == 1",
                "forEach needs one of count, items and from; keep one of them, or remove forEach",
            )
        )
    )

    count: Annotated[int, Field(ge=0, le=FAN_OUT_MAX)] | None = None
    """How many jobs."""
    items: Annotated[list[Item], Field(max_length=FAN_OUT_MAX, json_schema_extra=ATOMIC_LIST)] | None = None
    """One for each job, which sees it as `$(item)`."""
    from_: Annotated[Name | None, Field(alias="from")] = None
    """The name of an earlier task, whose output is a JSON list of the items."""
    success_threshold: IntOrPercent | None = None
    """How many jobs must succeed, such as 8 or `80%`, for the task to have succeeded; all of them if left out. What
    depends on it waits for all jobs to end in any case."""
    fail_fast: bool | None = None
    """As soon as too many jobs have failed for good, jobs that run are stopped and those that wait are cancelled; false
    if left out."""

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if [self.count, self.items, self.from_].count(None) != 2:
            raise unfit("forEach needs one of count, items and from", "keep one of them, or remove forEach")
        size = sum(len(item.encode()) for item in self.items or ())
        if size > ITEMS_BYTES_MAX:
            fact = f"the items of forEach have {size} bytes together, of {ITEMS_BYTES_MAX}"
            raise unfit(fact, "let an earlier task put them out, or give each job a number with count")
        return self


class Task(Part):
    """One node of the graph: a command, and the tasks after which it runs."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.dependsOn) || !(self.name in self.dependsOn)",
                "a task cannot depend on itself; remove its own name from dependsOn",
            ),
            rule(
                f"!has(self.rule) || !(self.rule in {RULES_OVER_PARENTS})"
                " || (has(self.dependsOn) && size(self.dependsOn) > 0)",
                "this rule can never be met, as no task comes before it; add dependsOn, or remove rule",
                fieldPath=".rule",
            ),
        )
    )

    name: Name
    command: Command
    """The program and its arguments, run without a shell. `$(params.NAME)` and the like are replaced."""
    args: Words | None = None
    """Appended to command."""
    env: Env | None = None
    depends_on: Annotated[list[Name], Field(max_length=DEPENDS_ON_MAX, json_schema_extra=ATOMIC_LIST)] | None = None
    """Names of the tasks that must have ended before this one is ready."""
    for_each: ForEach | None = None
    max_parallel: Annotated[int, Field(ge=1, le=FAN_OUT_MAX)] | None = None
    """How many of its jobs may run at once; no limit of its own if left out."""
    timeout: Timeout | None = None
    """Of one attempt."""
    queue_timeout: Timeout | None = None
    """How long a job that could start may wait for a slot before it fails; the DAG's if left out."""
    retries: Retries | None = None
    priority: PriorityName | None = None
    """The DAG's if left out."""
    rule: RuleName | None = None
    """What must be true of the tasks it depends on once all of them have ended; AllSucceeded if left out."""
    when: Annotated[str, StringConstraints(max_length=WHEN_LENGTH_MAX)] | None = None
    """A CEL expression over params, run and earlier tasks, asked once the rule is met. Where it is false, the task is
    skipped."""
    executor: LaterText | None = None
    pod: LaterObject | None = None

    @field_validator("command")
    @classmethod
    def _names_a_program(cls, command: list[str]) -> list[str]:
        if not command[0]:
            raise unfit("the first word of command is the program and is empty", "name a program")
        return command

    @model_validator(mode="after")
    def _rule_can_be_met(self) -> Self:
        if self.rule in RULES_OVER_PARENTS and not self.depends_on:
            fact = f"rule {self.rule} of task {self.name!r} can never be met, as no task comes before it"
            raise unfit(fact, "add dependsOn, or remove rule")
        return self

    @model_validator(mode="after")
    def _fits(self) -> Self:
        words = [
            *self.command,
            *(self.args or ()),
            *(text for each in self.env or () for text in (each.name, each.value)),
        ]
        size = sum(len(word.encode()) for word in words)
        if size > COMMAND_BYTES_MAX:
            fact = f"command, args and env of task {self.name!r} have {size} bytes together, of {COMMAND_BYTES_MAX}"
            raise unfit(fact, "put what is large into a file that the job reads")
        return self


class DAGSpec(Part):
    """What is to run, in which order, when, and within which limits."""

    schedule: Schedule | None = None
    """If left out, runs are made by hand only."""
    suspend: bool = False
    """No new runs are made; runs under way go on."""
    concurrency: Concurrency = Concurrency()
    pool: Name = "default"
    """The WorkerPool whose workers run the jobs."""
    priority: PriorityName = "normal"
    """The order of leasing within the pool."""
    timeout: Timeout | None = None
    """Of a run, from its start."""
    queue_timeout: Timeout | None = None
    """How long a job that could start may wait for a slot before it fails; no limit if left out. A retry's time counts
    from the end of its back-off."""
    termination_grace_period: Duration | None = None
    """Between SIGTERM and SIGKILL of a job that is stopped or out of time; 30s if left out."""
    params: Params | None = None
    """Defaults of the parameters; a run made by hand may give others."""
    retries: Retries | None = None
    """Of every task that does not say otherwise."""
    history: History = History()
    ttl_after_finished: Duration | None = None
    """Of a DAG whose schedule ends: it is deleted with its runs so long after its last run has finished."""
    dead_letters: DeadLetters = DeadLetters()
    # Atomic: as a list of items with keys, all fields of all tasks would be in managedFields once more, which doubles
    # what the object takes and what a write of its status costs. So the core checks that no two have one name.
    tasks: Annotated[list[Task], Field(min_length=1, max_length=TASKS_MAX, json_schema_extra=ATOMIC_LIST)]
    """The nodes of the graph, in any order; no two have one name."""


class DAG(Part):
    """A graph of tasks that runs on a schedule or by hand."""

    model_config = ConfigDict(json_schema_extra=rules(MARK_RULE))

    spec: DAGSpec
    status: DAGStatus | None = None
