"""What a seed stands for: a cluster, its DAGs, and a list of steps: all that goes wrong and all that people do.

Steps stand each for itself. What is random within a step follows from the step's own salt, and what is random about the
cluster from the seed, so that leaving a step out changes the others as little as possible: a failing plan can be cut
down, and run again from `make sim SEED=… STEPS=…`.

Not here: an API server restored from an older snapshot. Versions would go back, and with them compare-and-swap, epochs
and marks; no cache and no fence survives that, and the operator's handbook says so. It is refused as a fault, not
survived.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tests.unit.sim.dags import draw_dags
from tests.unit.sim.schedules import Calendar, draw_calendar

LENGTH_S: Final = 900.0
"""Of a simulation, in which schedules go on; afterwards everything is to end."""
LONG_S: Final = 6 * 3600.0
"""The same of a long one."""
CALM_S: Final = 300.0
"""So long before that nothing goes wrong any more."""
SIZES: Final = {"small": 84, "middle": 12, "large": 2, "long": 2}
"""With how often each is drawn."""
BUSY_FROM_S: Final = 20.0
LAST_STEP_S: Final = 20.0
"""Before the calm."""
PEOPLE_LATER_S: Final = 250.0
"""And so long after that people go on."""

MACHINES = ("kill", "stop", "pause", "vm_pause", "crash_before", "crash_after", "takeover")
LINKS = ("cut", "refuse", "deaf", "lag", "no_bookmarks", "watch_cut", "watch_end", "gone")
ANSWERS = (
    "lost_after",
    "lost_before",
    "error_500",
    "error_500_after",
    "error_503",
    "busy_429",
    "conflict_409",
    "slow",
    "slow_back",
)
CLOCKS = ("clock_step",)
PEOPLE = (
    "manual_run",
    "manual_again",
    "cancel_run",
    "delete_run",
    "edit_dag",
    "suspend_dag",
    "delete_dag",
    "touch_run",
    "suspend_run",
    "rerun",
    "mark_job",
    "replay",
    "replay_many",
    "delete_letter",
    "backfill",
    "delete_revision",
    "orphan_dag",
    "edit_pool",
)
PEOPLE_AT_ANY_TIME = ("manual_run", "cancel_run", "suspend_run")
"""These are no faults: people ask for it in a well cluster too."""
OTHERS = ("delete_worker", "delete_worker_lease", "drain_worker", "outage", "lie")
KINDS: Final[tuple[str, ...]] = MACHINES + LINKS + ANSWERS + CLOCKS + PEOPLE + OTHERS
WEIGHTS: Final[Mapping[str, int]] = {
    "kill": 3, "stop": 2, "pause": 4, "vm_pause": 2, "crash_before": 4, "crash_after": 4,
    "takeover": 3,
    "cut": 3, "refuse": 1, "deaf": 2, "lag": 4, "no_bookmarks": 1, "watch_cut": 2, "watch_end": 1, "gone": 1,
    "lost_after": 4, "lost_before": 2, "error_500": 1, "error_500_after": 2, "error_503": 1, "busy_429": 2,
    "conflict_409": 1, "slow": 3, "slow_back": 3, "clock_step": 2,
    "manual_run": 6, "manual_again": 4, "cancel_run": 5, "delete_run": 5, "edit_dag": 3, "suspend_dag": 2,
    "delete_dag": 2, "touch_run": 2, "delete_worker": 1, "delete_worker_lease": 1, "drain_worker": 3,
    "outage": 1, "lie": 4,
    "suspend_run": 4, "rerun": 6, "mark_job": 5, "replay": 4, "replay_many": 2, "delete_letter": 1, "backfill": 4,
    "delete_revision": 2, "orphan_dag": 1, "edit_pool": 3,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens."""

    number: int
    at_s: float
    kind: str
    target: str
    """A seat (`op0`, `w3`), a DAG, or `all`; which run or worker is hit is drawn from the salt when it happens."""
    for_s: float
    rate: float
    salt: int

    def __str__(self) -> str:
        rate = f", {self.rate:.0%} of requests" if self.kind in ANSWERS else ""
        span = f" for {self.for_s:.1f} s" if self.kind not in PEOPLE else ""
        return f"step {self.number}: {self.kind} {self.target}{span}{rate}"


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a process runs: it gets another one there when it has ended."""

    name: str
    speed: float
    """Of its clocks."""
    wall_offset_s: float
    slots: int = 0
    """Of a worker."""
    synced: bool = True
    """Its wall clock keeps time, as somebody sets it right all the time."""


@dataclass(frozen=True)
class Plan:
    """One simulation."""

    seed: int
    shards: int
    replicas: tuple[Seat, ...]
    workers: tuple[Seat, ...]
    share_percent: int
    """Of the pool that one DAG may hold."""
    reserved_percent: int
    """Of the pool that is kept for critical jobs."""
    latency_s: float
    """Of a quick request, on average."""
    changes_max: int
    """Versions of each kind that can be watched from."""
    dags: Mapping[str, Mapping[str, Any]]
    steps: tuple[Step, ...]
    calendar: Calendar = field(default_factory=Calendar)
    length_s: float = LENGTH_S
    size: str = field(default="small")

    @property
    def calm_from_s(self) -> float:
        """Nothing goes wrong any more from here."""
        return self.length_s - CALM_S

    def only(self, numbers: frozenset[int]) -> "Plan":
        """The same plan with these steps alone."""
        steps = tuple(step for step in self.steps if step.number in numbers)
        return Plan(**{**self.__dict__, "steps": steps})


def draw_plan(seed: int, size: str = "", *, focus: tuple[str, ...] = (), clocks_change: bool = False) -> Plan:
    """The plan of a seed. Sizes: small (2 replicas, 4 workers), middle, large (5 and 30), and long: a small cluster for
    six hours, with schedules and faults that are further apart. Most seeds are small.

    `focus`: these kinds of steps are as frequent as all others together, and every plan has plenty of steps.
    `clocks_change`: in every plan.
    """
    rng = Random(seed)
    drawn = rng.choices(tuple(SIZES), tuple(SIZES.values()))[0]
    size = size or drawn
    scale, length_s = ("small", LONG_S) if size == "long" else (size, LENGTH_S)
    replicas = {"small": 2, "middle": rng.randint(2, 4), "large": 5}[scale]
    workers = {"small": rng.randint(2, 4), "middle": rng.randint(4, 10), "large": 30}[scale]
    shards = rng.choice((1, 2, 3, 4)) if scale != "large" else 16
    skewed = rng.random() < 0.4
    replicas_seats = tuple(_seat(rng, f"op{number}", skewed, 0) for number in range(replicas))
    workers_seats = tuple(_seat(rng, f"w{number}", skewed, rng.choice((1, 2, 4, 8))) for number in range(workers))
    slots = sum(seat.slots for seat in workers_seats)
    calendar = draw_calendar(rng, length_s, always=clocks_change)
    dags = draw_dags(rng, {"small": rng.randint(2, 5), "middle": 8, "large": 25}[scale], slots, length_s, calendar)
    seats = [seat.name for seat in (*replicas_seats, *workers_seats)]
    count = rng.choice((30, 45) if focus else (0, 4, 10, 20, 30, 45))
    kinds = [focus if focus and rng.random() < 0.5 else tuple(WEIGHTS) for _ in range(count)]
    until_s = length_s - CALM_S - LAST_STEP_S
    steps = sorted(
        (_step(rng, kind, until_s, seats, len(replicas_seats), list(dags)) for kind in kinds), key=lambda s: s.at_s
    )
    return Plan(
        seed=seed,
        shards=shards,
        replicas=replicas_seats,
        workers=workers_seats,
        share_percent=rng.choice((30, 50, 100)),
        latency_s=rng.choice((0.001, 0.003, 0.01, 0.05)),
        changes_max=rng.choice((150, 1000, 100_000)),
        dags=dags,
        steps=tuple(Step(number, *_parts(step)) for number, step in enumerate(steps)),
        calendar=calendar,
        length_s=length_s,
        size=size,
        reserved_percent=rng.choice((0, 0, 10, 25, 50)),
    )


def _seat(rng: Random, name: str, skewed: bool, slots: int) -> Seat:
    speed = rng.uniform(0.97, 1.03) if skewed else 1.0
    offset_s = rng.uniform(-5.0, 5.0) if skewed else 0.0
    return Seat(name, speed, offset_s, slots, synced=not skewed or rng.random() < 0.7)


def _step(
    rng: Random, kinds: tuple[str, ...], until_s: float, seats: list[str], replicas: int, dags: list[str]
) -> Step:
    kind = rng.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
    at_s = rng.uniform(BUSY_FROM_S, until_s)
    if rng.random() < 0.5:
        # Just when schedules fire: most writes are near the whole minute.
        at_s = min(until_s, 60.0 * round(at_s / 60.0) + rng.uniform(-0.5, 6.0))
    if kind in PEOPLE_AT_ANY_TIME and rng.random() < 0.3:
        at_s = rng.uniform(until_s, until_s + PEOPLE_LATER_S)
    target = rng.choice(seats[:replicas]) if rng.random() < 0.55 else rng.choice(seats)
    if kind in PEOPLE:
        target = rng.choice(dags)
    elif kind == "takeover":
        target = rng.choice(seats[:replicas])
    elif kind == "outage" or (kind in ANSWERS and rng.random() < 0.3):
        target = "all"
    for_s = rng.choice((rng.uniform(0.2, 3.0), rng.uniform(3.0, 30.0), rng.uniform(30.0, 300.0)))
    if kind in ("lag", "deaf", "slow", "slow_back"):
        for_s = min(for_s, 60.0)
    if kind == "outage":
        for_s = min(for_s, 90.0)
    return Step(0, at_s, kind, target, for_s, rng.choice((0.05, 0.2, 0.5, 1.0)), rng.getrandbits(32))


def _parts(step: Step) -> tuple[float, str, str, float, float, int]:
    return step.at_s, step.kind, step.target, step.for_s, step.rate, step.salt
