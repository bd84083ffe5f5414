"""Promises about scheduled times and the runs made for them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fencepost.api.names import DAG_RUNS, DAGS
from fencepost.api.times import format_time, parse_duration, parse_time
from tests.unit.sim.checker import Checker
from tests.unit.sim.history import Stored, Written
from tests.unit.sim.scene import SYNCED_S, Scene
from tests.unit.sim.schedules import DEADLINE_DEFAULT_S, catch_up_of

AGE_MIN_S: Final = 120.0
CLOCK_ERROR_S: Final = 40.0
"""How wrong a wall clock may be by which something is done, and what time passes on the way."""
LATE_S: Final = 75.0
"""Between the look at a replica's clock and the arrival of what it has made, by that clock and by all delays."""
MINUTE_S: Final = 60.0
QUEUE_DEFAULT: Final = 10
HEARD_S: Final = 5.0
HEARD_IN_TROUBLE_S: Final = 120.0
"""Until a leader has heard of an edit, or is none any more; and what it had sent before has arrived."""
ON_TIME_S: Final = 45.0
"""A slot of a well cluster has its fate within that, besides what clocks are wrong by."""


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
            yield f"run {run.name} is made though the stored mark is at {format_time(mark_of(dag))} already"
        self.scene.coverage["slot fired"] += 1


class EverySlotHasAFate(Checker):
    """Of DAGs whose schedule nobody touches: each slot up to the mark was fired, or counted as skipped or missed.

    Both, where a person has deleted the slot's run before the mark was stored: a leader that comes then cannot know.
    """

    promise = "no scheduled time is lost"
    kinds = (DAGS, DAG_RUNS)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._fired: dict[str, set[int]] = {}
        self._backfilled: set[tuple[str, int]] = set()
        """By DAG and slot: a run of people for a time that its schedule may skip or miss besides."""
        self._unmarked: dict[str, dict[int, str]] = {}
        """By the UID of the DAG and slot: the run that was deleted before the mark was stored."""
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
        if written.kind is DAG_RUNS and after is not None and before is None:
            match after.spec.get("trigger"):
                case "Schedule":
                    self._fired.setdefault(after.spec["dagUID"], set()).add(slot_of(after))
                case "Backfill":
                    self._backfilled.add((after.spec["dag"], slot_of(after)))
        scheduled = written.kind is DAG_RUNS and written.now.spec.get("trigger") == "Schedule"
        if scheduled and before is not None and after is None:
            dag = self.scene.history.objects[DAGS].get(before.spec["dag"])
            if dag is not None and mark_of(dag) < slot_of(before):
                self._unmarked.setdefault(before.spec["dagUID"], {})[slot_of(before)] = before.uid
        yield from ()

    def end(self) -> Iterator[str]:
        for dag in self.scene.history.objects[DAGS].values():
            if dag.uid in self._edited or "schedule" not in dag.spec or dag.uid not in self._seen_s:
                continue
            if not mark_of(dag):
                yield from self._nothing_decided(dag)
                continue
            slots = self.scene.plan.calendar.slots(dag.name, dag.spec["schedule"], self._seen_s[dag.uid], mark_of(dag))
            fired = self._fired.get(dag.uid, set()) & set(slots)
            passed = dag.status.get("skipped", 0) + dag.status.get("missed", 0)
            self.scene.coverage["slot skipped"] += dag.status.get("skipped", 0)
            self.scene.coverage["slot missed"] += dag.status.get("missed", 0)
            backfilled = sum((dag.name, slot) in self._backfilled and slot not in fired for slot in slots)
            unknown = sum(uid in self.scene.deleted_by_people for uid in self._unmarked.get(dag.uid, {}).values())
            if not len(slots) - backfilled <= len(fired) + passed <= len(slots) + unknown:
                yield (
                    f"DAG {dag.name} had {len(slots)} slots up to its mark: {len(fired)} fired, "
                    f"{dag.status.get('skipped', 0)} skipped, {dag.status.get('missed', 0)} missed"
                )

    def _nothing_decided(self, dag: Stored) -> Iterator[str]:
        """Then nothing was due in time for that."""
        plan = self.scene.plan
        until_s = plan.calendar.begins_s + plan.length_s - ON_TIME_S - SYNCED_S
        if due := plan.calendar.slots(dag.name, dag.spec["schedule"], self._seen_s[dag.uid], until_s):
            yield f"DAG {dag.name} had {len(due)} slots from {format_time(due[0])} on, and has no mark"


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
        now_s, calendar = self.scene.loop.now_s, self.scene.plan.calendar
        well_since_s = self.scene.plan.calm_from_s + 60.0
        if now_s < well_since_s or now_s >= self.scene.plan.length_s:
            return
        slack_s = ON_TIME_S + max(machine.wall_error_s for machine in self.scene.machines)
        for dag in self.scene.history.objects[DAGS].values():
            schedule, from_s = dag.spec.get("schedule"), max(well_since_s, self._stable_since_s[dag.name])
            if schedule is None or dag.spec.get("suspend") or _waits_for_room(dag):
                continue
            late = calendar.slots(dag.name, schedule, from_s + calendar.begins_s, now_s + calendar.begins_s - slack_s)
            if late and mark_of(dag) < late[-1]:
                yield f"DAG {dag.name}: {format_time(late[-1])} has none at {now_s:g}: {dict(dag.status)}"


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
        age_s = written.at_s + self.scene.plan.calendar.begins_s - parse_time(run.meta["creationTimestamp"])
        if age_s < AGE_MIN_S - CLOCK_ERROR_S:
            yield f"run {run.name} is deleted at the age of {age_s:g} s"
        if not run.run.phase.finished:
            yield f"run {run.name} is deleted before its end"
        if run.spec.get("trigger") == "Schedule" and mark_of(dag) < slot_of(run):
            yield f"run {run.name} is deleted while the stored mark is at {format_time(mark_of(dag))}"


