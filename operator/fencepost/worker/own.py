"""The worker's own object at its newest known version, whoever brought it: a watch, a read, an answer to a write.

Versions are compared as the numbers that they are on every supported server, so a watch event that was delayed never
takes back what the answer to our own write has already told.
"""

from fencepost.kube.protocol import Obj
from fencepost.worker.objects import uid_of, version_of


class WorkerLostError(Exception):
    """This process is no longer a worker: others may run its jobs, or will soon. `str()` says how it knows."""

    def __init__(self, message: str, grace_s: float = 0.0) -> None:
        super().__init__(message)
        self.grace_s = grace_s
        """What is left for its jobs between SIGTERM and SIGKILL."""


class OwnObject:
    """The newest known version of one Worker."""

    def __init__(self) -> None:
        self._latest: Obj = {}

    def adopt(self, stored: Obj) -> None:
        """The Worker as it was registered: this one, by its UID, is ours."""
        self._latest = stored

    @property
    def latest(self) -> Obj:
        """Not to be changed. Empty before `adopt`."""
        return self._latest

    @property
    def version(self) -> str:
        """Of the newest known one."""
        return version_of(self._latest)

    def learn(self, obj: Obj) -> bool:
        """Take a version in; False if it is not news. WorkerLostError if it says that we are no longer meant."""
        name = obj["metadata"]["name"]
        if uid_of(obj) != uid_of(self._latest):
            raise WorkerLostError(f"Worker {name} has been deleted and made again by somebody else")
        if obj["spec"].get("fenced"):
            raise WorkerLostError(f"Worker {name} is fenced: the operator has given it up")
        if int(version_of(obj)) <= int(self.version):
            return False
        self._latest = obj
        return True
