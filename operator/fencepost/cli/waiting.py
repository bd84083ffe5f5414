"""Waiting for a run: asked for once a second, told when it has moved on; with patience for a server that is away."""

from fencepost.api.names import DAG_RUNS
from fencepost.base.clock import Clock
from fencepost.cli.cluster import Cluster, ClusterError, Obj
from fencepost.cli.errors import CommandError
from fencepost.core.phases import RunPhase

PERIOD_S = 1.0
PATIENCE_S = 120.0
"""How long the API server may be away before whoever waits gives up."""
EXIT_SUCCEEDED = 0
EXIT_FAILED = 1


class WaitedInVainError(CommandError):
    """What was waited for can no longer come, or nobody can say."""


class Patience:
    """Asks again while the server is away, but not for ever."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failing_since_s: float | None = None

    def well(self) -> None:
        """The server has answered."""
        self._failing_since_s = None

    def bear(self, error: ClusterError) -> None:
        """Raise what ends the waiting: an answer that will stay what it is, or silence for too long."""
        now_s = self._clock.steady_s()
        self._failing_since_s = now_s if self._failing_since_s is None else self._failing_since_s
        if not error.passing:
            raise error
        if now_s - self._failing_since_s >= PATIENCE_S:
            raise WaitedInVainError(
                f"{error}; nobody has answered for {PATIENCE_S:.0f} s, and the run goes on"
            ) from None


async def wait_for_end(cluster: Cluster, clock: Clock, name: str) -> Obj:
    """The run's object once it has finished, each step of it printed; WaitedInVainError if it is deleted before."""
    patience = Patience(clock)
    said = ""
    while True:
        try:
            run = cluster.find(DAG_RUNS, name)
        except ClusterError as error:
            patience.bear(error)
        else:
            patience.well()
            if run is None:
                raise WaitedInVainError(
                    f"DAGRun {cluster.namespace}/{name} was deleted before it had ended; start another"
                )
            line = summary(run)
            if line != said:
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
