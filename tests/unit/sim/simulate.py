"""One seed from its beginning to its verdict.

Faults and schedules for ten simulated minutes (in a long one, for hours), then five in which nothing goes wrong and
schedules go on, then no new runs, and everything is to end, with no longer than `BOUND_S` between one thing and the
next. The first violation ends the simulation.
"""

import asyncio
import gc
import logging
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from fencepost.api.names import DAGS, WORKER_POOLS
from tests.unit.sim.checkers import Checkers
from tests.unit.sim.plan import Plan
from tests.unit.sim.scene import POOL, Scene
from tests.unit.sim.steps import Steps
from tests.unit.sim.story import Story
from tests.unit.sim.violation import BrokenPromiseError, Violation

BOUND_S: Final = 600.0
"""After the end of all schedules, with all processes well since five minutes: so often one thing more has ended, until
everything has. Runs may wait for each other in a queue, each with a chain of jobs of up to 90 s and their retries."""
QUIET_LOOK_S: Final = 5.0


@dataclass
class Outcome:
    """What came of one simulation."""

    plan: Plan
    violation: Violation | None
    coverage: "Counter[str]"
    story: list[str]
    writes: int
    simulated_s: float
    fingerprint: int
    """Of all that has happened: the same whenever the same plan is carried out."""


def simulate(plan: Plan, *, told: bool = False) -> Outcome:
    """Carry out a plan; `told`: with its story."""
    with _quiet():
        return _simulate(plan, Story(told))


def _simulate(plan: Plan, story: Story) -> Outcome:
    scene = Scene(plan)
    scene.note = story.note
    checkers = Checkers(scene)
    scene.history.listeners.append(story.written)
    scene.history.listeners.append(checkers.see)
    violation = None
    try:
        scene.loop.run_until_complete(_play(scene, checkers))
    except BrokenPromiseError as broken:
        violation = broken.violation
    except Exception:
        violation = Violation("no crash", scene.loop.now_s, traceback.format_exc())
    finally:
        scene.loop.end()
    if violation is not None:
        story.note(scene.loop.now_s, "VIOLATION", str(violation))
    return Outcome(
        plan, violation, scene.coverage, story.lines, scene.history.writes, scene.loop.now_s, checkers.fingerprint
    )


async def _play(scene: Scene, checkers: Checkers) -> None:
    plan = scene.plan
    steps = Steps(scene)
    reserve = {"reserved": {"critical": f"{plan.reserved_percent}%"}} if plan.reserved_percent else {}
    shared = {"maxSharePerDAG": f"{plan.share_percent}%", **reserve}
    scene.put(WORKER_POOLS, POOL, shared)
    for seat in (*plan.replicas, *plan.workers):
        scene.start(seat)
    await asyncio.sleep(5.0)
    for name, spec in plan.dags.items():
        if name not in scene.history.objects[DAGS]:  # else somebody has been quicker
            assert scene.put(DAGS, name, spec) is not None, f"the API server refuses {name}: {spec}"
    await _until(scene, checkers, plan.calm_from_s)
    scene.calm = True
    steps.calm()
    scene.edit(WORKER_POOLS, POOL, lambda pool: pool.update(spec=shared))  # else its DAGs may be too much for it
    scene.note(scene.loop.now_s, "FAULT", "no more of them")
    await _until(scene, checkers, plan.length_s)
    for name in list(scene.history.objects[DAGS]):
        scene.edit(DAGS, name, lambda dag: dag["spec"].update(suspend=True))
    scene.note(scene.loop.now_s, "user", "suspends every DAG")
    left, since_s = sys.maxsize, scene.loop.now_s
    while unended := scene.unended():
        if len(unended) < left:
            left, since_s = len(unended), scene.loop.now_s
        if scene.loop.now_s > since_s + BOUND_S:
            raise BrokenPromiseError(Violation("everything ends", scene.loop.now_s, "; ".join(unended[:5])))
        await _until(scene, checkers, scene.loop.now_s + QUIET_LOOK_S)
    checkers.end()


async def _until(scene: Scene, checkers: Checkers, true_s: float) -> None:
    """Let time pass; look at what no write tells of."""
    while (left_s := true_s - scene.loop.now_s) > 0:
        await asyncio.sleep(min(1.0, left_s))
        checkers.look()


@contextmanager
def _quiet() -> Iterator[None]:
    """No log, and no tidying at odd moments."""
    enabled = gc.isenabled()
    logging.disable(logging.CRITICAL)
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
            gc.collect()
        logging.disable(logging.NOTSET)
