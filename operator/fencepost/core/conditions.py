"""`when`: a CEL expression that says whether a task runs, over params, the run, and the tasks before it.

The library (Google's own evaluator, see `operator/decisions/0006-cel.md`) checks types when an expression is compiled.
What it cannot know is which params and tasks there are, so the names are read from the text beforehand: `params` and
`run` may be used in any way, `tasks` only as `tasks.NAME.FIELD` or `tasks['NAME'].FIELD`. That also tells which outputs
must be kept and which tasks must have ended.

An evaluation is bounded in time and size whatever is written. The text has a limit; the macros that walk over lists are
left out of the language, so each operation is carried out once; so is each `+` that would make a text or a list longer,
and regular expressions. (With the macros, a thousand characters kept the evaluator busy for minutes.) Whether an output
is among those of a fan-out is still asked by `in`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any, NamedTuple

from cel_expr_python import cel

from fencepost.core.problems import Problem

WHEN_LENGTH_MAX = 1024
RUN_FIELDS = frozenset({"name", "namespace", "dag", "scheduledTime"})
_SHOWN_LENGTH_MAX = 300


class TaskField(StrEnum):
    """What an expression can ask of a task."""

    STATUS = "status"
    """`Succeeded`, `Failed` or `Skipped`."""
    OUTPUT = "output"
    """The text that `$(tasks.NAME.output)` stands for."""
    OUTPUTS = "outputs"
    """The outputs of its jobs as a list of texts, by index."""
    SUCCEEDED = "succeeded"
    """How many of its jobs succeeded."""
    FAILED = "failed"
    """How many of its jobs failed."""


OUTPUT_FIELDS = frozenset({TaskField.OUTPUT, TaskField.OUTPUTS})


class TaskReference(NamedTuple):
    """`tasks.NAME.FIELD` in an expression."""

    task: str
    field: TaskField


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression that can be evaluated."""

    text: str
    tasks: frozenset[TaskReference] = frozenset()
    params: frozenset[str] = frozenset()
    """The params that are named in it, whether they exist or not."""


class ConditionError(Exception):
    """An expression came to no answer; `str()` says why."""


@lru_cache(maxsize=4096)
def parse_condition(text: str) -> Condition | Problem:
    """The expression ready to be evaluated; a Problem without a path where it is none."""
    if len(text) > WHEN_LENGTH_MAX:
        fact = f"the expression has {len(text)} characters, {WHEN_LENGTH_MAX} are allowed"
        return Problem("InvalidCondition", "", fact, "shorten it, or let an earlier task decide and put out the answer")
    names = _names_in(text)
    if isinstance(names, Problem):
        return names
    try:
        program = _program(text)
    except RuntimeError as error:
        remedy = "correct the expression; names are params.NAME, run.NAME and tasks.NAME.FIELD"
        return Problem("InvalidCondition", "", _compile_fact(error), remedy)
    kind = program.return_type().name()
    if kind not in ("BOOL", "DYN"):
        fact = f"the expression gives {kind.lower()}, not true or false"
        return Problem("InvalidCondition", "", fact, "compare it with something")
    return names


def evaluate(
    condition: Condition,
    params: Mapping[str, str],
    run: Mapping[str, str],
    tasks: Mapping[str, Mapping[TaskField, object]],
) -> bool:
    """Whether the condition holds. ConditionError where it has no answer: a missing key, a text that is no number."""
    data: dict[str, Any] = {
        "params": dict(params),
        "run": dict(run),
        "tasks": {name: {str(field): value for field, value in fields.items()} for name, fields in tasks.items()},
    }
    try:
        result = _program(condition.text).eval(data=data)
        kind, value = result.type().name(), result.value()
    except Exception as error:  # whatever the library meets in a user's expression must not stop others
        raise ConditionError(_evaluation_fact(error)) from error
    if isinstance(value, bool):
        return value
    raise ConditionError(_evaluation_fact(value) if kind == "ERROR" else f"it gives {kind.lower()}, not true or false")


