"""What has been tried, counted: a run that tried nothing shows."""

from collections import Counter
from collections.abc import Mapping

from tests.unit.sim.graphs import RULES
from tests.unit.sim.plan import ANSWERS, KINDS

WANTED: tuple[str, ...] = (
    *(f"step {kind}" for kind in KINDS),
    *(f"request {kind}" for kind in ANSWERS),
    *("died before create DAGRun", "died after create DAGRun", "died before update DAGRun", "died after update DAGRun"),
    *("died before update Worker", "died after update Worker", "died before delete DAGRun", "died after update DAG"),
    *("shard acquired", "worker fenced", "a lie was refused: 422", "worker ended LOST", "worker ended DRAINED"),
    *("slot fired", "slot skipped", "slot missed", "run deleted by its leader"),
    *("lease", "lease again", "lease lost with its worker", "lease taken back", "entry put", "entry taken away"),
    *("entry withdrawn, as its worker did not stop", "job started"),
    *("folded Succeeded", "folded Failed", "folded TimedOut", "folded Stopped", "folded HandedBack"),
    *(f"leased under {rule}" for rule in RULES),
    *(f"skipped under {rule}" for rule in RULES if rule != "AllDone"),
    *("skipped as its condition is false", "failed as nobody can say whether or how often it runs"),
    *("seen FENCEPOST_ITEM", "seen item", "seen params", "seen tasks", "cancelled as its task fails fast"),
    *(
        "attempt failed, another follows",
        "attempt failed, the last one",
        "attempt with a limit is over",
        "reason EnoughSucceeded",
    ),
    *("begun under Forbid", "begun under Queue", "begun under Replace", "reason Queued", "reason Replacing"),
    *("made in time", "made by catch-up None", "made by catch-up Latest", "made by catch-up All"),
    *("time moved by spread", "time left out by a change of clocks", "time that comes twice"),
    *("run deleted by time", "run deleted by count"),
    *("run suspended", "run born suspended", "job ended as marked", "round begun", "replay in a round"),
    *("letter Replaying", "letter Succeeded", "letter Failed", "letter Refused"),
    *(f"dead letter {reason}" for reason in ("Failed", "TimedOut", "WorkerLost", "NotStarted")),
    *(f"kept through a round: {phase}" for phase in ("Succeeded", "Failed", "Skipped")),
    *("fired by a clock that is off", "clock distrusted", "reason DefinitionMissing", "reason PoolNotUsable"),
    *("job Succeeded", "job Failed", "job Skipped", "job Cancelled"),
    *("run Pending", "run Running", "run Succeeded", "run Failed", "run Cancelled"),
    *("reason PoolFull", "reason DAGAtCap", "reason DAGNotFound", "reason RunTimedOut"),
    *(
        "answer 409 Conflict to update DAGRun",
        "answer 403 Forbidden to update DAGRun",
        "answer 410 Gone to watch DAGRun",
    ),
    *("answer 409 AlreadyExists to create DAGRun", "answer 409 Conflict to update Worker"),
    *("answer 422 Invalid to update Worker", "answer 404 NotFound to update Lease"),
)


def untried(coverage: Mapping[str, int]) -> list[str]:
    """What a run of many seeds should have met and has not."""
    return [name for name in WANTED if not coverage.get(name)]


def coverage_table(coverage: "Counter[str]") -> list[str]:
    """Lines: the kind of thing, then each thing with its count."""
    groups: dict[str, list[str]] = {}
    for name, count in sorted(coverage.items()):
        kind, _, rest = name.partition(" ")
        groups.setdefault(kind, []).append(f"{rest or kind} {count}")
    return [f"{kind}: {', '.join(items)}" for kind, items in groups.items()]
