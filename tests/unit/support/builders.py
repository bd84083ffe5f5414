"""Values of the core for tests: each builder takes what a story is about and fills in the rest."""

from typing import Any

import orjson

from fencepost.api.codec import decode_run_status, encode_run_status
from fencepost.core.definition import Definition, Priority, RetryPolicy, Task
from fencepost.core.graph import Graph, compile_graph
from fencepost.core.names import DagKey, JobKey, RunKey, parse_job_key
from fencepost.core.placement import Demand
from fencepost.core.run_state import Outcome, Result, RunState

NOW_S = 1_796_043_600.0
"""2026-11-30T13:00:00Z: when every story begins."""
RUN_UID = "5d9f7c01-8c4b-4f57-9d43-0b2f6a1e77aa"
RUN = RunKey("analytics", "nightly-etl-1796043600")
DAG = DagKey("analytics", "nightly-etl")


POLICY_FIELDS = ("retry_on", "fail_on", "loss_limit")


def a_task(name: str, *parents: str, retries: int = 0, **more: Any) -> Task:
    """A task of one job, unless `count` says otherwise; its back-off is 10 s, 20 s, 40 s and so on, without jitter."""
    policy = RetryPolicy(retries, jitter=0.0, **{field: more.pop(field) for field in POLICY_FIELDS if field in more})
    return Task(name, ("true",), parents, retries=policy, **more)


def a_definition(*tasks: Task, **more: Any) -> Definition:
    """A definition of these tasks."""
    return Definition(tasks, **more)


def a_graph(*tasks: Task) -> Graph:
    """The graph of tasks that make one."""
    graph = compile_graph(a_definition(*tasks))
    assert isinstance(graph, Graph), graph
    return graph


def a_job(text: str) -> JobKey:
    """`load/3`, or `load` for its only job."""
    return parse_job_key(text if "/" in text else f"{text}/0")


def a_result(
    token: int = 1,
    outcome: Outcome = Outcome.SUCCEEDED,
    exit_code: int | None = None,
    started_at_s: float | None = None,
    ended_at_s: float | None = None,
    message: str = "",
    output: str = "",
) -> Result:
    """What a worker says of the lease with this token."""
    return Result(token, outcome, exit_code, started_at_s, ended_at_s, message, output)


def a_demand(
    task: str = "load", count: int = 1, priority: Priority = Priority.NORMAL, ready_s: float = NOW_S
) -> Demand:
    """Jobs of one task that want slots."""
    return Demand(task, count, priority, ready_s)


def stored(state: RunState) -> RunState:
    """The state as the next leader reads it: through the wire and back, maps sorted as a real API server gives them."""
    return decode_run_status(orjson.loads(orjson.dumps(encode_run_status(state), option=orjson.OPT_SORT_KEYS)))
