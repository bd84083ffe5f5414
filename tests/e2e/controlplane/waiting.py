"""Waiting for a condition with a limit, the only place here that sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")
POLL_S = 0.05


def eventually(what: str, condition: Callable[[], Value], *, limit_s: float = 30.0, poll_s: float = POLL_S) -> Value:
    """The first value of `condition()` that counts as true; raises TimeoutError naming `what` after the limit."""
    deadline = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: still not so after {limit_s:.0f} s, the last answer was {value!r}")
        time.sleep(poll_s)
