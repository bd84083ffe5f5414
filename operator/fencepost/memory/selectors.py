"""Label selectors: `a=b`, `a!=b`, `a in (b, c)`, `a notin (b, c)`, `a`, `!a`, joined by commas."""

import re
from collections.abc import Callable, Mapping

from fencepost.kube.errors import InvalidError

Labels = Mapping[str, str]
Selector = Callable[[Labels], bool]

_KEY = r"[A-Za-z0-9][-A-Za-z0-9_./]*"
_VALUE = r"[-A-Za-z0-9_.]*"
_REQUIREMENT = re.compile(
    rf"\s*(?:(?P<absent>!\s*)?(?P<lone>{_KEY})\s*(?=,|$)"
    rf"|(?P<key>{_KEY})\s*(?:(?P<equality>==?|!=)\s*(?P<value>{_VALUE})"
    rf"|\s(?P<set>in|notin)\s*\((?P<values>[^()]*)\)))\s*(?:,|$)"
)


def parse_selector(text: str) -> Selector:
    """A test for labels; InvalidError (400) for what is no selector."""
    requirements: list[Selector] = []
    at = 0
    while at < len(text):
        match = _REQUIREMENT.match(text, at)
        if match is None:
            raise InvalidError(f"label selector {text!r} cannot be read from {text[at:]!r} on", status=400)
        requirements.append(_requirement(match))
        at = match.end()
    return lambda labels: all(requirement(labels) for requirement in requirements)


def _requirement(match: re.Match[str]) -> Selector:
    if match["lone"]:
        key, wanted = match["lone"], not match["absent"]
        return lambda labels: (key in labels) is wanted
    key = match["key"]
    if match["set"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
        wanted = match["set"] == "in"
    else:
        values = frozenset({match["value"]})
        wanted = match["equality"] != "!="
    return lambda labels: (labels.get(key) in values) is wanted  # an absent label is in no set, so `!=` holds
