"""What a worker counts, as Prometheus reads it: its own facts, and none of an operator's."""

import re
from collections.abc import Callable

import pytest

from fencepost.base.metrics import Metrics
from fencepost.worker.metrics import WorkerCounters


@pytest.mark.parametrize(
    ("count", "want"),
    [
        (lambda metrics: metrics.job_answered("Failed"), 'fencepost_jobs_answered_total{outcome="Failed"} 1.0'),
        (lambda metrics: metrics.result_refused(), "fencepost_results_refused_total 1.0"),
        (lambda metrics: metrics.jobs_running(3), "fencepost_worker_jobs_running 3.0"),
        (lambda metrics: None, "fencepost_worker_slots 8.0"),
    ],
)
def test_a_fact_is_counted_under_its_name(count: Callable[[WorkerCounters], None], want: str) -> None:
    metrics = WorkerCounters(8)
    count(metrics)
    assert want in metrics.text().decode().splitlines()


def test_a_worker_shows_nothing_of_an_operator_and_an_operator_nothing_of_a_worker() -> None:
    worker, operator = (
        {family.name for family in metrics.registry.collect()} for metrics in (WorkerCounters(1), Metrics())
    )
    assert worker & operator == {"fencepost_api_requests", "fencepost_api_request_seconds"}


def test_every_name_has_our_prefix_and_is_described() -> None:
    families = list(WorkerCounters(1).registry.collect())
    assert all(re.fullmatch(r"fencepost_[a-z_]+", family.name) for family in families)
    assert all(family.documentation.endswith(".") for family in families)
