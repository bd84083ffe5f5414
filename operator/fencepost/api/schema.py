"""The bricks of the models: names, durations, limits, and what a CRD needs beside types.

A model states everything once: its pydantic types check a file offline, and `api.crd` turns the same types into the
schema that the API server checks. What JSON schema has no word for rides along as `x-kubernetes-*` keys. CEL rules run
only on the server; where offline checking needs the same law, the type or model has a validator beside the rule.

A field that the API promises and that does nothing yet is `Later`: it stays in the schema, since the server prunes
without a word what it does not know, and any value for it is refused by name.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from fencepost.api.times import parse_duration, parse_time
from fencepost.core.definition import FAN_OUT_MAX

LATER_KEY = "x-fencepost-later"
"""In a JSON schema: the converter replaces it by a rule that refuses the field and names its path."""
NOT_SUPPORTED = "not_supported_yet"
"""The type of the pydantic error for what is not supported yet."""
UNFIT = "unfit"
"""The type of the pydantic error for what breaks a rule; its message is `fact; remedy`."""
RULES_KEY = "x-kubernetes-validations"

ATOMIC_MAP = {"x-kubernetes-map-type": "atomic"}
"""Stored as one value: no key of it appears in managedFields."""
ATOMIC_LIST = {"x-kubernetes-list-type": "atomic"}
WRITTEN_WHOLE: dict[str, Any] = {**ATOMIC_MAP}
"""Of a part that one writer replaces whole at each write. Its fields would only be listed once more in managedFields,
which costs the API server a sixth of such a write."""

NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
NAME_LENGTH_MAX = 63
DURATION_PATTERN = r"^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?([0-9]{1,5}ms)?$"
DURATION_LENGTH_MIN = 2
DURATION_LENGTH_MAX = 26


class Part(BaseModel):
    """A part of an object: camelCase on the wire, no coercion, no unknown fields, docstrings as descriptions."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
    )


def rule(cel: str, message: str, **more: Any) -> dict[str, Any]:
    """One CEL rule. The message says fact and remedy, as nobody reads the expression."""
    return {"rule": cel, "message": message, **more}


def rules(*each: dict[str, Any]) -> dict[str, Any]:
    """The `json_schema_extra` that attaches rules to a model or a field."""
    return {RULES_KEY: list(each)}


def unfit(fact: str, remedy: str) -> PydanticCustomError:
    """What a validator raises; the two halves come apart again in a Problem."""
    return PydanticCustomError(UNFIT, "{fact}; {remedy}", {"fact": fact, "remedy": remedy})


def _refuse(_value: Any) -> Any:
    raise PydanticCustomError(NOT_SUPPORTED, "it is not supported yet; remove it")


# Loosely typed, as far as CEL needs a type to see the field at all.
LaterText = Annotated[Any, BeforeValidator(_refuse), WithJsonSchema({"type": "string", LATER_KEY: True})]
LaterObject = Annotated[
    Any,
    BeforeValidator(_refuse),
    WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True, LATER_KEY: True}),
]


@dataclass(frozen=True)
class OnlyNow:
    """On a field with several values of which only some work yet: `concurrency.policy: Replace` is refused by name."""

    supported: tuple[Any, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        values = ", ".join(f"'{value}'" if isinstance(value, str) else str(value) for value in self.supported)
        return {**handler(core), **rules(rule(f"self in [{values}]", self._message()))}

    def _check(self, value: Any) -> Any:
        if value not in self.supported:
            raise PydanticCustomError(NOT_SUPPORTED, "{message}", {"message": self._message()})
        return value

    def _message(self) -> str:
        return f"only {' and '.join(str(value) for value in self.supported)} can be used yet; change or remove it"


def _check_longer_than_nothing(text: str) -> str:
    if parse_duration(text) <= 0:
        raise unfit(f"{text!r} is no time at all", "write a duration such as 90s or 1h30m")
    return text


def _check_time(text: str) -> str:
    try:
        parse_time(text)
    except ValueError:
        raise unfit(f"{text!r} is not a time", "write one such as 2026-11-30T13:00:00Z") from None
    return text


Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN, min_length=1, max_length=NAME_LENGTH_MAX)]
"""A DNS-1123 label."""

Duration = Annotated[
    str,
    StringConstraints(pattern=DURATION_PATTERN, min_length=DURATION_LENGTH_MIN, max_length=DURATION_LENGTH_MAX),
]
"""A span such as `90s` or `1h30m`; may be `0s`."""

Timeout = Annotated[
    Duration,
    AfterValidator(_check_longer_than_nothing),
    Field(json_schema_extra=rules(rule("!self.matches('^(0+(h|m|s|ms))+$')", "must be longer than 0s"))),
]
"""A span longer than nothing."""

PERCENT_PATTERN = r"^([0-9]|[1-9][0-9]|100)%$"


def _check_int_or_percent(value: Any) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= FAN_OUT_MAX
    if not is_number and not (isinstance(value, str) and re.fullmatch(PERCENT_PATTERN, value)):
        raise unfit(f"{str(value)[:80]!r} is neither a number nor a percentage", "write one such as 8 or 80%")
    return value


IntOrPercent = Annotated[
    Any,
    AfterValidator(_check_int_or_percent),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "minimum": 0,
            "maximum": FAN_OUT_MAX,
            "pattern": PERCENT_PATTERN,
        }
    ),
]
"""A number from 0 to the largest fan-out, or a share such as `80%`."""

Time = Annotated[str, AfterValidator(_check_time), Field(json_schema_extra={"format": "date-time"})]
"""An RFC 3339 time."""

Count = Annotated[int, Field(ge=0)]


class Condition(Part):
    """One condition, as everywhere in Kubernetes."""

    type: Annotated[str, StringConstraints(max_length=64)]
    status: Annotated[str, StringConstraints(pattern="^(True|False|Unknown)$")]
    reason: Annotated[str, StringConstraints(max_length=128)]
    """A PascalCase code."""
    message: Annotated[str, StringConstraints(max_length=32768)] = ""
    """The same as a sentence."""
    last_transition_time: Time
    observed_generation: Count | None = None


Conditions = Annotated[
    list[Condition],
    Field(
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]
