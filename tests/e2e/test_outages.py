"""An API server that goes away and one that falls silent, in the middle of runs. On a control plane of its own."""

import time
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.controlplane import Component, ControlPlane
from tests.e2e.support.dags import dag, task
from tests.e2e.support.install import install
from tests.e2e.support.stage import Stage, stage_on

SLOTS = 4
SILENCE_S = 9.0
"""Longer than a leader trusts itself after a renewal (8 s), and no more than a worker stands that was just about to
renew (12 s)."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that may be ill-treated."""
    with ControlPlane(tmp_path_factory.mktemp("outages")) as plane:
        yield plane


@pytest.fixture(scope="module")
def outage_stage(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A replica and a worker on it."""
    folder = tmp_path_factory.mktemp("outage-stage")
    with stage_on(install(plane.kubeconfig, folder / "identities"), folder) as stage:
        stage.operator("operator-0")
        stage.worker("worker-0", slots=SLOTS)
        stage.wait_for_replicas("operator-0")
        stage.wait_for_slots("default", SLOTS)
        yield stage


def a_run_goes_through(stage: Stage, name: str, ordeal: Callable[[], None]) -> None:
    """Jobs that end in the middle of the ordeal and jobs that outlast it: each runs once, and the run succeeds."""
    ledger = stage.ledger(name)
    run = stage.launch(
        dag(
            name,
            task("short", command=ledger.sleep(0.5), forEach={"count": 2}),
            task("long", command=ledger.gated(), forEach={"count": 2}),
            task("after-short", "short", command=ledger.job(), forEach={"count": 2}),
            task("last", "after-short", "long", command=ledger.job()),
        )
    )
    stage.wait("all slots are busy", lambda: ledger.count("start") == SLOTS)

    ordeal()
    stage.wait("the short jobs have ended", lambda: ledger.count("end", "short") == 2)
    ledger.open()
    stage.wait_for_phase(run, "Succeeded", limit_s=90)

    assert len(ledger.starts()) == stage.state(run).done == 7
    assert not ledger.repeated()
    assert not ledger.unfinished()
    [worker] = stage.workers_of("default")
    assert not worker["spec"].get("fenced")


def test_a_run_goes_through_a_restart_of_the_api_server(plane: ControlPlane, outage_stage: Stage) -> None:
    a_run_goes_through(outage_stage, "restarted", plane.restart_apiserver)


def test_a_run_goes_through_a_crash_of_the_api_server(plane: ControlPlane, outage_stage: Stage) -> None:
    def crash() -> None:
        plane.kill(Component.APISERVER)
        plane.start_component(Component.APISERVER)

    a_run_goes_through(outage_stage, "crashed", crash)


def test_a_run_goes_through_a_silence_of_the_api_server(plane: ControlPlane, outage_stage: Stage) -> None:
    def silence() -> None:
        plane.pause(Component.APISERVER)
        since_s = time.monotonic()
        outage_stage.wait("it has been silent for long", lambda: time.monotonic() - since_s > SILENCE_S)
        plane.resume(Component.APISERVER)

    a_run_goes_through(outage_stage, "silent", silence)
