"""Conditions of few shapes, and what they mean: read here by hand, as the product may be wrong about them.

| shape | |
|---|---|
| `params.zone == 'eu'`, `params.zone in ['eu', 'us']`, `run.dag != 'd1'` | |
| `tasks.t0.status == 'Succeeded'`, `tasks.t0.output != 'yes'` | of a task that comes before |
| `'yes' in tasks.t0.outputs`, `tasks.t0.failed > 0`, `tasks.t0.succeeded >= 1` | |
| `int(params.zone) > 0` | has no answer |
| `A && B`, `A || B`, `!(A)` | of the above |
"""

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

ZONES: Final = ("eu", "us", "ap")
UNANSWERABLE: Final = "int(params.zone) > 0"

_ASKED = re.compile(r"(params|run|tasks)\.([a-z0-9]+)(?:\.([a-z]+))?")


class NoAnswerError(Exception):
    """Nobody can say whether it holds."""


def draw_condition(rng: Random, before: Sequence[str], words: Sequence[str]) -> str:
    """A condition over params, the run, the tasks `before`, and outputs of those of them that put out a word."""
    if rng.random() < 0.05:
        return UNANSWERABLE
    first, second = (_atom(rng, before, words) for _ in range(2))
    return rng.choice((first, first, f"{first} && {second}", f"{first} || {second}", f"!({first})"))


def _atom(rng: Random, before: Sequence[str], words: Sequence[str]) -> str:
    atoms = [
        f"params.zone == '{rng.choice(ZONES)}'",
        f"params.zone in ['{ZONES[0]}', '{rng.choice(ZONES[1:])}']",
        f"run.dag {rng.choice(('==', '!='))} 'd{rng.randrange(3)}'",
    ]
    for name in before:
        status = rng.choice(("Succeeded", "Failed", "Skipped"))
        atoms.append(f"tasks.{name}.status {rng.choice(('==', '!='))} '{status}'")
        atoms.append(rng.choice((f"tasks.{name}.failed > 0", f"tasks.{name}.succeeded >= 1")))
    for name in words:
        atoms.append(rng.choice((f"tasks.{name}.output != 'no'", f"'yes' in tasks.{name}.outputs")))
        atoms.append(f"tasks.{name}.output == 'yes'")
    return rng.choice(atoms)


def holds(text: str, ask: Callable[[str, str, str], object]) -> bool:
    """Whether it does. `ask` is given `params`, a name and nothing; or `tasks`, a name and a field."""
    for operator, judge in ((" || ", any), (" && ", all)):
        if operator in text:
            return judge([holds(part, ask) for part in text.split(operator)])
    if text.startswith("!("):
        return not holds(text[2:-1], ask)
    if text == UNANSWERABLE:
        raise NoAnswerError(text)
    asked = _ASKED.search(text)
    assert asked is not None, f"no such shape: {text}"
    value, rest = ask(asked[1], asked[2], asked[3] or ""), text[asked.end() :].strip()
    if text.startswith("'"):
        assert isinstance(value, list)
        return text.split("'")[1] in value
    if rest.startswith("in ["):
        return value in re.findall(r"'([a-z]+)'", rest)
    operator, _, other = rest.partition(" ")
    wanted: object = other.strip("'") if "'" in other else int(other)
    match operator:
        case "==":
            return value == wanted
        case "!=":
            return value != wanted
        case ">":
            return isinstance(value, int) and isinstance(wanted, int) and value > wanted
        case ">=":
            return isinstance(value, int) and isinstance(wanted, int) and value >= wanted
    raise AssertionError(f"no such shape: {text}")