def _waits_for_room(dag: Stored) -> bool:
    """Whether a time that finds no room waits, instead of being skipped."""
    policy = (dag.spec.get("concurrency") or {}).get("policy", "Forbid")
    return catch_up_of(dag.spec["schedule"]) == "All" and policy in ("Forbid", "Queue")


class SlotsAreMadeUpFor(Checker):
    """Times that are late are run as the deadline and the policy of catch-up say, and no others.

    By as much as a clock may be wrong, and a create may be on its way, a run may be made too late.
    """

    promise = "a time is made up for as catch-up says, and none later than its deadline"
    kinds = (DAG_RUNS, DAGS)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._floor_s: dict[str, float] = {}
        """By UID of a DAG: since when it has had the spec that it has."""

    def see(self, written: Written) -> Iterator[str]:
        run, before = written.after, written.before
        if written.kind is DAGS:
            if run is not None and (before is None or before.spec != run.spec):
                self._floor_s[run.uid] = written.at_s + self.scene.plan.calendar.begins_s
            return
        if before is not None or run is None or run.spec.get("trigger") != "Schedule":
            return
        dag = self.scene.history.objects[DAGS].get(run.spec["dag"])
        if dag is None or dag.uid != run.spec["dagUID"] or "schedule" not in dag.spec:
            return
        schedule, slot, calendar = dag.spec["schedule"], slot_of(run), self.scene.plan.calendar
        now_s = written.at_s + calendar.begins_s
        if self._floor_s[dag.uid] < slot and slot not in calendar.slots(dag.name, schedule, slot - 1, slot):
            yield f"run {run.name} is made for a time that its schedule does not mean"
        policy = catch_up_of(schedule)
        self.scene.coverage[f"time {calendar.sort_of(dag.name, schedule, slot)}"] += 1
        deadline_s = DEADLINE_DEFAULT_S if policy == "None" else None
        if "startingDeadline" in schedule:
            deadline_s = parse_duration(schedule["startingDeadline"])
        if deadline_s is not None and now_s - slot > deadline_s + LATE_S:
            yield f"run {run.name} is made {now_s - slot:.0f} s after its time, {deadline_s:g} s are its deadline"
        limit = {"Latest": 1, "All": (schedule.get("catchUp") or {}).get("limit", 10)}.get(policy)
        if (dag.spec.get("concurrency") or {}).get("policy") == "Replace":
            limit = 1
        newer = calendar.slots(dag.name, schedule, slot, now_s - LATE_S)
        self.scene.coverage[f"made by catch-up {policy}" if now_s - slot > MINUTE_S else "made in time"] += 1
        if limit is not None and len(newer) >= limit:
            yield f"run {run.name} is made, and {len(newer)} later times are due: catch-up {policy} makes {limit}"


