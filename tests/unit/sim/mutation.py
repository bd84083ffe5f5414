"""Faults in the product itself. Each breaks one promise, and a checker must find it within a few seeds.

A mutation is a context in which the product is wrong in one place. What it is wrong about is said in its name; which
promises may tell, and within how many seeds, stands beside it. `focus` names the kinds of steps under which it shows.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """One fault, and who must find it."""

    name: str
    apply: Callable[[], AbstractContextManager[object]]
    promises: tuple[str, ...]
    """The beginning of each."""
    focus: tuple[str, ...] = ()
    seeds_max: int = 20
    clocks_change: bool = False
    """Those of a zone do, in each seed."""
