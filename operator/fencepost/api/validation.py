"""A user's object against the models, offline: everything that is wrong with it, as Problems.

It says what the server's schema and CEL rules say, and a little more where CEL cannot look: the names of params, and
the bytes of a command rather than its characters. Unknown fields are refused here; the server leaves that to kubectl.
"""

import re
import reprlib
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fencepost.api.schema import DURATION_PATTERN, NAME_PATTERN, NOT_SUPPORTED, UNFIT, Part
from fencepost.core.problems import Problem

PartT = TypeVar("PartT", bound=Part)

_NAME = re.compile(NAME_PATTERN)
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80
_NAME_REMEDY = "use lower-case letters, digits and dashes, with a letter or a digit at both ends"
_PATTERN_REMEDIES = {NAME_PATTERN: _NAME_REMEDY, DURATION_PATTERN: "write a duration such as 90s, 10m or 1h30m"}


def parse(model: type[PartT], value: Any, path: str) -> PartT | list[Problem]:
    """The value as this model, or everything that keeps it from being one; paths begin with `path`."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        return [_problem(each, path) for each in error.errors(include_url=False)]


def name_problems(obj: Mapping[str, Any], length_max: int) -> list[Problem]:
    """What is wrong with `metadata.name`."""
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    path = "metadata.name"
    if not isinstance(name, str) or not name:
        return [Problem("MissingField", path, "it is missing", "give the object a name")]
    if len(name) > length_max:
        fact = f"{_shown(name)} has {len(name)} characters, {length_max} are allowed"
        return [Problem("NameTooLong", path, fact, "shorten it")]
    if not _NAME.fullmatch(name):
        return [Problem("InvalidValue", path, f"{_shown(name)} is not a name", _NAME_REMEDY)]
    return []


def _problem(error: ErrorDetails, root: str) -> Problem:
    path = _path(error["loc"], root)
    context = error.get("ctx", {})
    match error["type"]:
        case "missing":
            return Problem("MissingField", path, "it is missing", "add it")
        case "extra_forbidden":
            return Problem("UnknownField", path, "there is no such field", "correct its name or remove it")
        case type_ if type_ == NOT_SUPPORTED:
            fact, _, remedy = error["msg"].partition("; ")
            return Problem("NotSupported", path, fact, remedy)
        case type_ if type_ == UNFIT:
            return Problem("InvalidValue", path, context["fact"], context["remedy"])
        case "string_pattern_mismatch":
            pattern = context["pattern"]
            fact = f"{_shown(error['input'])} does not match {pattern}"
            return Problem("InvalidValue", path, fact, _PATTERN_REMEDIES.get(pattern, "correct it"))
        case _:
            fact = f"{_shown(error['input'])} does not fit: {error['msg'][:1].lower()}{error['msg'][1:]}"
            return Problem("InvalidValue", path, fact, "correct it")


def _path(location: tuple[int | str, ...], root: str) -> str:
    path = root
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path


def _shown(value: Any) -> str:
    return _SHORT.repr(value)
