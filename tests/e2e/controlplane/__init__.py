"""A real Kubernetes control plane for tests, benchmarks and the demo, without containers.

    with ControlPlane(tmp_path) as plane:
        ...  # plane.kubeconfig, plane.server

`python -m tests.e2e.controlplane build` comes once before. See `plane` for what it can do and what it
does not promise, `environment` for using a cluster that exists already.
"""

from tests.e2e.controlplane.cluster import standing_cluster
from tests.e2e.controlplane.components import CONTROLLERS, Component
from tests.e2e.controlplane.environment import Cluster, cluster_from_environment
from tests.e2e.controlplane.errors import BuildFailed, ComponentFailed, ControlPlaneError, PortInUse
from tests.e2e.controlplane.kubeconfig import kubeconfig_for_token
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.waiting import eventually

__all__ = [
    "CONTROLLERS",
    "BuildFailed",
    "Cluster",
    "Component",
    "ComponentFailed",
    "ControlPlane",
    "ControlPlaneError",
    "PortInUse",
    "cluster_from_environment",
    "eventually",
    "kubeconfig_for_token",
    "standing_cluster",
]
