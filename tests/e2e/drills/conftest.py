"""One control plane and one fleet for all drills; whoever ends a member of it musters it again."""

from collections.abc import Iterator

import pytest

from tests.e2e.controlplane import Component, ControlPlane
from tests.e2e.drills.ground import REPLICAS, SLOTS, WORKERS, Ground
from tests.e2e.support.audit import AuditLog
from tests.e2e.support.install import install
from tests.e2e.support.lines import lines_in
from tests.e2e.support.stage import stage_on


@pytest.fixture(scope="package")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Two replicas and four workers, each on a line of its own."""
    folder = tmp_path_factory.mktemp("drills")
    audit = AuditLog(folder / "audit.log")
    flags = {Component.APISERVER: audit.flags()}
    with (
        ControlPlane(folder / "plane", fsync=True, extra_flags=flags) as plane,
        lines_in(folder / "lines") as lines,
        stage_on(install(plane.kubeconfig, folder / "identities"), folder) as stage,
    ):
        stage.fleet.route = lines.route
        for name in REPLICAS:
            stage.operator(name)
        for pod in WORKERS:
            stage.worker(pod, slots=SLOTS)
        ground = Ground(plane, stage, lines, audit)
        ground.muster()
        yield ground
        for line in lines.lines.values():
            line.heal()
