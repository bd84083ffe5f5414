"""When a component is ready, and what to say when it isn't.

Each is asked over TLS with our own authority, so a stranger on the port can't answer for it:

- etcd: `/health` says so;
- kube-apiserver: `/readyz` is ok;
- kube-controller-manager: `/healthz` is ok, and the namespace `default` has its account `default`, the first
  thing that a Pod needs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import assert_never

from tests.e2e.controlplane import certificates
from tests.e2e.controlplane.certificates import Pki
from tests.e2e.controlplane.components import Component
from tests.e2e.controlplane.https import Https
from tests.e2e.controlplane.ports import LOOPBACK, Ports

DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
QUOTED_LINES = 12
QUOTED_BYTES = 16_384
TAKEN_PORT = "address already in use"


class Readiness:
    """Asks the components of one control plane."""

    def __init__(self, pki: Pki, ports: Ports) -> None:
        authority = pki.certificate(certificates.AUTHORITY)

        def client(port: int, identity: str) -> Https:
            url = f"https://{LOOPBACK}:{port}"
            return Https(url, authority, pki.certificate(identity), pki.key(identity))

        self._etcd = client(ports.etcd_http, certificates.ETCD_CLIENT)
        self._apiserver = client(ports.apiserver, certificates.ADMIN)
        self._controller_manager = client(ports.controller_manager, certificates.ADMIN)

    def of(self, component: Component) -> bool:
        """Is it ready now? No answer means no."""
        try:
            match component:
                case Component.ETCD:
                    return _says_healthy(*self._etcd.get("/health"))
                case Component.APISERVER:
                    return self._apiserver.get("/readyz") == (200, "ok")
                case Component.CONTROLLER_MANAGER:
                    healthy = self._controller_manager.get("/healthz") == (200, "ok")
                    return healthy and self._apiserver.get(DEFAULT_ACCOUNT)[0] == 200
                case _:
                    assert_never(component)
        except OSError:
            return False


def _says_healthy(status: int, body: str) -> bool:
    try:
        return status == 200 and json.loads(body).get("health") == "true"
    except (ValueError, AttributeError):
        return False


def log_tail(log: Path, since: int) -> str:
    """The last lines that a component wrote after its log had `since` bytes."""
    try:
        with log.open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(since, end - QUOTED_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return "(no log)"
    return "\n".join(text.splitlines()[-QUOTED_LINES:]) or "(it wrote nothing)"
