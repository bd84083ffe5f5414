"""What is counted, under Prometheus' conventions; one method a fact, so that counting takes a line.

Each process has a registry of its own, so that two in one test do not count for each other. What would cost a walk to
count is asked for at the scrape (`watch_queue`), never kept up to date.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

LAG_BUCKETS_S = (0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600)
LATENCY_BUCKETS_S = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class PoolSizes(NamedTuple):
    """One pool in numbers."""

    pool: str
    waiting: int
    """Jobs that wait for a slot."""
    live: int
    """Slots of live workers."""
    taken: int
    reserved: int
    """Slots that only critical jobs may take, taken or not."""


QueueSizes = Callable[[], Iterable[PoolSizes]]
"""Asked at each scrape."""

SkewS = Callable[[], float]
"""Seconds; asked at each scrape."""


LetterCounts = Callable[[], Mapping[str, int]]
"""Stored dead letters by the phase of their last replay; asked at each scrape."""


class ProcessMetrics:
    """What every process counts: its requests to the API server."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        self._requests = Counter(
            "fencepost_api_requests",
            "Requests to the API server, by outcome.",
            ("verb", "kind", "status"),
            registry=own,
        )
        self._latency = Histogram(
            "fencepost_api_request_seconds", "How long they took.", ("verb",), buckets=LATENCY_BUCKETS_S, registry=own
        )
        self._answered: dict[tuple[str, object, int], tuple[Counter, Histogram]] = {}
        """The series of each outcome: to find them by their labels takes longer than to count."""

    def api_request(self, verb: str, kind: object, status: int, seconds: float) -> None:
        """One request to the API server; `status` 0 where no answer came. `kind` is one of a few that stay."""
        key = (verb, kind, status)
        if key not in self._answered:
            self._answered[key] = self._requests.labels(verb, str(kind), str(status)), self._latency.labels(verb)
        requests, latency = self._answered[key]
        requests.inc()
        latency.observe(seconds)

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self.registry)


class Metrics(ProcessMetrics):
    """An operator's counters."""

    def __init__(self) -> None:
        super().__init__()
        own = self.registry
        self._refusals = Counter(
            "fencepost_writes_refused",
            "Writes that a fence refused: 409 stale version, 403 policy, 422 rule.",
            ("intent", "status"),
            registry=own,
        )
        self._leases = Counter("fencepost_jobs_leased", "Leases given to workers.", registry=own)
        self._jobs = Counter("fencepost_jobs_ended", "Jobs by how they ended.", ("phase",), registry=own)
        self._runs = Counter("fencepost_runs_finished", "Runs by how they ended.", ("phase",), registry=own)
        self._slots = Counter("fencepost_slots_passed", "Scheduled times by their fate.", ("fate",), registry=own)
        self._aside = Counter("fencepost_objects_set_aside", "Objects that could not be read.", ("kind",), registry=own)
        self._fenced = Counter("fencepost_workers_fenced", "Workers that were shut out.", registry=own)
        self._letters = Counter(
            "fencepost_dead_letters",
            "Dead letters: written, unwritten for want of room, expired.",
            ("fate",),
            registry=own,
        )
        self._lag = Histogram(
            "fencepost_start_lag_seconds",
            "From a run's scheduled time (or creation) to its first lease.",
            ("trigger",),
            buckets=LAG_BUCKETS_S,
            registry=own,
        )
        self._reviews = Counter(
            "fencepost_admission_reviews", "DAGs that the webhook was asked about.", ("allowed",), registry=own
        )
        self._shards = Gauge("fencepost_shards_held", "Shards that this replica plans for.", registry=own)
        self._skew = Gauge(
            "fencepost_clock_skew_seconds",
            "The API server's wall clock minus this replica's, as little as its answers allow.",
            registry=own,
        )
        self._clock_states = Counter(
            "fencepost_clock_state_changes",
            "Changes of what is thought of this replica's clock: right, off, wrong.",
            ("state",),
            registry=own,
        )

    def refused(self, intent: str, status: int) -> None:
        """A write of this intent was refused."""
        self._refusals.labels(intent, str(status)).inc()

    def jobs_leased(self, count: int) -> None:
        """Jobs were leased in one commit."""
        self._leases.inc(count)

    def jobs_ended(self, phase: str, count: int) -> None:
        """Jobs have ended in this phase."""
        self._jobs.labels(phase).inc(count)

    def run_finished(self, phase: str) -> None:
        """A run has ended in this phase."""
        self._runs.labels(phase).inc()

    def slots_passed(self, fate: str, count: int) -> None:
        """Scheduled times were `fired`, `late`, `skipped` or `missed`."""
        self._slots.labels(fate).inc(count)

    def set_aside(self, kind: str, _problem: str) -> None:
        """An object of this kind cannot be read; the problem stands in the log, as a label it would know no bounds."""
        self._aside.labels(kind).inc()

    def worker_fenced(self) -> None:
        """A worker was shut out."""
        self._fenced.inc()

    def dead_letters(self, fate: str, count: int = 1) -> None:
        """Dead letters were `written`, or `unwritten` as their DAG has no room or is gone, or have `expired`."""
        self._letters.labels(fate).inc(count)

    def start_lag(self, trigger: str, seconds: float) -> None:
        """A run has had its first lease this long after its time."""
        self._lag.labels(trigger).observe(max(0.0, seconds))

    def reviewed(self, *, allowed: bool) -> None:
        """The webhook has let a DAG through, or refused it."""
        self._reviews.labels(str(allowed).lower()).inc()

    def shards_held(self, count: int) -> None:
        """So many shards are planned for now."""
        self._shards.set(count)

    def clock_state_changed(self, state: str) -> None:
        """This replica's clock has become `right`, `off` by some seconds, or `wrong`, so that nothing fires by it."""
        self._clock_states.labels(state).inc()

    def watch_clock_skew(self, skew_s: SkewS) -> None:
        """Ask this for the clock's skew at each scrape."""
        self._skew.set_function(skew_s)

    def watch_queue(self, sizes: QueueSizes) -> None:
        """Ask this for the pools' queues at each scrape."""
        self.registry.register(_QueueCollector(sizes))

    def watch_letters(self, depth: LetterCounts) -> None:
        """Ask this for the number of dead letters at each scrape."""
        self.registry.register(_LetterCollector(depth))


class _QueueCollector(Collector):
    def __init__(self, sizes: QueueSizes) -> None:
        self._sizes = sizes

    def collect(self) -> Iterable[Metric]:
        waiting = GaugeMetricFamily("fencepost_jobs_waiting", "Jobs that wait for a slot.", labels=["pool"])
        live = GaugeMetricFamily("fencepost_slots_live", "Slots of live workers.", labels=["pool"])
        taken = GaugeMetricFamily("fencepost_slots_taken", "Slots taken, as seen here.", labels=["pool"])
        kept = GaugeMetricFamily("fencepost_slots_reserved", "Slots kept for critical jobs.", labels=["pool"])
        for sizes in self._sizes():
            numbers = ((waiting, sizes.waiting), (live, sizes.live), (taken, sizes.taken), (kept, sizes.reserved))
            for family, value in numbers:
                family.add_metric([sizes.pool], value)
        return (waiting, live, taken, kept)


class _LetterCollector(Collector):
    def __init__(self, depth: LetterCounts) -> None:
        self._depth = depth

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("fencepost_dead_letters_stored", "Dead letters that are kept.", labels=["replay"])
        for phase, count in self._depth().items():
            family.add_metric([phase], count)
        return (family,)
