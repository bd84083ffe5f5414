"""pydantic's JSON schema to the structural schema that a CRD takes.

The two dialects differ in a handful of places, and the server refuses or, worse, ignores what it does not take:

    $ref                          inlined
    anyOf [X, null], a null       X: optional is what is not required; the server drops nulls by itself
    additionalProperties: false   dropped: the server prunes unknown fields, and kubectl refuses them
    const                         an enum of one
    exclusiveMinimum: 5           minimum: 5, exclusiveMinimum: true
    title                         dropped, it repeats the name
    x-fencepost-later             a rule that refuses the field by its path

Every other word must be known to both sides: an unknown one raises, so that a new feature of a model cannot quietly
lose its meaning on the way.
"""

from collections.abc import Mapping
from typing import Any

from fencepost.api.schema import LATER_KEY, RULES_KEY, rule, rules

Schema = dict[str, Any]

_KEPT = frozenset(
    {
        "type", "format", "enum", "pattern", "description", "required",
        "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
        "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string", RULES_KEY,
    }
)  # fmt: skip
_BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


class SchemaError(Exception):
    """Our own mistake: a model says something that a CRD cannot. `str()` names the path."""


def structural(schema: Schema, path: str = "") -> Schema:
    """The structural schema of what `model_json_schema` gave; `path` is where it stands, such as `spec.tasks[*]`."""
    return _convert(schema, schema.get("$defs", {}), path)


def _convert(schema: Schema, definitions: Mapping[str, Schema], path: str) -> Schema:
    schema = _resolved(schema, definitions, path)
    made: Schema = {}
    for key, value in schema.items():
        match key:
            case "properties":
                below = f"{path}." if path else ""
                made[key] = {name: _convert(each, definitions, below + name) for name, each in value.items()}
            case "items" | "additionalProperties":
                if value is not False:
                    made[key] = _convert(value, definitions, f"{path}[*]")
            case _:
                made |= _word(key, value, path)
    return made


def _word(key: str, value: Any, path: str) -> Schema:
    """What one word that holds no schema becomes."""
    match key:
        case "const":
            return {"enum": [value]}
        case "exclusiveMinimum" | "exclusiveMaximum":
            return {_BOUNDS[key]: value, key: True}
        case "default":
            return {} if value is None else {key: _without_nulls(value)}
        case "title" | "$defs":
            return {}
        case _ if key == LATER_KEY:
            return rules(rule("false", f"{path} is not supported yet; remove it"))
        case _ if key in _KEPT:
            return {key: value}
        case _:
            raise SchemaError(f"{path or 'the root'}: a CRD has no word for {key!r}")


def _resolved(schema: Schema, definitions: Mapping[str, Schema], path: str) -> Schema:
    """The schema with its reference or its one non-null alternative in its place; what stands beside those wins."""
    if "$ref" in schema:
        target = definitions[schema["$ref"].removeprefix("#/$defs/")]
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _resolved({**target, **beside}, definitions, path)
    if "anyOf" in schema:
        others = [each for each in schema["anyOf"] if each != {"type": "null"}]
        if len(others) != 1:
            raise SchemaError(f"{path}: a CRD field has one type, not {len(others)}")
        beside = {key: value for key, value in schema.items() if key != "anyOf"}
        return _resolved({**others[0], **beside}, definitions, path)
    return schema


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return value
