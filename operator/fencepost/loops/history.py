"""Old runs go: by count for each DAG, oldest first.

A run is deleted only when the DAG's stored mark is at or above its slot: else a leader that took over just now could
fire the slot again. And never within two minutes of its creation, so that a create whose answer was lost finds it.

Nor does a leader delete anything in its own first two minutes. While a run stands, its name keeps out the late create
of a leader before; once it is gone, only the epoch fence does, and each API server hears of a new epoch in its own
time.
"""

import logging

from fencepost.apply.executor import Answer
from fencepost.apply.writers import Next
from fencepost.core.intents import DeleteRevision, DeleteRun
from fencepost.core.names import DagKey
from fencepost.core.phases import RunPhase
from fencepost.core.run_state import Trigger
from fencepost.loops.dags import Dags
from fencepost.loops.world import World
from fencepost.observe.dags import DagView
from fencepost.observe.runs import RunView

log = logging.getLogger(__name__)

AGE_MIN_S = 120.0
"""No run is deleted sooner than this after its creation, nor by a leader that has led for less."""
DELAY_S = 2.0
"""How long a run that ended waits for company before its DAG's history is looked at."""
BATCH_MAX = 20
"""Deletions in one turn, so that they do not hold up starts."""


class History:
    """Deletes what a DAG's history limits do not keep."""

    def __init__(self, world: World, dags: Dags, age_min_s: float = AGE_MIN_S) -> None:
        self._world = world
        self._dags = dags
        self._age_min_s = age_min_s

    def run_changed(self, view: RunView) -> None:
        """A run of a DAG has ended."""
        if view.finished and self._world.shards.authority(view.shard) is not None:
            self._touch(view.dag, DELAY_S)

    def take_up(self, dag: DagView) -> None:
        """A DAG has become ours: the leader before may have died with something left to delete."""
        if self._surplus_of(dag):
            self._touch(dag.key, DELAY_S)

    def run_gone(self, view: RunView) -> None:
        """A run is gone: with the last one of an old revision, the revision goes too."""
        authority = self._world.shards.authority(view.shard)
        dag = self._world.dags.get(view.dag)
        revision = view.spec.revision if view.spec is not None else ""
        if authority is None or dag is None or not revision or revision == dag.revision:
            return
        if any(run.spec is not None and run.spec.revision == revision for run in self._world.runs.of_dag(view.dag)):
            return

        async def drop() -> Next:
            await self._world.executor.execute(DeleteRevision(authority, view.key.namespace, revision))
            return Next.REST

        self._world.writers.touch(("revision", view.key.namespace, revision), drop, after_s=DELAY_S)

    def _touch(self, key: DagKey, after_s: float) -> None:
        self._world.writers.touch(("history", key), lambda: self._turn(key), after_s=after_s)

    async def _turn(self, key: DagKey) -> Next | float:
        dag = self._world.dags.get(key)
        if dag is None:
            return Next.REST
        authority = self._world.shards.authority(dag.shard)
        if authority is None:
            return Next.REST
        surplus = self._surplus_of(dag)
        unheard_s = self._world.shards.opened_s(dag.shard) + self._age_min_s - self._world.clock.steady_s()
        if surplus and unheard_s > 0:
            return unheard_s
        now_s = self._world.clock.now_s()
        wait_s, batch = 0.0, 0
        for run in surplus:
            young_s = run.created_s + self._age_min_s - now_s
            if young_s > 0:
                wait_s = max(wait_s, young_s)
            elif batch == BATCH_MAX:
                return Next.AGAIN
            elif _slot_s(run) > self._dags.stored_mark_s(key):
                self._dags.touch_status(key, urgent=True)
                wait_s = max(wait_s, DELAY_S)
            else:
                written = await self._world.executor.execute(DeleteRun(authority, run.key, run.uid))
                batch += 1
                if written.answer is Answer.DONE:
                    run.deleting = True
                elif written.answer not in (Answer.GONE, Answer.CONFLICT):
                    return Next.RETRY
        return wait_s or Next.REST

    def _surplus_of(self, dag: DagView) -> list[RunView]:
        """What the DAG's limits do not keep; nothing while nobody can read them."""
        runs = list(self._world.runs.of_dag(dag.key))
        if not runs or dag.checked is None:
            return []
        limits = dag.checked.spec
        return _surplus(runs, limits.history_succeeded, limits.history_failed)


def _surplus(runs: list[RunView], succeeded_kept: int, failed_kept: int) -> list[RunView]:
    """The runs beyond what is kept, oldest first. A run that cannot be read is kept until a person looks."""
    ended = sorted(
        (run for run in runs if run.state is not None and run.finished),
        key=lambda run: (run.state.finish_s or 0.0) if run.state is not None else 0.0,
    )
    good = [run for run in ended if run.state is not None and run.state.phase is RunPhase.SUCCEEDED]
    bad = [run for run in ended if run.state is not None and run.state.phase is not RunPhase.SUCCEEDED]
    surplus = good[: max(0, len(good) - succeeded_kept)] + bad[: max(0, len(bad) - failed_kept)]
    return [run for run in surplus if not run.deleting]


def _slot_s(run: RunView) -> float:
    return run.spec.scheduled_s if run.spec is not None and run.spec.trigger is Trigger.SCHEDULE else 0.0
