"""What a worker counts. `base.metrics.Metrics` is one such counter."""

from typing import Protocol


class WorkerMetrics(Protocol):
    """Counters. Must not fail."""

    def job_answered(self, outcome: str) -> None:
        """A job that the mailbox asked to start has ended, with this `core.run_state.Outcome`."""
        ...

    def result_refused(self) -> None:
        """A result could not be delivered: its lease had been taken back, or the API server would not have it."""
        ...
