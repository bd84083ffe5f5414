"""A cluster that runs already, named by FENCEPOST_TEST_KUBECONFIG, in place of one of our own.

It is only ever used, never started, stopped or wiped; what tests create in it is for them to remove.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.controlplane import kubeconfig
from tests.e2e.controlplane.errors import ControlPlaneError

VARIABLE = "FENCEPOST_TEST_KUBECONFIG"
ANSWER_LIMIT_S = 10.0


@dataclass(frozen=True)
class Cluster:
    """Somebody's cluster; the names are those of ControlPlane, so that a fixture can return either."""

    kubeconfig: Path

    @property
    def server(self) -> str:
        return kubeconfig.server_of(self.kubeconfig)

    def kubeconfig_for_token(self, path: Path, token: str, user: str) -> Path:
        """Write a kubeconfig for this cluster that shows a bearer token and nothing else."""
        return kubeconfig.kubeconfig_for_token(self.kubeconfig, path, token, user)

    def version(self) -> str:
        """What the API server calls itself; raises ControlPlaneError where it doesn't answer."""
        try:
            return str(_ask_version(self.kubeconfig))
        except Exception as error:  # a plugin, the network, TLS, a refusal: the client raises dozens of kinds
            reason = (str(error).strip().splitlines() or [repr(error)])[0]
            raise ControlPlaneError(
                f"the cluster {self.server} of {VARIABLE}={self.kubeconfig} does not answer: {reason}; "
                f"start it, or unset {VARIABLE} to use a control plane of our own"
            ) from error


def cluster_from_environment() -> Cluster | None:
    """The cluster that FENCEPOST_TEST_KUBECONFIG names, or None where the variable is unset or empty.

    Raises ControlPlaneError where it names a file that doesn't exist: then somebody meant a cluster, and
    quietly starting another would be worse. Whether it answers is asked by `version()`.
    """
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    path = Path(named).expanduser().resolve()
    if not path.is_file():
        raise ControlPlaneError(f"{VARIABLE} names {path}, which is no file: correct it or unset the variable")
    return Cluster(path)


def _ask_version(path: Path) -> Any:
    from kubernetes import client, config  # half a second to import, and only needed here

    new_client: Any = config.new_client_from_config  # untyped
    with new_client(config_file=str(path)) as api:
        return client.VersionApi(api).get_code(_request_timeout=ANSWER_LIMIT_S).git_version
