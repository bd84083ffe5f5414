"""YAML files as kubectl reads them: JSON with another spelling.

PyYAML by itself reads `2026-12-24T18:00:00Z` as a datetime and `12:30:00` as a number of seconds, where kubectl reads
strings, and knows neither `1e3` nor `y`. So the loader has its own table of plain scalars, and what the table does not
hold is a string. It is stricter than kubectl in one thing: a key that stands twice in a map is refused.
"""

import math
import re
from collections.abc import Hashable
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from fencepost.core.problems import Problem

_TAG = "tag:yaml.org,2002:"
_SCALARS = {
    "null": r"~|null|Null|NULL|",
    "bool": r"y|Y|yes|Yes|YES|on|On|ON|true|True|TRUE|n|N|no|No|NO|off|Off|OFF|false|False|FALSE",
    "int": r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)",
    "float": r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?",
    "merge": r"<<",
}
_BOOLS = {word: word.lower() in {"y", "yes", "on", "true"} for word in _SCALARS["bool"].split("|")}


class _Loader(yaml.SafeLoader):
    """Makes what JSON can hold and nothing else; keys are strings."""

    yaml_implicit_resolvers: dict[str | None, Any] = {}  # noqa: RUF012  PyYAML looks for both on the class
    yaml_constructors = {  # noqa: RUF012
        tag: construct
        for tag, construct in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.removeprefix(_TAG) in {"null", "int", "str", "seq", "map"}
    }

    def construct_document(self, node: yaml.Node) -> Any:
        # built from the leaves up, so that a map that contains itself is an error and not an endless value
        self.deep_construct = True
        return super().construct_document(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        self._refuse_doubled_keys(node)
        self.flatten_mapping(node)
        return {self._key(key): self.construct_object(value, deep) for key, value in node.value}

    def _refuse_doubled_keys(self, node: yaml.MappingNode) -> None:
        seen = set()
        for key_node, _ in node.value:
            key = self._key(key_node)
            if key in seen:
                raise ConstructorError(None, None, f"the key {key!r} stands twice in one map", key_node.start_mark)
            seen.add(key)

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise ConstructorError(None, None, "the key of a map is not a scalar", node.start_mark)
        key = node.value if node.tag == f"{_TAG}merge" else self.construct_object(node)
        return str(key).lower() if isinstance(key, bool) else str(key)


def _construct_bool(_loader: _Loader, node: yaml.ScalarNode) -> bool:
    if node.value not in _BOOLS:
        raise ConstructorError(None, None, f"{node.value!r} is neither true nor false", node.start_mark)
    return _BOOLS[node.value]


def _construct_float(_loader: _Loader, node: yaml.ScalarNode) -> float | int:
    number = float(node.value)
    if not math.isfinite(number):
        raise ConstructorError(None, None, f"{node.value} is too large a number", node.start_mark)
    return int(number) if number.is_integer() else number


for _name, _pattern in _SCALARS.items():
    _Loader.add_implicit_resolver(f"{_TAG}{_name}", re.compile(f"^(?:{_pattern})$"), None)
_Loader.add_constructor(f"{_TAG}bool", _construct_bool)
_Loader.add_constructor(f"{_TAG}float", _construct_float)


def load_yaml_documents(text: str) -> list[Any] | Problem:
    """Every document that is not empty, as JSON values; or what keeps the text from being YAML, with the line."""
    try:
        return [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        return Problem("InvalidYAML", "", f"{where}{error.problem or error.context}", "correct the file")
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return Problem("InvalidYAML", "", f"it cannot be read as YAML: {str(error)[:200]}", "correct the file")
