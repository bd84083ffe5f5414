"""Fan-outs: how many jobs a task has, and which item each of them gets.

How many there are is known from the definition, or is the length of a list that an earlier task puts out
(`forEach.from`). That list is read once, in the plan in which the task may first start, and the number is recorded in
the run, so every later plan sees the same. Until then the task counts as one job: what fails or is skipped before its
list is known is that one.
"""

import json
from functools import lru_cache
from typing import Never

from fencepost.core.definition import FAN_OUT_MAX, Task
from fencepost.core.run_state import TaskState

LISTED_JOBS_MAX = FAN_OUT_MAX
"""Jobs of all tasks of a run together whose number an output decides."""
_SHOWN_LENGTH_MAX = 80


class ListError(ValueError):
    """A text is no list to fan out over; `str()` says why."""


def size_of(task: Task, state: TaskState) -> int:
    """How many jobs the task has in this run, as far as is known."""
    return task.size if state.size is None else state.size


@lru_cache(maxsize=8)
def read_items(text: str) -> tuple[str, ...]:
    """The items of a JSON list: texts as they are, anything else as compact JSON. ListError where it is none.

    Each job of a fan-out asks for one of the same items, hence the cache.
    """
    if not text.strip():
        raise ListError("there is no output")
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
        if isinstance(value, list):
            items = tuple(item if isinstance(item, str) else _as_json(item) for item in value)
            "".join(items).encode()  # an escape can stand for half a character, which nobody could be given
            return items
    except (ValueError, RecursionError) as error:
        raise ListError(f"the output cannot be read as JSON ({error}): {_shown(text)}") from error
    raise ListError(f"the output is JSON, but not a list: {_shown(text)}")


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is no JSON")


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_LENGTH_MAX else f"{text[:_SHOWN_LENGTH_MAX]}…")
