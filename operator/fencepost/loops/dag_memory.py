"""What a leader remembers of a DAG's schedule: the mark, the counters, and what people have not been told yet."""

from collections import Counter
from dataclasses import dataclass, field

from fencepost.api.times import format_time, parse_time
from fencepost.core.intents import Authority
from fencepost.core.names import RunKey
from fencepost.core.plan_dag import Fate, Missed, floor_s
from fencepost.core.run_state import Trigger
from fencepost.core.schedule import Schedule
from fencepost.observe.dags import DagView
from fencepost.observe.runs import RunView

FIRED_REMEMBERED_MAX = 10
"""Slots of each DAG: what lies below the mark is known by that; only the latest may lie at it."""
EVENT_REASONS = {Fate.LATE: "SlotLate", Fate.SKIPPED: "SlotSkipped", Fate.MISSED: "SlotMissed"}
LETTERS_FULL = "DeadLettersFull"


@dataclass(slots=True)
class DagMemory:
    """What the leader of now knows of a DAG's schedule."""

    authority: Authority
    uid: str
    mark_s: float
    """Every slot up to it has its fate; not lower than what is stored."""
    stored_mark_s: float
    schedule_hash: str
    schedule_seen_s: float
    """No slot up to here fires: it is from before the schedule had its present form."""
    counts: Counter[Fate]
    last_scheduled_run: str
    live: bool = False
    """Read live under this authority; no slot is decided before, and no status written."""
    planned: bool = False
    """Its slots have been looked at under this authority, so that the next line is true."""
    next_s: float | None = None
    over: bool = False
    """Its schedule holds no further time, and all that was due has had its fate."""
    fired: dict[int, str] = field(default_factory=dict)
    """Slots fired by this leader, the latest ones, each with its run's UID."""
    creating: dict[RunKey, int] = field(default_factory=dict)
    """Runs whose create is under way, or was sent and has had no clear answer yet, each with its slot."""
    streaks: set[Fate] = field(default_factory=set)
    """What has been going wrong since the last slot that fired in time."""
    news: dict[str, str] = field(default_factory=dict)
    """By the reason of an Event, of the first of each streak: why; until people have been told."""
    letters_missed: int = 0
    """Jobs that failed for good and left no dead letter, as there was no room for it."""
    letters_told: int = 0
    """So many of them as the DAG was read."""
    letters_full: bool = False
    """So it has been since the last dead letter went."""
    preview: tuple[Schedule, float, tuple[str, ...]] | None = None
    """Of which schedule, good until when: the next clock changes that matter."""

    @staticmethod
    def read(view: DagView, authority: Authority) -> "DagMemory":
        """From a DAG as it stands in the cache. Garbled fields count as absent."""
        status = view.status
        mark_s = stored_mark_s(view)
        return DagMemory(
            authority=authority,
            uid=view.uid,
            mark_s=mark_s,
            stored_mark_s=mark_s,
            schedule_hash=str(status.get("scheduleHash", "")),
            schedule_seen_s=_time(status.get("scheduleSeenTime")) or view.created_s,
            counts=Counter({fate: _count(status.get(fate.value)) for fate in Fate}),
            last_scheduled_run=str(status.get("lastScheduledRun", "")),
            letters_missed=_count(status.get("deadLettersMissed")),
            letters_told=_count(status.get("deadLettersMissed")),
        )

    def slot_of(self, run: RunView) -> float:
        """The slot that this run stands for, in Unix seconds; 0 where it is no scheduled run of this very DAG."""
        scheduled = run.spec is not None and run.spec.trigger is Trigger.SCHEDULE and run.spec.dag_uid == self.uid
        return run.spec.scheduled_s if run.spec is not None and scheduled else 0.0

    def follow(self, view: DagView, now_s: float) -> None:
        """Take note of a schedule that has another form than before."""
        if view.checked is None or view.schedule_hash == self.schedule_hash:
            return
        asked = view.checked.spec.schedule
        seen_s = self.schedule_seen_s if self.schedule_hash else None
        # the edit is as old as the server says, however late it is seen: what was due since then is not lost
        self.schedule_seen_s = floor_s(asked, view.created_s, seen_s, min(now_s, view.edited_s or now_s))
        self.schedule_hash = view.schedule_hash
        self.over = False

    def fired_slot(self, slot_s: int, run: str, uid: str, fate: Fate) -> None:
        """A slot's run is known to exist."""
        self.fired[slot_s] = uid
        if len(self.fired) > FIRED_REMEMBERED_MAX:
            del self.fired[next(iter(self.fired))]
        self.told_of(slot_s, run, fate)

    def told_of(self, slot_s: float, run: str, fate: Fate) -> None:
        """A slot's run exists, and it is not known who has made it."""
        self.last_scheduled_run = run
        self.passed(fate, slot_s, 1, f"run {run} was made more than a minute after its time")

    def passed(self, fate: Fate, slot_s: float, count: int, why: str) -> None:
        """So many slots, the last of them this one, have had their fate."""
        self.mark_s = max(self.mark_s, slot_s)
        self.counts[fate] += count
        match fate:
            case Fate.FIRED:
                self.streaks.clear()
                return
            case Fate.LATE:
                self.streaks &= {Fate.LATE}
        if fate not in self.streaks:
            self.streaks.add(fate)
            self.news[EVENT_REASONS[fate]] = why

    def missed(self, missed: Missed | None) -> None:
        """These slots, if there are any, have made no run."""
        if missed is not None:
            self.passed(Fate.MISSED, missed.last_s, missed.count, why_missed(missed))

    def keep_letters(self, before: "DagMemory") -> None:
        """Letters are missed whether the DAG has been read live or not: before that, nobody could be told."""
        self.letters_missed += before.letters_missed - before.letters_told
        self.letters_full = before.letters_full
        if (why := before.news.get(LETTERS_FULL)) is not None:
            self.news[LETTERS_FULL] = why

    def missed_letters(self, count: int, why: str) -> bool:
        """So many jobs have left no dead letter; whether they are the first of a streak, which people are told of."""
        self.letters_missed += count
        first, self.letters_full = not self.letters_full, True
        if first:
            self.news[LETTERS_FULL] = why
        return first


def why_missed(missed: Missed) -> str:
    """What people are told of scheduled times that made no run."""
    times = "1 scheduled time" if missed.count == 1 else f"{missed.count} scheduled times"
    return f"{missed.reason}: {times} up to {format_time(missed.last_s)} made no run: {missed.message}"


def stored_mark_s(view: DagView) -> float:
    """The mark as the DAG's object holds it, in Unix seconds; a garbled one counts as none."""
    return _time(view.status.get("lastScheduledTime"))


def stored_next_s(view: DagView) -> float:
    """The next slot as the DAG's object tells it, in Unix seconds; none counts as 0."""
    return _time(view.status.get("nextScheduledTime"))


def has_lost_its_next(view: DagView) -> bool:
    """Whether the DAG's object tells of a schedule that is neither suspended nor done, and of no next slot."""
    status = view.status
    return bool(status.get("schedule")) and status.get("state") == "Ready" and not stored_next_s(view)


def _time(value: object) -> float:
    try:
        return parse_time(value) if isinstance(value, str) else 0.0
    except ValueError:
        return 0.0


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
