"""When a DAG makes runs by itself, and how many of them at once: the parts `schedule` and `concurrency` of its spec."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from fencepost.api.schema import ATOMIC_LIST, LaterObject, LaterText, OnlyNow, Part, rule, rules, unfit
from fencepost.core.dag_spec import CRONS_MAX

CONCURRENCY_MAX = 1000

Cron = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Zone = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class Schedule(Part):
    """When the operator makes runs by itself."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("has(self.cron) || has(self.at)", "a schedule needs cron expressions; add cron, or remove schedule")
        )
    )

    cron: Annotated[list[Cron], Field(min_length=1, max_length=CRONS_MAX, json_schema_extra=ATOMIC_LIST)] | None = None
    """Cron expressions of five fields, such as `0 3 * * *`. Several of them mean: whenever one of them does."""
    time_zone: Zone = "UTC"
    """The IANA name of the zone in which the expressions are read, such as `Europe/Berlin`."""
    at: LaterText | None = None
    dst: LaterObject | None = None
    spread: LaterText | None = None
    starting_deadline: LaterText | None = None
    catch_up: LaterObject | None = None
    not_before: LaterText | None = None
    not_after: LaterText | None = None

    @model_validator(mode="after")
    def _has_cron(self) -> Self:
        if self.cron is None:
            raise unfit("a schedule needs cron expressions", "add cron, or remove schedule")
        return self


class Concurrency(Part):
    """What happens when a run is due while others of the same DAG are active."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.policy != 'Allow' || !has(self.limit)",
                "policy Allow has no limit; remove limit, or use policy Forbid",
            )
        )
    )

    policy: Annotated[Literal["Allow", "Forbid", "Replace", "Queue"], OnlyNow(("Allow", "Forbid"))] = "Forbid"
    """Allow: the new run starts all the same. Forbid: its slot is skipped while `limit` runs are active."""
    limit: Annotated[int, Field(ge=1, le=CONCURRENCY_MAX)] | None = None
    """With Forbid: how many runs may be active at once; 1 if left out."""

    @model_validator(mode="after")
    def _allow_has_no_limit(self) -> Self:
        if self.policy == "Allow" and self.limit is not None:
            raise unfit("policy Allow has no limit", "remove limit, or use policy Forbid")
        return self
