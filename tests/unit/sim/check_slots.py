"""Promises about scheduled times and the runs made for them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fencepost.api.names import DAG_RUNS, DAGS
from fencepost.api.times import parse_time
from tests.unit.sim.checker import Checker
from tests.unit.sim.history import Stored, Written
from tests.unit.sim.scene import Scene
from tests.unit.sim.virtual import NOON_S

AGE_MIN_S: Final = 120.0
CLOCK_ERROR_S: Final = 40.0
"""How wrong a wall clock may be by which something is done, and what time passes on the way."""
ON_TIME_S: Final = 45.0
"""A slot of a well cluster has its fate within that, besides what clocks are wrong by."""


def slots_between(cron: str, after_s: float, until_s: float) -> list[int]:
    """The whole minutes that an expression of the few shapes used here means; found by looking at each."""
    minutes = _minutes(cron.partition(" ")[0])
    first = int(after_s // 60 + 1) * 60
    return [second for second in range(first, int(until_s) + 1, 60) if second // 60 % 60 in minutes]


def _minutes(field: str) -> frozenset[int]:
    span, _, step = field.partition("/")
    low, _, high = ("0-59" if span == "*" else span).partition("-")
    return frozenset(range(int(low), int(high or low) + 1, int(step or 1)))


def mark_of(dag: Stored | None) -> float:
    """Unix seconds; 0 where there is none."""
    text = dag.status.get("lastScheduledTime") if dag is not None else None
    return parse_time(text) if text else 0.0


def slot_of(run: Stored) -> int:
    """Of a scheduled run, in Unix seconds."""
    return int(parse_time(run.spec["scheduledTime"]))


class OneRunForEachSlot(Checker):
    promise = "a scheduled time gives one run"
    kinds = (DAG_RUNS,)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._fired: dict[tuple[str, int], str] = {}
        """By UID of the DAG and slot: the run's UID."""

    def see(self, written: Written) -> Iterator[str]:
        run = written.after
        if written.before is not None or run is None or run.spec.get("trigger") != "Schedule":
            return
        slot, dag_uid = slot_of(run), run.spec["dagUID"]
        dag = self.scene.history.objects[DAGS].get(run.spec["dag"])
        first = self._fired.setdefault((dag_uid, slot), run.uid)
        if first != run.uid and first not in self.scene.deleted_by_people:
            yield f"run {run.name} is made again, and nobody has deleted the first one"
        if dag is not None and dag.uid == dag_uid and mark_of(dag) >= slot:
            yield f"run {run.name} is made though the stored mark is at {mark_of(dag) - NOON_S:g} s already"
        self.scene.coverage["slot fired"] += 1


class EverySlotHasAFate(Checker):
    """Of DAGs whose schedule nobody touches: each slot up to the mark was fired, or counted as skipped or missed."""

    promise = "no scheduled time is lost"
    kinds = (DAGS, DAG_RUNS)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._fired: dict[str, set[int]] = {}
        self._edited: set[str] = set()
        self._seen_s: dict[str, float] = {}
        """By UID: since when the schedule has been looked at."""

    def see(self, written: Written) -> Iterator[str]:
        before, after = written.before, written.after
        edited = before is not None and (after is None or after.spec != before.spec)
        if written.kind is DAGS and before is not None and edited and written.at_s < self.scene.plan.length_s:
            self._edited.add(before.uid)
        if written.kind is DAGS and after is not None and "scheduleSeenTime" in after.status:
            self._seen_s.setdefault(after.uid, parse_time(after.status["scheduleSeenTime"]))
        if written.kind is DAG_RUNS and after is not None and after.spec.get("trigger") in ("Schedule", "Backfill"):
            uids = {after.spec.get("dagUID", ""), *(dag.uid for dag in self._named(after.spec["dag"]))}
            for uid in uids if before is None else ():
                self._fired.setdefault(uid, set()).add(slot_of(after))
        yield from ()

    def _named(self, name: str) -> list[Stored]:
        dag = self.scene.history.objects[DAGS].get(name)
        return [] if dag is None else [dag]

    def end(self) -> Iterator[str]:
        for dag in self.scene.history.objects[DAGS].values():
            crons = (dag.spec.get("schedule") or {}).get("cron") or []
            if dag.uid in self._edited or len(crons) != 1 or not mark_of(dag):
                continue
            slots = slots_between(crons[0], self._seen_s[dag.uid], mark_of(dag))
            fired = self._fired.get(dag.uid, set()) & set(slots)
            passed = dag.status.get("skipped", 0) + dag.status.get("missed", 0)
            self.scene.coverage["slot skipped"] += dag.status.get("skipped", 0)
            self.scene.coverage["slot missed"] += dag.status.get("missed", 0)
            if len(fired) + passed != len(slots):
                yield (
                    f"DAG {dag.name} had {len(slots)} slots up to its mark: {len(fired)} fired, "
                    f"{dag.status.get('skipped', 0)} skipped, {dag.status.get('missed', 0)} missed"
                )


