"""The store in trouble: etcd that stands still, a disk that is slow, an API server that restarts; always under load."""

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fencepost.api import names as wire
from tests.e2e.controlplane import Component
from tests.e2e.drills.ground import LIMIT_S, Ground
from tests.e2e.support.stage import Recorder

STANDSTILL_S = 30.0
"""Longer than a worker may go without a renewal (22 s), and than the API server waits for etcd in one request."""
FSYNC_DELAY_MS = 80


@contextmanager
def slow_disk(ground: Ground) -> Iterator[None]:
    """Every fsync of etcd takes so much longer: strace stops it on its way out of the system call."""
    pid, inject = ground.plane.pids[Component.ETCD], f"--inject=fsync,fdatasync:delay_exit={FSYNC_DELAY_MS * 1000}"
    command = ["strace", "--follow-forks", f"--attach={pid}", "--trace=fsync,fdatasync", inject, "--output=/dev/null"]
    tracer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def slow() -> bool:
        if tracer.poll() is not None:
            pytest.skip(f"strace may not trace here: {tracer.communicate()[1]}")
        return min(seconds_of_a_write(ground) for _ in range(3)) >= FSYNC_DELAY_MS / 1000

    try:
        ground.stage.wait("every write takes as long as the disk does", slow)
        yield
    finally:
        tracer.send_signal(signal.SIGTERM)  # it lets go of what it traces
        tracer.communicate(timeout=10)


def seconds_of_a_write(ground: Ground) -> float:
    since_s = time.monotonic()
    change = {"metadata": {"annotations": {"test.fencepost.dev/written": str(since_s)}}}
    ground.stage.admin.merge(wire.WORKER_POOLS, "default", change)
    return time.monotonic() - since_s


def test_etcd_that_stands_still_for_half_a_minute_costs_no_run_and_no_shard(
    ground: Ground, record_property: Recorder
) -> None:
    stage, ledger, before = ground.stage, ground.stage.ledger("standstill"), ground.epochs()
    runs = ground.load(ledger, runs=8, width=16, seconds=1.0)
    stage.wait("the load is on", lambda: ledger.count("start") >= 24)

    ground.plane.pause(Component.ETCD)
    ground.let_pass(STANDSTILL_S, "etcd has stood still")
    ground.plane.resume(Component.ETCD)
    ended = ground.reckon(ledger, runs)
    ground.muster()
    record_property("ended_by_the_standstill", sorted(ended))
    record_property("jobs_started_again", len(ledger.repeated()))
    assert ground.epochs() == before


@pytest.mark.skipif(shutil.which("strace") is None, reason="a slow disk is made by strace: apt-get install strace")
def test_a_slow_disk_under_etcd_makes_everything_slow_and_nothing_wrong(ground: Ground) -> None:
    ledger, before = ground.stage.ledger("slow-disk"), ground.epochs()
    with slow_disk(ground):
        runs = ground.load(ledger, runs=8, width=4, seconds=0.5)
        ground.reckon(ledger, runs)

    assert ground.epochs() == before
    ground.never_repeated(ledger)


def test_api_servers_that_restart_and_crash_under_load_cost_no_run_and_no_shard(
    ground: Ground, record_property: Recorder
) -> None:
    """Where they are back soon, it costs no job either; but that is a matter of the machine."""
    stage, ledger, before = ground.stage, ground.stage.ledger("api-server"), ground.epochs()
    runs = ground.load(ledger, runs=8, width=16, seconds=0.7)
    stage.wait("the load is on", lambda: ledger.count("start") >= 24)

    def load_goes_on() -> bool:
        ground.revive()
        return ledger.count("commit") >= 48

    ground.plane.restart_apiserver()
    stage.wait("the load goes on", load_goes_on, LIMIT_S)
    ground.plane.kill(Component.APISERVER)
    ground.plane.start_component(Component.APISERVER)
    record_property("ended_by_the_restarts", sorted(ground.reckon(ledger, runs)))
    record_property("jobs_started_again_after_restarts", len(ledger.repeated()))
    ground.muster()
    assert ground.epochs() == before
