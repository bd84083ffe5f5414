"""One control plane for all end-to-end tests, with Fencepost's kinds and policies in it, and one fleet for all stories.

`FENCEPOST_TEST_KUBECONFIG` names a cluster to use instead; there the kinds and policies stay, all else is removed.
"""

from collections.abc import Iterator

import pytest

from tests.e2e.controlplane import Cluster, ControlPlane, cluster_from_environment
from tests.e2e.support.install import Fencepost, install
from tests.e2e.support.stage import Stage, stage_on


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane | Cluster]:
    """The cluster under test: ours, or the one that the environment names."""
    cluster = cluster_from_environment()
    if cluster is not None:
        yield cluster
        return
    with ControlPlane(tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture(scope="session")
def installed(control_plane: ControlPlane | Cluster, tmp_path_factory: pytest.TempPathFactory) -> Fencepost:
    """Fencepost's kinds, rights and policies, all of them in force."""
    return install(control_plane.kubeconfig, tmp_path_factory.mktemp("identities"))


@pytest.fixture(scope="session")
def stage(installed: Fencepost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Two replicas and three workers of four slots in the pool `default`; whoever ends one of them starts it again."""
    with stage_on(installed, tmp_path_factory.mktemp("stage")) as stage:
        for name in ("operator-0", "operator-1"):
            stage.operator(name)
        for pod in ("worker-0", "worker-1", "worker-2"):
            stage.worker(pod)
        stage.wait_for_replicas("operator-0", "operator-1")
        stage.wait_for_slots("default", 12)
        yield stage


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The figures that stories have measured."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, ())]
    figures = [(report.nodeid, name, value) for report in reports for name, value in report.user_properties]
    if figures:
        terminalreporter.section("figures")
    for test, name, value in figures:
        terminalreporter.write_line(f"{name} = {value}  ({test})")
