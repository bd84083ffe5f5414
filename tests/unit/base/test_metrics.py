"""What is counted, as Prometheus reads it."""

import re
from collections.abc import Callable

import pytest

from fencepost.base.metrics import Metrics, PoolSizes


@pytest.mark.parametrize(
    ("count", "want"),
    [
        (
            lambda metrics: metrics.api_request("update", "dagruns", 409, 0.004),
            'fencepost_api_requests_total{kind="dagruns",status="409",verb="update"} 1.0',
        ),
        (
            lambda metrics: metrics.api_request("update", "dagruns", 409, 0.004),
            'fencepost_api_request_seconds_bucket{le="0.005",verb="update"} 1.0',
        ),
        (
            lambda metrics: metrics.refused("WriteRun", 403),
            'fencepost_writes_refused_total{intent="WriteRun",status="403"} 1.0',
        ),
        (lambda metrics: metrics.jobs_leased(12), "fencepost_jobs_leased_total 12.0"),
        (lambda metrics: metrics.jobs_ended("Failed", 2), 'fencepost_jobs_ended_total{phase="Failed"} 2.0'),
        (lambda metrics: metrics.run_finished("Succeeded"), 'fencepost_runs_finished_total{phase="Succeeded"} 1.0'),
        (lambda metrics: metrics.slots_passed("missed", 3), 'fencepost_slots_passed_total{fate="missed"} 3.0'),
        (lambda metrics: metrics.set_aside("DAG", "x"), 'fencepost_objects_set_aside_total{kind="DAG"} 1.0'),
        (lambda metrics: metrics.worker_fenced(), "fencepost_workers_fenced_total 1.0"),
        (
            lambda metrics: metrics.start_lag("Schedule", 1800),
            'fencepost_start_lag_seconds_bucket{le="3600.0",trigger="Schedule"} 1.0',
        ),
        (
            lambda metrics: metrics.start_lag("Schedule", 1800),
            'fencepost_start_lag_seconds_bucket{le="900.0",trigger="Schedule"} 0.0',
        ),
        (
            lambda metrics: metrics.start_lag("Schedule", -3),
            'fencepost_start_lag_seconds_sum{trigger="Schedule"} 0.0',
        ),
        (lambda metrics: metrics.shards_held(5), "fencepost_shards_held 5.0"),
        (
            lambda metrics: metrics.clock_state_changed("wrong"),
            'fencepost_clock_state_changes_total{state="wrong"} 1.0',
        ),
        (lambda metrics: metrics.watch_clock_skew(lambda: -2.5), "fencepost_clock_skew_seconds -2.5"),
    ],
)
def test_a_fact_is_counted_under_its_name(count: Callable[[Metrics], None], want: str) -> None:
    metrics = Metrics()
    count(metrics)

    assert want in metrics.text().decode().splitlines()


def test_queues_are_asked_for_at_each_scrape() -> None:
    metrics, sizes = Metrics(), [PoolSizes("default", 7, 20, 20, 2)]
    metrics.watch_queue(lambda: sizes)
    metrics.text()
    sizes[:] = [PoolSizes("gpu", 1, 4, 3, 1)]

    lines = metrics.text().decode().splitlines()
    assert {'fencepost_jobs_waiting{pool="gpu"} 1.0', 'fencepost_slots_live{pool="gpu"} 4.0'} <= set(lines)
    assert {'fencepost_slots_taken{pool="gpu"} 3.0', 'fencepost_slots_reserved{pool="gpu"} 1.0'} <= set(lines)
    assert not any('pool="default"' in line for line in lines), "a pool that is gone is not reported for ever"


def test_two_processes_in_one_test_do_not_count_for_each_other() -> None:
    one, other = Metrics(), Metrics()
    one.jobs_leased(5)

    assert "fencepost_jobs_leased_total 0.0" in other.text().decode()


def test_every_name_has_our_prefix_and_is_described() -> None:
    families = list(Metrics().registry.collect())

    assert all(re.fullmatch(r"fencepost_[a-z_]+", family.name) for family in families)
    assert all(family.documentation.endswith(".") for family in families)
