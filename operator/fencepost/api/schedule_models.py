"""When a DAG makes runs by itself, and how many of them at once: the parts `schedule` and `concurrency` of its spec."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from fencepost.api.schema import ATOMIC_LIST, Duration, Part, Time, Timeout, rule, rules, unfit
from fencepost.api.times import parse_duration, parse_time
from fencepost.core.schedule_spec import ATS_MAX, CATCH_UP_MAX, CRONS_MAX, SPREAD_MAX_S

CONCURRENCY_MAX = 1000


def _check_spread(text: str) -> str:
    if parse_duration(text) > SPREAD_MAX_S:
        raise unfit(f"{text!r} is longer than a day", "write 24h or less")
    return text


def _in_a_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


BOUNDS_RULE = rule(
    "!has(self.notBefore) || !has(self.notAfter) || self.notBefore <= self.notAfter",
    "notBefore is later than notAfter, so that no time is left; swap them, or remove one",
)

Cron = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Zone = Annotated[str, StringConstraints(min_length=1, max_length=64)]
# A field with two types has none in a CRD: the server does not look at it, and a condition tells what is wrong.
Ats = Annotated[list[Time], Field(min_length=1, max_length=ATS_MAX), BeforeValidator(_in_a_list)]
Spread = Annotated[
    Duration,
    AfterValidator(_check_spread),
    Field(json_schema_extra=rules(rule("duration(self) <= duration('24h')", "write 24h or less"))),
]


class ClockChanges(Part):
    """What becomes of fixed times when clocks change. Minutes and hours with `*` follow real time and need no rule."""

    gap: Literal["RunAfter", "Skip"] = "RunAfter"
    """Of a time that is left out when clocks go forward. RunAfter: it is due right after the gap. Skip: it is not."""
    overlap: Literal["First", "Second", "Both"] = "First"
    """Of a time that comes twice when clocks go back: at which pass it is due."""


class CatchUpPolicy(Part):
    """What becomes of times that have passed while no run could be made, or while the DAG was suspended."""

    policy: Literal["None", "Latest", "All"] = "None"
    """None: what is no later than startingDeadline (5m if left out) is run, the rest is missed. Latest: of all that are
    due the latest is run. All: the latest `limit` of them are run, oldest first, and wait for room where there is
    none."""
    limit: Annotated[int, Field(ge=1, le=CATCH_UP_MAX)] = 10
    """With All: how many times may be made up for; those before them are missed."""


class Schedule(Part):
    """When the operator makes runs by itself."""

    model_config = ConfigDict(json_schema_extra=rules(BOUNDS_RULE))

    cron: Annotated[list[Cron], Field(min_length=1, max_length=CRONS_MAX, json_schema_extra=ATOMIC_LIST)] | None = None
    """Cron expressions of five fields, such as `0 3 * * *`. Several of them mean: whenever one of them does."""
    time_zone: Zone = "UTC"
    """The IANA name of the zone in which the expressions are read, such as `Europe/Berlin`."""
    at: Annotated[Ats | None, WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True})] = None
    """One RFC 3339 time such as `2026-12-24T18:00:00Z`, or a list of them: a run at each, beside those of cron."""
    dst: ClockChanges = ClockChanges()
    spread: Spread = "0s"
    """Moves every time by one fixed number of seconds below this, which follows from the DAG's namespace and name."""
    starting_deadline: Timeout | None = None
    """A time for which no run could be made until so much later is missed."""
    catch_up: CatchUpPolicy = CatchUpPolicy()
    not_before: Time | None = None
    """No time before this one is due."""
    not_after: Time | None = None
    """No time after this one is due."""

    @model_validator(mode="after")
    def _can_be_followed(self) -> Self:
        if self.cron is None and self.at is None:
            raise unfit("a schedule needs times", "add cron or at, or remove schedule")
        if self.not_before and self.not_after and parse_time(self.not_before) > parse_time(self.not_after):
            raise unfit("notBefore is later than notAfter, so that no time is left", "swap them, or remove one")
        return self


class Concurrency(Part):
    """What happens when a run is due while others of the same DAG are active."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.policy != 'Allow' || !has(self.limit)",
                "policy Allow has no limit; remove limit, or use policy Forbid",
            ),
            rule(
                "self.policy == 'Queue' || !has(self.queueLimit)",
                "only policy Queue has a queueLimit; remove queueLimit, or use policy Queue",
            ),
        )
    )

    policy: Literal["Allow", "Forbid", "Replace", "Queue"] = "Forbid"
    """Allow: the new run starts all the same. Forbid: its time is skipped while `limit` runs are active. Replace: the
    oldest is cancelled, and the new one begins once that has stopped. Queue: the new one waits until one has ended."""
    limit: Annotated[int, Field(ge=1, le=CONCURRENCY_MAX)] | None = None
    """Without Allow: how many runs may be active at once; 1 if left out."""
    queue_limit: Annotated[int, Field(ge=1, le=CONCURRENCY_MAX)] | None = None
    """With Queue: how many runs may wait; 10 if left out. A time beyond that is skipped."""

    @model_validator(mode="after")
    def _limits_fit_the_policy(self) -> Self:
        if self.policy == "Allow" and self.limit is not None:
            raise unfit("policy Allow has no limit", "remove limit, or use policy Forbid")
        if self.policy != "Queue" and self.queue_limit is not None:
            raise unfit("only policy Queue has a queueLimit", "remove queueLimit, or use policy Queue")
        return self
