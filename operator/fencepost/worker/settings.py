"""What a worker is told about itself before it starts."""

import math
from dataclasses import dataclass
from typing import Final

from fencepost.api.names import SYSTEM_NAMESPACE_DEFAULT
from fencepost.core.names import WORKER_NAME_LENGTH_MAX, worker_name
from fencepost.core.renewals import RENEWALS_PER_LEASE
from fencepost.core.worker_record import WORKER_SLOTS_MAX

KILL_MARGIN_S: Final = 3.0
"""Between the last SIGKILL to a job and the moment at which the worker's Lease could end at the earliest."""
LOST_GRACE_S: Final = 5.0
"""Between SIGTERM and SIGKILL when the Lease cannot be renewed: jobs' own grace periods are too long for that."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """One worker process. ValueError, naming the setting and the remedy, for what cannot work."""

    pod: str
    """The name of the pod that it runs in, or of the machine."""
    nonce: str
    """Drawn once for each process, so that a worker's name is never used twice."""
    pool: str = "default"
    slots: int = 4
    """Jobs at a time."""
    namespace: str = SYSTEM_NAMESPACE_DEFAULT
    """Where its Worker and its Lease live."""
    heartbeat_s: float = 10.0
    lease_duration_s: int = 30
    drain_timeout_s: float = 300.0
    """How long jobs may go on after the request to end; those that are left are stopped."""
    farewell_s: float = 10.0
    """How long it then tries to store its last results, and that it has left."""
    coalesce_s: float = 0.05
    """How long a result waits for others that end at nearly the same time, to go in one write."""

    def __post_init__(self) -> None:
        if not 1 <= self.slots <= WORKER_SLOTS_MAX:
            raise ValueError(f"slots is {self.slots}; a worker has 1 to {WORKER_SLOTS_MAX}, start more workers")
        if len(self.name) > WORKER_NAME_LENGTH_MAX:
            raise ValueError(
                f"pod is {self.pod!r}, which makes a name of {len(self.name)} characters; "
                f"{WORKER_NAME_LENGTH_MAX} are allowed, shorten the name of the deployment"
            )
        if self.trust_s <= self.heartbeat_s:
            raise ValueError(
                f"lease_duration_s is {self.lease_duration_s} and heartbeat_s {self.heartbeat_s:g}: the worker would "
                f"stop its jobs after {self.trust_s:g} s without a renewal; make the lease longer"
            )

    @property
    def name(self) -> str:
        """Of its Worker and of its Lease."""
        return worker_name(self.pod, self.nonce)

    @property
    def trust_s(self) -> float:
        """How long after the sending of a renewal that succeeded its jobs may go on without another one."""
        return Pace(self.heartbeat_s, self.lease_duration_s).trust_s

    def pace(self, told_s: float) -> "Pace":
        """How to renew when the operator asks for one renewal in so many seconds (0: it does not ask)."""
        if told_s <= self.heartbeat_s:
            return Pace(self.heartbeat_s, self.lease_duration_s)
        return Pace(told_s, max(self.lease_duration_s, math.ceil(told_s * RENEWALS_PER_LEASE)))


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a Lease is renewed, and how long it lasts."""

    heartbeat_s: float
    lease_duration_s: int

    @property
    def trust_s(self) -> float:
        """How long after the sending of such a renewal, if it succeeded, jobs may go on without another one."""
        return self.lease_duration_s - KILL_MARGIN_S - LOST_GRACE_S
