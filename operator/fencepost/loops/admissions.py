"""Which runs of a DAG may begin: `core/concurrency.py` asked with what is known here and now.

The record of a run says that it has begun only once that is written. So whoever has been let in counts as begun from
that moment on, or two runs whose writes are on their way could both take the last room.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fencepost.core.concurrency import Concurrency, Standing, admit
from fencepost.core.names import DagKey, RunKey, shard_of
from fencepost.core.run_state import RunState, Trigger
from fencepost.observe.dags import DagView
from fencepost.observe.runs import RunCache, RunView

REPLACED_BY = "replaced by run"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one run may do."""

    wait_reason: str = ""
    """It may not begin yet: why, as a code; empty when it may."""
    wait_message: str = ""
    replaced_by: str = ""
    """The run for which this one is to be cancelled; empty when it may go on."""

    def waiting(self, state: RunState, epoch: int, jobs: int) -> RunState:
        """The record of a run of so many jobs that may not begin yet."""
        return replace(state, epoch=epoch, total=jobs, reason=self.wait_reason, message=self.wait_message)

    def told(self, state: RunState, before: RunState) -> RunState:
        """The record with the run's successor named, where it ends for the sake of one: now, or by what was stored."""
        named = f"{REPLACED_BY} {self.replaced_by}" if self.replaced_by else before.message
        if not named.startswith(REPLACED_BY) or not state.reason.startswith("Cancel"):
            return state
        return replace(state, message=named)


class Admissions:
    """Counts the active runs of DAGs, and lets them in."""

    def __init__(self, runs: RunCache) -> None:
        self._runs = runs
        self._let_in: dict[DagKey, set[RunKey]] = {}

    def active_count(self, dag: DagKey) -> int:
        """The DAG's runs that count for its limit: those that have not finished, without backfills."""
        return sum(1 for _ in self._active(dag))

    def new(self, dag: DagView, run: RunKey, slot_s: int) -> Verdict:
        """Of a run that is about to be created for a slot. If it may begin, its place is taken until `forget`."""
        # it is the newest, though our clock may be behind the API server's, by which the others are dated
        return self._verdict(dag, run, Standing(math.inf, slot_s, run, began=False))

    def of(self, view: RunView, dag: DagView | None) -> Verdict:
        """Of a run that is there. If it may begin, its place is taken until `forget`."""
        if dag is None or view.spec is None or view.spec.trigger is Trigger.BACKFILL:
            return Verdict()
        if view.finished:  # and is to go on in another round, which is asked for by the write that begins it
            again = Standing(view.created_s, view.spec.scheduled_s, view.key, began=False, again=True)
            return self._verdict(dag, view.key, again)
        if _cancelled(view):
            return Verdict()
        if _began(view) and dag.checked is not None and dag.checked.spec.limits.policy is not Concurrency.REPLACE:
            return Verdict()
        return self._verdict(dag, view.key, None)

    def forget(self, dag: DagKey, run: RunKey) -> None:
        """The run has ended or is gone, could not be created, or is another replica's: its place is free again."""
        let_in = self._let_in.get(dag, set())
        let_in.discard(run)
        if not let_in:
            self._let_in.pop(dag, None)

    def release(self, shard: int, shards: int) -> None:
        """The shard, one of so many, is no longer ours: who has begun is what stands in the runs."""
        for dag in [dag for dag in self._let_in if shard_of(dag, shards) == shard]:
            del self._let_in[dag]

    def waiting(self, dag: DagKey) -> list[RunKey]:
        """The active runs that have not begun."""
        return [view.key for view in self._active(dag) if not _began(view)]

    def not_begun(self, dag: DagKey) -> list[RunKey]:
        """The unfinished runs that have not begun, for whatever reason: backfills too."""
        return [view.key for view in self._runs.unfinished(dag) if not _began(view)]

    def active(self, dag: DagKey) -> list[RunKey]:
        """The active runs."""
        return [view.key for view in self._active(dag)]

    def _verdict(self, dag: DagView, run: RunKey, newcomer: Standing | None) -> Verdict:
        limits = dag.checked.spec.limits if dag.checked is not None else None
        if limits is None or limits.runs_max is None:
            return Verdict()
        let_in = self._let_in.setdefault(dag.key, set())
        if newcomer is not None and run in let_in:
            return Verdict()
        standings = [
            Standing(
                view.created_s,
                view.spec.scheduled_s if view.spec is not None else 0,
                view.key,
                began=_began(view) or view.key in let_in,
                cancelled=_cancelled(view),
                again=view.round_due,
            )
            for view in self._active(dag.key)
        ]
        known = {standing.run for standing in standings}
        standings += [Standing(0.0, 0, key, began=True) for key in let_in - known]
        if newcomer is not None:
            standings.append(newcomer)
        admission = admit(limits, standings)
        if run in admission.replaced:
            return Verdict(replaced_by=admission.replaced[run].name)
        if run in admission.let_in:
            let_in.add(run)
            return Verdict()
        began = sorted(standing.run.name for standing in standings if standing.began)
        if run.name in began:
            return Verdict()
        if limits.policy is not Concurrency.REPLACE:
            fact = f"{len(began)} of {limits.runs_max} runs {'is' if len(began) == 1 else 'are'} under way"
            return Verdict("Queued", f"{fact}; it begins in its turn, once there is room")
        return Verdict("Replacing", f"it takes the place of run {began[0]}; it begins once that has stopped")

    def _active(self, dag: DagKey) -> Iterable[RunView]:
        return (view for view in self._runs.unfinished(dag) if not view.in_background)


def _began(view: RunView) -> bool:
    return view.state is not None and view.state.start_s is not None and not view.round_due


def _cancelled(view: RunView) -> bool:
    return view.deleting or (view.spec is not None and view.spec.cancel)
