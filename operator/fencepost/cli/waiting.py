"""Waiting for a run: asked for once a second, told when it has moved on; with patience for a server that is away."""

from collections.abc import Callable
from typing import TypeVar

from fencepost.api.names import DAG_RUNS
from fencepost.base.clock import Clock
from fencepost.cli.cluster import Cluster, ClusterError, Obj
from fencepost.cli.errors import CommandError
from fencepost.core.phases import RunPhase

T = TypeVar("T")

PERIOD_S = 1.0
PATIENCE_S = 120.0
"""How long the API server may be away before whoever waits gives up."""
EXIT_SUCCEEDED = 0
EXIT_FAILED = 1


class WaitedInVainError(CommandError):
    """What was waited for can no longer come, or nobody can say."""


async def insist(clock: Clock, ask: Callable[[], T]) -> T:
    """The answer, asked for again while the server is away; ClusterError for one that will stay what it is."""
    began_s = clock.steady_s()
    while True:
        try:
            return ask()
        except ClusterError as error:
            if not error.passing:
                raise
            if clock.steady_s() - began_s >= PATIENCE_S:
                raise WaitedInVainError(f"{error}; nobody has answered for {PATIENCE_S:.0f} s") from None
        await clock.sleep(PERIOD_S)


async def wait_for_end(cluster: Cluster, clock: Clock, name: str) -> Obj:
    """The run's object once it has finished, each step of it printed; WaitedInVainError if it is deleted before."""
    said = ""
    while True:
        run = await insist(clock, lambda: cluster.find(DAG_RUNS, name))
        if run is None:
            raise WaitedInVainError(f"DAGRun {cluster.namespace}/{name} was deleted before it had ended; start another")
        if (line := summary(run)) != said:
            print(line, flush=True)
            said = line
        if is_finished(run):
            return run
        await clock.sleep(PERIOD_S)


def is_finished(run: Obj) -> bool:
    """Whether a run's object tells of its end."""
    return phase_of(run).finished


def phase_of(run: Obj) -> RunPhase:
    """Pending too while nobody has taken it up."""
    return RunPhase(run.get("status", {}).get("phase", RunPhase.PENDING))


def summary(run: Obj) -> str:
    """`nightly-etl-4k2: Running 3/102: DAGAtCap: 300 of 300 slots used`."""
    status = run.get("status", {})
    words = [f"{run['metadata']['name']}: {phase_of(run)}"]
    if "done" in status:
        words.append(status["done"])
    if "duration" in status:
        words.append(f"in {status['duration']}")
    reason = ": ".join(text for text in (status.get("reason"), status.get("message")) if text)
    said = " ".join(words)
    return f"{said}: {reason}" if reason and phase_of(run) is not RunPhase.SUCCEEDED else said


def exit_code(run: Obj) -> int:
    """Of a command that has waited for this run."""
    return EXIT_SUCCEEDED if phase_of(run) is RunPhase.SUCCEEDED else EXIT_FAILED