@cache
def _environment() -> cel.Env:
    """The language. One for all expressions, as what differs from DAG to DAG is checked in `_names_in`."""
    config = cel.NewEnvConfigFromYaml(
        """
        name: fencepost
        stdlib:
          exclude_macros: [all, exists, exists_one, map, filter]
          exclude_functions:
            - name: matches
            - name: "_+_"
              overloads: [{id: add_string}, {id: add_bytes}, {id: add_list}]
        """
    )
    texts = cel.Type.Map(cel.Type.STRING, cel.Type.STRING)
    tasks = cel.Type.Map(cel.Type.STRING, cel.Type.Map(cel.Type.STRING, cel.Type.DYN))
    return cel.NewEnv(config=config, variables={"params": texts, "run": texts, "tasks": tasks})


@lru_cache(maxsize=1024)
def _program(text: str) -> cel.Expression:
    return _environment().compile(text)


class _Token(NamedTuple):
    kind: str
    text: str


_TOKENS = re.compile(
    r"(?P<space>\s+|//[^\n]*)"
    r"|(?P<string>[rRbB]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''"
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'))"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<number>[0-9][0-9A-Za-z.]*)"
    r"|(?P<other>.)",
    re.DOTALL,
)
_PLAIN = re.compile(r"""(['"])([^'"\\\n]*)\1""")
"""A string literal that stands for just what is written."""


def _names_in(text: str) -> Condition | Problem:
    """The names that the text refers to; nothing is said of whether it is an expression at all."""
    tokens = [token for token in _tokens(text) if token.kind != "space"]
    tasks: set[TaskReference] = set()
    params: set[str] = set()
    for place, token in enumerate(tokens):
        if token.kind != "name" or token.text not in ("tasks", "params", "run") or _is_member(tokens, place):
            continue
        name, after = _selected(tokens, place + 1)
        field, _ = _selected(tokens, after)
        if token.text == "params" and name is not None:
            params.add(name)
        elif token.text == "run" and name is not None and name not in RUN_FIELDS:
            known = ", ".join(sorted(RUN_FIELDS))
            return Problem("UnknownReference", "", f"there is no run.{name}", f"use one of {known}")
        elif token.text == "tasks":
            if name is None or field not in frozenset(TaskField):
                fact = f"`tasks` is followed by no name and field{'' if name is None else f' in tasks.{name}'}"
                fields = ", ".join(TaskField)
                remedy = f"write tasks.NAME.FIELD, or tasks['NAME'].FIELD for a name with dashes; fields are {fields}"
                return Problem("UnknownReference", "", fact, remedy)
            tasks.add(TaskReference(name, TaskField(field)))
    return Condition(text, frozenset(tasks), frozenset(params))


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKENS.finditer(text):
        assert match.lastgroup is not None
        yield _Token(match.lastgroup, match.group())


def _is_member(tokens: list[_Token], place: int) -> bool:
    """Whether the name belongs to what stands before it, as in `x.tasks`; a dot at the beginning means nothing."""
    if place < 2 or tokens[place - 1].text != ".":
        return False
    before = tokens[place - 2]
    return before.kind in ("name", "string") or before.text in (")", "]", "}")


def _selected(tokens: list[_Token], place: int) -> tuple[str | None, int]:
    """The name in `.NAME` or `['NAME']` at this place, if that stands there, and the place after it."""
    here = [token.text for token in tokens[place : place + 3]]
    if len(here) >= 2 and here[0] == "." and tokens[place + 1].kind == "name":
        return here[1], place + 2
    plain = _PLAIN.fullmatch(here[1]) if len(here) == 3 and (here[0], here[2]) == ("[", "]") else None
    return (plain[2], place + 3) if plain else (None, place)


def _compile_fact(error: Exception) -> str:
    """The library's first complaint in one line: `column 4: Syntax error: …`."""
    found = re.search(r"<input>:(\d+):(\d+): ([^\n]*)", str(error))
    if found is None:
        return _shortened(_without_code(str(error)))
    line, column, fact = found.groups()
    fact = _without_code(fact).removesuffix(" (in container '')")
    where = f"column {column}" if line == "1" else f"line {line}, column {column}"
    return _shortened(f"{where}: {fact}")


def _evaluation_fact(error: object) -> str:
    return _shortened(_without_code(str(error)))


def _without_code(text: str) -> str:
    """Without the status code that the library writes before and after its sentences."""
    return re.sub(r"^[A-Z_]+: |\s*\[[A-Z_]+\]$", "", text.strip())


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN_LENGTH_MAX else f"{text[:_SHOWN_LENGTH_MAX]}…"
