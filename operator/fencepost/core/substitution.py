"""`$(…)` in a job's command, args and env values.

One pass from left to right: what a value contains is never read again, so a parameter whose value is `$(token)` stays
those characters. `$$(` is a literal `$(`; every other dollar sign stands for itself. A reference ends at the
first `)`.

Whatever cannot be resolved is refused at apply, an opened `$(` without its end included: a shell's `$(date)` that
silently became an empty string would be worse than a refusal that says to write `$$(date)`. What a run's params do not
hold is found only when a job starts, and ends that job.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

from fencepost.core.problems import Problem

PARAM_PREFIX: Final = "params."

REFERENCES: Final = frozenset(
    {
        "run.scheduledTime",
        "run.name",
        "run.namespace",
        "run.dag",
        "task.name",
        "index",
        "item",
        "attempt",
        "token",
    }
)
"""What can be referred to besides `params.NAME`; each of them has a value in every job."""

_SHOWN_LENGTH_MAX = 60
_TOKEN = re.compile(r"\$\$\(|\$\((?P<name>[^)]*)(?P<end>\)?)")
"""An escape, or else a reference; one without an end takes all the rest of the text, so a text has one such at most."""


class UnresolvedReferenceError(ValueError):
    """A text refers to something without a value; `str()` says what."""


def substitute(text: str, values: Mapping[str, str]) -> str:
    """`text` with each `$(name)` replaced by `values[name]`; UnresolvedReferenceError when there is none."""

    def value_of(name: str, closed: bool) -> str:
        if not closed:
            raise UnresolvedReferenceError(_unterminated_fact(name))
        if name not in values:
            raise UnresolvedReferenceError(f"{_quoted(name)} has no value here")
        return values[name]

    return _rewrite(text, value_of)


def check_references(text: str, param_names: Collection[str]) -> list[Problem]:
    """What is wrong with the references of a text, in order; paths are empty, as only the caller knows the place."""
    problems: list[Problem] = []

    def check(name: str, closed: bool) -> str:
        if not closed:
            problems.append(_unterminated(name))
        elif name not in REFERENCES and not _names_param(name, param_names):
            problems.append(_unknown(name, param_names))
        return ""

    _rewrite(text, check)
    return problems


def _rewrite(text: str, resolve: Callable[[str, bool], str]) -> str:
    """The one reading of a text that the check and the substitution share, so that they cannot disagree.

    `resolve` gets what follows a `$(`, and whether it was closed.
    """

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        return "$(" if name is None else resolve(name, bool(match["end"]))

    return _TOKEN.sub(replace, text)


def _names_param(name: str, param_names: Collection[str]) -> bool:
    return name.startswith(PARAM_PREFIX) and name.removeprefix(PARAM_PREFIX) in param_names


def _unknown(name: str, param_names: Collection[str]) -> Problem:
    if name.startswith(PARAM_PREFIX):
        known = ", ".join(sorted(param_names)) or "none"
        fact = f"{_quoted(name)} names no param of this DAG (it has: {known})"
        remedy = f"declare it under spec.params, or write ${_quoted(name)} for a literal"
        return Problem("UnknownReference", "", fact, remedy)
    known = ", ".join(sorted(REFERENCES))
    fact = f"{_quoted(name)} is not a reference"
    return Problem("UnknownReference", "", fact, f"use params.NAME, {known}, or write ${_quoted(name)} for a literal")


def _unterminated(rest: str) -> Problem:
    return Problem(
        "UnterminatedReference", "", _unterminated_fact(rest), "close it with `)`, or write $$( for a literal $("
    )


def _unterminated_fact(rest: str) -> str:
    return f"$({_shortened(rest)} opens a reference and never closes it"


def _quoted(name: str) -> str:
    return f"$({_shortened(name)})"


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_LENGTH_MAX else f"{text[:_SHOWN_LENGTH_MAX]}…"
