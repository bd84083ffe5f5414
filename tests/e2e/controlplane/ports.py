"""Free loopback ports that stay ours while a component is down.

The trick: ports are taken from *below* the range that the kernel hands out to outgoing connections. A port
from inside that range can be lost while the API server restarts: a client that keeps dialling it is given
that very port as its own source port once in a while, connects to itself, and the server cannot bind.

A probe promises nothing (somebody may bind a moment later), so whoever uses a port must be ready to
choose again.
"""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from tests.e2e.controlplane.errors import ControlPlaneError

LOOPBACK = "127.0.0.1"
LOWEST = 20_000
PROBES_MAX = 500
EPHEMERAL_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")


@dataclass(frozen=True)
class Ports:
    """The ports of one control plane."""

    apiserver: int
    etcd: int
    etcd_peer: int
    etcd_http: int
    controller_manager: int

    @classmethod
    def load(cls, file: Path) -> Ports | None:
        """The ports written by `save`, or None where the file is missing or is not ours."""
        try:
            values = json.loads(file.read_text())
            return cls(**{field.name: int(values[field.name]) for field in fields(cls)})
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def save(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self)) + "\n")


def is_free(port: int) -> bool:
    """True if a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Connections in TIME_WAIT hold no server back, and the servers set this too.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def free_ports(count: int) -> list[int]:
    """`count` different ports that are free now; raises ControlPlaneError where none can be found."""
    highest = _ephemeral_start()
    if highest - LOWEST < PROBES_MAX:
        return _ports_from_kernel(count)
    found: list[int] = []
    # The operating system's randomness: tests seed the global generator, each process alike.
    for port in random.SystemRandom().sample(range(LOWEST, highest), PROBES_MAX):
        if is_free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise ControlPlaneError(
        f"fewer than {count} of {PROBES_MAX} loopback ports tried between {LOWEST} and {highest} are free: "
        "end what listens there (`ss -ltn` shows it)"
    )


def choose_ports(remembered: Ports | None, asked: Mapping[str, int | None]) -> Ports:
    """Those asked for by name, else those of the last time (a kubeconfig stays valid), else free ones."""
    names = [field.name for field in fields(Ports)]
    before = asdict(remembered) if remembered else {}

    def pick(name: str, spare: int) -> int:
        wanted = asked.get(name)
        if wanted is not None:
            return wanted
        return before[name] if name in before and is_free(before[name]) else spare

    return Ports(**{name: pick(name, spare) for name, spare in zip(names, free_ports(len(names)), strict=True)})


def _ephemeral_start() -> int:
    try:
        return int(EPHEMERAL_RANGE_FILE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0


def _ports_from_kernel(count: int) -> list[int]:
    """For a machine whose outgoing range covers everything: any free port must do."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()
