"""Operator replicas and workers as real processes, each under its own restricted identity, on one control plane.

They are started as a user would start them (`fencepost operator`, `fencepost worker`), die with whoever started them
unless that is not wanted, and write their logs into a folder. Beside each log lies a file that names the process, so
that another one can end it. Names are the caller's: a worker's pod name is bound into its token.
"""

import json
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.controlplane.ports import free_ports
from tests.e2e.controlplane.processes import Process
from tests.e2e.controlplane.spawn import spawn
from tests.e2e.controlplane.waiting import eventually
from tests.e2e.support.install import Fencepost

READY_LIMIT_S = 60.0
STOP_GRACE_S = 20.0
Obj = dict[str, Any]


@dataclass
class Member:
    """One process of the fleet."""

    name: str
    process: Process
    port: int
    log: Path

    def get(self, path: str) -> str:
        """What its HTTP server answers; OSError where it does not, or not with 200."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
            return str(answer.read().decode())

    def metric(self, name: str, **labels: str) -> float:
        """A counter's or gauge's value, 0 if it has none yet."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        lines = (line for line in self.get("/metrics").splitlines() if line.startswith((f"{name} ", f"{name}{{")))
        return sum(float(line.rpartition(" ")[2]) for line in lines if all(label in line for label in wanted))

    def ready(self) -> bool:
        """Whether it says that it is."""
        try:
            return self.get("/readyz").strip() == "ok"
        except OSError:
            return False


@dataclass
class Fleet:
    """Processes on one cluster."""

    fencepost: Fencepost
    folder: Path
    members: dict[str, Member] = field(default_factory=dict)
    outlives_us: bool = False
    route: Callable[[str, Path], Path] = lambda name, kubeconfig: kubeconfig
    """By which kubeconfig a member of this name reaches the cluster, given its own."""

    def operator(self, name: str = "operator-0", *, wait: bool = True, **options: object) -> Member:
        """Start an operator replica and, unless told otherwise, wait until it is ready."""
        member = self._start("operator", name, self.fencepost.operator_kubeconfig(), {"replica": name, **options})
        if wait:
            eventually(f"{name} is ready", member.ready, limit_s=READY_LIMIT_S)
        return member

    def worker(self, pod: str = "worker-0", *, wait: bool = True, **options: object) -> Member:
        """Start a worker and, unless told otherwise, wait until its Worker object is there."""
        member = self._start("worker", pod, self.fencepost.worker_kubeconfig(pod), {"pod": pod, **options})
        if wait:
            eventually(f"{pod} has registered", lambda: self.worker_names(pod), limit_s=READY_LIMIT_S)
        return member

    def worker_names(self, pod: str) -> list[str]:
        """The Worker objects of this pod that are not fenced."""
        found = self.objects("workers", "--namespace=fencepost-system")
        names = [worker["metadata"]["name"] for worker in found if not worker["spec"].get("fenced")]
        return [name for name in names if name.startswith(f"{pod}-")]

    def objects(self, kind: str, *options: str) -> list[Obj]:
        """All objects of a kind, by kubectl."""
        items: list[Obj] = json.loads(self.fencepost.kubectl("get", kind, "--output=json", *options))["items"]
        return items

    def object(self, kind: str, name: str, namespace: str = "default") -> Obj:
        """One object, by kubectl."""
        found: Obj = json.loads(self.fencepost.kubectl("get", kind, name, f"--namespace={namespace}", "--output=json"))
        return found

    def stop(self) -> None:
        """End every process, in the reverse order of their start."""
        for member in reversed(self.members.values()):
            member.process.end(STOP_GRACE_S)
        self.members.clear()

    def _start(self, role: str, name: str, kubeconfig: Path, options: dict[str, Any]) -> Member:
        self.folder.mkdir(parents=True, exist_ok=True)
        port = free_ports(1)[0]
        options = {"kubeconfig": self.route(name, kubeconfig), "http-host": "127.0.0.1", "http-port": port, **options}
        flags = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
        log = self.folder / f"{name}.log"
        command = [sys.executable, "-m", "fencepost.cli", role, *flags]
        member = Member(name, spawn(command, log, outlives_us=self.outlives_us), port, log)
        member.process.save(self.folder / f"{name}.json")
        self.members[name] = member
        return member


@contextmanager
def fleet(fencepost: Fencepost, folder: Path) -> Iterator[Fleet]:
    """A fleet that ends with the block."""
    made = Fleet(fencepost, folder)
    try:
        yield made
    finally:
        made.stop()
