"""What the demo plays on: a control plane, two operator replicas and three workers, all in one folder.

Everything about it is in files there, so it can be taken down by another process, and after a crash of this one. It is
made anew for each demo.
"""

import shutil
import signal
from pathlib import Path

from tests.e2e.controlplane import ControlPlane, eventually
from tests.e2e.controlplane.paths import cache_folder
from tests.e2e.controlplane.processes import Process
from tests.e2e.support.fleet import READY_LIMIT_S, Fleet, Member
from tests.e2e.support.install import Fencepost, install

OPERATORS = ("operator-0", "operator-1")
WORKERS = ("worker-0", "worker-1", "worker-2")
SLOTS = 4
STOP_GRACE_S = 5.0
REGISTERED_POLL_S = 0.3


class Stage:
    """All that is started, whether it runs or not."""

    def __init__(self) -> None:
        self.folder = cache_folder().parent / "demo"
        self.plane = ControlPlane(self.folder / "plane", outlives_us=True)
        self.members: dict[str, Member] = {}

    @property
    def lock(self) -> Path:
        """Held by whoever plays or takes down; it lies outside of what is wiped."""
        return self.folder.with_suffix(".lock")

    def start_plane(self) -> None:
        """A control plane with nothing in it. Raises ControlPlaneError."""
        self.plane.start()

    def install(self) -> Fencepost:
        """Kinds, rights and policies, in force. Raises InstallError."""
        return install(self.plane.kubeconfig, self.folder / "identities")

    def start_members(self, fencepost: Fencepost) -> None:
        """The operators, ready, and the workers, registered. Raises TimeoutError."""
        scratch = self.folder / "scratch"
        scratch.mkdir()
        fleet = Fleet(fencepost, self._members_folder, outlives_us=True)
        self.members = fleet.members
        for name in OPERATORS:
            fleet.operator(name, wait=False)
        for pod in WORKERS:
            fleet.worker(pod, wait=False, slots=SLOTS, scratch=scratch)
        for name in OPERATORS:
            eventually(f"{name} is ready", self.members[name].ready, limit_s=READY_LIMIT_S)

        def all_registered() -> bool:
            pods = {worker["metadata"]["name"].rpartition("-")[0] for worker in fleet.objects("workers", "-A")}
            return pods >= set(WORKERS)

        eventually("the workers have registered", all_registered, limit_s=READY_LIMIT_S, poll_s=REGISTERED_POLL_S)

    def take_down(self) -> int:
        """End everything that runs, also what another process started, and forget it; how many processes that were."""
        loaded = [Process.load(file) for file in sorted(self._members_folder.glob("*.json"))]
        running = [process for process in loaded if process is not None and process.running]
        for process in running:
            process.send(signal.SIGTERM)
        for process in running:
            process.end(STOP_GRACE_S)
        count = len(running) + len(self.plane.pids)
        self.plane.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        return count

    @property
    def _members_folder(self) -> Path:
        return self.folder / "members"