class SlotsOnTime(Checker):
    promise = "in a well cluster a slot has its fate in time"
    kinds = (DAGS,)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._stable_since_s: dict[str, float] = {}

    def see(self, written: Written) -> Iterator[str]:
        before, after = written.before, written.after
        if after is not None and (before is None or before.spec != after.spec):
            self._stable_since_s[after.name] = written.at_s
        yield from ()

    def look(self) -> Iterator[str]:
        now_s = self.scene.loop.now_s
        well_since_s = self.scene.plan.calm_from_s + 60.0
        if now_s < well_since_s or now_s >= self.scene.plan.length_s:
            return
        slack_s = ON_TIME_S + max(machine.wall_error_s for machine in self.scene.machines)
        for dag in self.scene.history.objects[DAGS].values():
            crons = (dag.spec.get("schedule") or {}).get("cron") or []
            from_s = max(well_since_s, self._stable_since_s[dag.name])
            if len(crons) != 1 or dag.spec.get("suspend"):
                continue
            late = slots_between(crons[0], from_s + NOON_S, now_s + NOON_S - slack_s)
            if late and mark_of(dag) < late[-1]:
                yield f"DAG {dag.name}: slot {late[-1] - NOON_S} has none at {now_s:g}: {dict(dag.status)}"


class ForbidHolds(Checker):
    promise = "no more runs at once than concurrency allows"
    kinds = (DAG_RUNS,)

    def see(self, written: Written) -> Iterator[str]:
        run = written.after
        if written.before is not None or run is None or run.spec.get("trigger") != "Schedule":
            return
        dag = self.scene.history.objects[DAGS].get(run.spec["dag"])
        if dag is None or dag.uid != run.spec["dagUID"]:
            return
        concurrency: Mapping[str, Any] = dag.spec.get("concurrency") or {}
        if concurrency.get("policy", "Forbid") != "Forbid":
            return
        active = [
            other.name
            for other in self.scene.history.objects[DAG_RUNS].values()
            if other.spec.get("dagUID") == dag.uid
            and other.spec.get("trigger") == "Schedule"
            and not other.run.phase.finished
            and other.uid != run.uid
        ]
        if len(active) >= concurrency.get("limit", 1):
            yield f"run {run.name} starts beside {active}"


class RunsGoWhenTheyMay(Checker):
    promise = "a run is deleted after its mark is stored, ended, and not too soon"
    kinds = (DAG_RUNS,)

    def see(self, written: Written) -> Iterator[str]:
        run = written.before
        if written.after is not None or run is None or not written.sender.startswith("op"):
            return
        self.scene.coverage["run deleted by its leader"] += 1
        dag = self.scene.history.objects[DAGS].get(run.spec["dag"])
        if run.uid in self.scene.deleted_by_people or dag is None or dag.uid != run.spec.get("dagUID"):
            return
        age_s = written.at_s + NOON_S - parse_time(run.meta["creationTimestamp"])
        if age_s < AGE_MIN_S - CLOCK_ERROR_S:
            yield f"run {run.name} is deleted at the age of {age_s:g} s"
        if not run.run.phase.finished:
            yield f"run {run.name} is deleted before its end"
        if run.spec.get("trigger") == "Schedule" and mark_of(dag) < slot_of(run):
            yield f"run {run.name} is deleted while the stored mark is at {mark_of(dag) - NOON_S:g} s"


SLOT_CHECKERS = (OneRunForEachSlot, EverySlotHasAFate, SlotsOnTime, ForbidHolds, RunsGoWhenTheyMay)
