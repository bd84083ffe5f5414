"""Whatever stands in an object, reading it gives a value or problems, and never raises."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api.read import check_run, read_dag, read_pool, read_run_spec, read_worker

CREATED = "2026-11-30T13:00:00Z"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=8), below, max_size=3),
    max_leaves=8,
)
WHOLE = {
    "metadata": {"name": "x", "creationTimestamp": CREATED},
    "spec": {
        "dag": "etl",
        "params": {"a": "b"},
        "pool": "default",
        "slots": 4,
        "leases": {"key": "7 Run"},
        "schedule": {"cron": ["0 3 * * *"]},
        "tasks": [{"name": "a", "command": ["true"], "forEach": {"count": 2}, "retries": {"backoff": {"base": "1s"}}}],
    },
    "status": {"results": {"key": "7 Succeeded 0 - -"}},
}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value within a value."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in below for place in places(each, (*path, key)))]


@pytest.mark.parametrize("reader", [read_dag, read_pool, read_run_spec, read_worker, check_run])
@given(place=st.sampled_from([place for place in places(WHOLE) if place]), garbage=JSON)
def test_whatever_is_put_anywhere_into_an_object_nothing_raises(
    reader: Callable[[Any], object], place: tuple[Any, ...], garbage: Any
) -> None:
    obj = copy.deepcopy(WHOLE)
    target: Any = obj
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = garbage

    reader(obj)
