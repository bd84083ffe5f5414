"""Faults in what is due, how late it may be made, how many runs there are at a time, and how long they are kept."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from fencepost.api import admission
from fencepost.api.read import read_dag
from fencepost.core import concurrency, plan_dag
from fencepost.core.cron import Gap, Overlap
from fencepost.core.dag_spec import DagSpec
from fencepost.core.history import HistoryLimits, plan_history
from fencepost.loops import admissions, dags, history
from tests.unit.sim.mutation import Mutation


def there_always_is_room() -> AbstractContextManager[object]:
    return mock.patch.object(plan_dag, "refuse_slot", return_value=None)


def nobody_waits() -> AbstractContextManager[object]:
    """Whoever is to make room is told so, and nobody waits for that."""

    def at_once(limits: Any, active: Any) -> concurrency.Admission:
        runs = list(active)
        admission = concurrency.admit(limits, runs)
        return replace(admission, let_in=frozenset(each.run for each in runs if not each.began))

    return mock.patch.object(admissions, "admit", at_once)


def deadlines_do_not_count() -> AbstractContextManager[object]:
    return mock.patch.object(plan_dag, "_deadline_s", return_value=math.inf)


def everything_is_made_up_for() -> AbstractContextManager[object]:
    return mock.patch.object(plan_dag, "_kept_max", return_value=100)


@contextmanager
def missed_times_are_not_counted() -> Iterator[None]:
    right = plan_dag.plan_slot

    def silent(*of: Any) -> plan_dag.SlotPlan:
        plan = right(*of)
        missed = plan.missed
        return plan if missed is None else replace(plan, missed=replace(missed, count=missed.count - 1))

    with mock.patch.object(dags, "plan_slot", silent):
        yield


def one_run_too_few_is_kept() -> AbstractContextManager[object]:
    def stingy(runs: Any, limits: HistoryLimits, now_s: float) -> Any:
        fewer = replace(limits, succeeded=max(0, limits.succeeded - 1), failed=max(0, limits.failed - 1))
        return plan_history(runs, fewer, now_s)

    return mock.patch.object(history, "plan_history", stingy)


def _read_with(**otherwise: Any) -> AbstractContextManager[object]:
    def other(dag: Any) -> Any:
        spec = read_dag(dag)
        return replace(spec, schedule=replace(spec.schedule, **otherwise)) if isinstance(spec, DagSpec) else spec

    return mock.patch.object(admission, "read_dag", other)


def what_is_left_out_is_lost() -> AbstractContextManager[object]:
    return _read_with(gap=Gap.SKIP)


def what_comes_twice_is_due_twice() -> AbstractContextManager[object]:
    return _read_with(overlap=Overlap.BOTH)


def nothing_is_spread() -> AbstractContextManager[object]:
    return _read_with(offset_s=0)


IN_TURN = "no more runs are under way"
FATES = ("no scheduled time is lost", "in a well cluster a slot")
AT_ONCE = "no more runs at once"
CATCH_UP = "a time is made up for"

SLOT_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("there always is room for a run", there_always_is_room, (IN_TURN, AT_ONCE)),
    Mutation("no run waits for room", nobody_waits, (IN_TURN,)),
    Mutation("deadlines do not count", deadlines_do_not_count, (CATCH_UP,), ("outage", "kill"), 60),
    Mutation("all times are made up for", everything_is_made_up_for, (CATCH_UP,), ("outage", "suspend_dag"), 40),
    Mutation("a missed time is not counted", missed_times_are_not_counted, ("no scheduled time",), ("outage",), 60),
    Mutation("times left out when clocks change are lost", what_is_left_out_is_lost, FATES, (), 40, clocks_change=True),
    Mutation("what comes twice is due twice", what_comes_twice_is_due_twice, (CATCH_UP, *FATES), clocks_change=True),
    Mutation("times are not spread", nothing_is_spread, (CATCH_UP, *FATES)),
    Mutation("one run too few is kept", one_run_too_few_is_kept, ("a run is deleted when",)),
)
