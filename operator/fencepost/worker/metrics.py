"""What a worker counts: as a protocol, since not every worker is a process of its own, and as a set of metrics."""

from typing import Protocol

from prometheus_client import Counter, Gauge

from fencepost.base.metrics import ProcessMetrics


class WorkerMetrics(Protocol):
    """Counters. Must not fail."""

    def job_answered(self, outcome: str) -> None:
        """A job that the mailbox asked to start has ended, with this `core.run_state.Outcome`."""
        ...

    def result_refused(self) -> None:
        """A result could not be delivered: its lease had been taken back, or the API server would not have it."""
        ...

    def jobs_running(self, count: int) -> None:
        """So many jobs are under way now."""
        ...


class WorkerCounters(ProcessMetrics):
    """A worker process's own set of metrics."""

    def __init__(self, slots: int) -> None:
        super().__init__()
        own = self.registry
        self._answers = Counter("fencepost_jobs_answered", "Results given by this worker.", ("outcome",), registry=own)
        self._undelivered = Counter(
            "fencepost_results_refused", "Results that this worker could not deliver.", registry=own
        )
        self._running = Gauge("fencepost_worker_jobs_running", "Jobs under way on this worker.", registry=own)
        Gauge("fencepost_worker_slots", "Jobs that this worker runs at a time.", registry=own).set(slots)

    def job_answered(self, outcome: str) -> None:
        """A job that was started has its result."""
        self._answers.labels(outcome).inc()

    def result_refused(self) -> None:
        """A result's lease had been taken back, or the API server would not have it."""
        self._undelivered.inc()

    def jobs_running(self, count: int) -> None:
        """So many jobs are under way now."""
        self._running.set(count)
