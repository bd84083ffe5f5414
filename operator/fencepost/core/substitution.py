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
RUN_PREFIX: Final = "run."
_OUTPUT = re.compile(r"tasks\.(?P<task>[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)\.output")
"""A reference to the output of an earlier task."""

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


def outputs_in(text: str) -> list[str]:
    """The tasks whose output the text refers to."""
    found: list[str] = []

    def note(name: str, closed: bool) -> str:
        if closed and (match := _OUTPUT.fullmatch(name)):
            found.append(match["task"])
        return ""

    _rewrite(text, note)
    return found


def output_reference(task: str) -> str:
    """The name within `$(…)` that stands for a task's output."""
    return f"tasks.{task}.output"


def check_references(
    text: str, param_names: Collection[str], comes_before: Callable[[str], bool] = lambda _: False
) -> list[Problem]:
    """What is wrong with the references of a text, in order; paths are empty, as only the caller knows the place.

    `comes_before` says of a name whether that task has ended before this one starts.
    """
    problems: list[Problem] = []

    def check(name: str, closed: bool) -> str:
        if not closed:
            problems.append(_unterminated(name))
        elif match := _OUTPUT.fullmatch(name):
            if not comes_before(match["task"]):
                problems.append(not_before(_quoted(name), match["task"]))
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


def not_before(reference: str, task: str) -> Problem:
    """Something is asked of a task that may not have ended, or does not exist."""
    fact = f"{reference} is about task {task!r}, and no task of that name comes before this one"
    return Problem("UnknownReference", "", fact, "correct the name, or add the task to dependsOn")


def unknown_param(name: str, param_names: Collection[str]) -> Problem:
    """A param is named that the DAG does not have."""
    fact = f"params.{name} names no param of this DAG (it has: {', '.join(sorted(param_names)) or 'none'})"
    return Problem("UnknownReference", "", fact, "correct the name, or declare it under spec.params")


def _unknown(name: str, param_names: Collection[str]) -> Problem:
    if name.startswith(PARAM_PREFIX):
        known = ", ".join(sorted(param_names)) or "none"
        fact = f"{_quoted(name)} names no param of this DAG (it has: {known})"
        remedy = f"declare it under spec.params, or write ${_quoted(name)} for a literal"
        return Problem("UnknownReference", "", fact, remedy)
    known = ", ".join(sorted(REFERENCES))
    fact = f"{_quoted(name)} is not a reference"
    return Problem(
        "UnknownReference",
        "",
        fact,
        f"use params.NAME, tasks.NAME.output, {known}, or write ${_quoted(name)} for a literal",
    )


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
