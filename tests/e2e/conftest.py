"""One control plane for all end-to-end tests, with Fencepost's kinds and policies in it.

`FENCEPOST_KUBECONFIG` names a cluster to use instead; there the kinds and policies stay, all else is removed.
"""

from collections.abc import Iterator

import pytest

from tests.e2e.controlplane import Cluster, ControlPlane, cluster_from_environment
from tests.e2e.support.install import Fencepost, install


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