class RunsBeginInTurn(Checker):
    """Exact, as the one leader of a DAG lets its runs begin; but for what it cannot have heard of yet."""

    promise = "no more runs are under way than concurrency allows, and no more wait"
    kinds = (DAG_RUNS,)

    def see(self, written: Written) -> Iterator[str]:
        run, before = written.after, written.before
        if run is None or run.spec.get("trigger") == "Backfill":
            return
        dag = self.scene.history.objects[DAGS].get(run.spec["dag"])
        if dag is None or dag.uid != run.spec.get("dagUID"):
            return
        concurrency: Mapping[str, Any] = dag.spec.get("concurrency") or {}
        policy, limit = concurrency.get("policy", "Forbid"), concurrency.get("limit", 1)
        active = [other for other in self._others(run) if not other.run.phase.finished]
        if before is None and run.spec.get("trigger") == "Schedule" and policy == "Queue":
            queue_max = concurrency.get("queueLimit", QUEUE_DEFAULT)
            scheduled = sum(other.spec.get("trigger") == "Schedule" for other in active)
            if scheduled >= limit + queue_max:
                yield f"run {run.name} is made beside {scheduled} others, {limit} may run and {queue_max} wait"
        if run.run.reason in ("Queued", "Replacing"):
            self.scene.coverage[f"reason {run.run.reason}"] += 1
        begins = begun(run) and not (before is not None and begun(before) and before.run.round == run.run.round)
        again = before is not None and before.run.round != run.run.round
        if not begins or policy == "Allow" or (policy == "Forbid" and not again):
            return
        self.scene.coverage[f"begun under {policy}"] += 1
        others = [
            other.name for other in active if (self._heard_of(other, written) if policy == "Forbid" else begun(other))
        ]
        if len(others) >= limit:
            yield f"run {run.name} begins beside {others}, {limit} may be under way"

    def _heard_of(self, run: Stored, written: Written) -> bool:
        """Whether its leader must know of it: runs by hand and replays are held back by nothing under Forbid."""
        age_s = written.at_s + self.scene.loop.begins_s - parse_time(run.meta["creationTimestamp"])
        patience_s = HEARD_S if self.scene.calm else HEARD_IN_TROUBLE_S
        return run.spec.get("trigger") == "Schedule" or age_s > patience_s

    def _others(self, run: Stored) -> list[Stored]:
        return [
            other
            for other in self.scene.history.objects[DAG_RUNS].values()
            if other.uid != run.uid
            and other.spec.get("dagUID") == run.spec["dagUID"]
            and other.spec.get("trigger") != "Backfill"
        ]


def begun(run: Stored) -> bool:
    """Whether jobs of a run may be leased."""
    return run.run.start_s is not None and not run.run.phase.finished


class SuspendedDagsRest(Checker):
    promise = "a suspended DAG makes no runs"
    kinds = (DAG_RUNS, DAGS)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._since_s: dict[str, float] = {}
        """By UID."""

    def see(self, written: Written) -> Iterator[str]:
        stored = written.after
        if stored is None:
            return
        if written.kind is DAGS:
            if stored.spec.get("suspend"):
                self._since_s.setdefault(stored.uid, written.at_s)
            else:
                self._since_s.pop(stored.uid, None)
        elif written.before is None and stored.spec.get("trigger") == "Schedule":
            since_s = self._since_s.get(stored.spec["dagUID"])
            patience_s = HEARD_S if self.scene.calm else HEARD_IN_TROUBLE_S
            if since_s is not None and written.at_s - since_s > patience_s:
                yield f"run {stored.name} is made {written.at_s - since_s:.1f} s after its DAG was suspended"


class HistoryIsKept(Checker):
    """A run that a person has deleted counts as kept until the leader must have heard of it."""

    promise = "a run is deleted when as many later ones of its kind are kept, or its time is up"
    kinds = (DAG_RUNS,)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._taken: dict[Stored, float] = {}
        """Finished runs that somebody else has deleted, and when."""

    def see(self, written: Written) -> Iterator[str]:
        run = written.before
        if written.after is not None or run is None or not run.run.phase.finished:
            return
        if not written.sender.startswith("op"):
            self._taken[run] = written.at_s
            return
        dag = self.scene.history.objects[DAGS].get(run.spec["dag"])
        if dag is None or dag.uid != run.spec.get("dagUID"):
            return
        history: Mapping[str, Any] = dag.spec.get("history") or {}
        well = run.run.phase == "Succeeded"
        wanted = history.get("succeeded", 3) if well else history.get("failed", 10)
        kept = sum(_is_kept_like(run, other) for other in self.scene.history.objects[DAG_RUNS].values())
        patience_s = HEARD_S if self.scene.calm else HEARD_IN_TROUBLE_S
        unheard = [other for other, at_s in self._taken.items() if written.at_s - at_s <= patience_s]
        self.scene.coverage[
            "run deleted by time" if "ttl" in history and kept < wanted else "run deleted by count"
        ] += 1
        kept += sum(_is_kept_like(run, other) for other in unheard)
        if kept < wanted and "ttl" not in history and run.uid not in self.scene.deleted_by_people:
            yield f"run {run.name} is deleted, and {kept} of its kind are kept: {wanted} are to be"


def _is_kept_like(run: Stored, other: Stored) -> bool:
    """Whether the other run has ended and counts among the same ones of its DAG."""
    return (
        other.run.phase.finished
        and (other.run.phase == "Succeeded") == (run.run.phase == "Succeeded")
        and other.spec["dag"] == run.spec["dag"]
        and (other.spec.get("trigger") == "Backfill") == (run.spec.get("trigger") == "Backfill")
    )


SLOT_CHECKERS = (
    OneRunForEachSlot,
    EverySlotHasAFate,
    SlotsOnTime,
    SlotsAreMadeUpFor,
    ForbidHolds,
    RunsBeginInTurn,
    SuspendedDagsRest,
    RunsGoWhenTheyMay,
    HistoryIsKept,
)
