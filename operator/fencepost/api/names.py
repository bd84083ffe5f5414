"""Well-known names on the wire: group, kinds, labels, namespaces. One place, so that a typo is an error."""

from dataclasses import dataclass
from functools import cached_property

GROUP = "fencepost.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

SHARD_LABEL = f"{GROUP}/shard"
"""On a DAGRun and on a shard's Lease: the shard's number."""
DAG_LABEL = f"{GROUP}/dag"
"""On a DAGRun, a ControllerRevision and an Event: the DAG's name."""
RUN_LABEL = f"{GROUP}/run"
"""On a DeadLetter: the run's name."""
BACKFILL_LABEL = f"{GROUP}/backfill"
"""On a DAGRun: the backfill that has made it, or has asked for another round of it."""
ROLE_LABEL = f"{GROUP}/role"
"""On a Lease: `shard`, `member` or `worker`."""
SHARDS_ANNOTATION = f"{GROUP}/shards"
"""On a shard's Lease: how many shards there are in this cluster."""
CLOCK_ANNOTATION = f"{GROUP}/clock"
"""On a member's Lease: `right`, or `wrong` where the replica does not trust its own wall clock."""
WAITING_ANNOTATION = f"{GROUP}/waiting"
"""On a member's Lease: of each pool for which its jobs wait, how high the best of them is, and since when it waits."""
MAILBOX_SEEN_ANNOTATION = f"{GROUP}/mailbox-seen"
"""On a worker's Lease: the resourceVersion of its Worker up to which it had acted when it renewed."""
POOL_LABEL = f"{GROUP}/pool"
"""On a Worker: its pool's name."""

SYSTEM_NAMESPACE_DEFAULT = "fencepost-system"
CATEGORY = "fencepost"


@dataclass(frozen=True, eq=False)
class Kind:
    """A resource of the API: enough to build its path. There is one of each, so they are compared by identity."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @cached_property
    def api_version(self) -> str:
        """As in an object's `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return self.plural


DAGS = Kind(GROUP, VERSION, "DAG", "dags")
DAG_RUNS = Kind(GROUP, VERSION, "DAGRun", "dagruns")
DEAD_LETTERS = Kind(GROUP, VERSION, "DeadLetter", "deadletters")
WORKER_POOLS = Kind(GROUP, VERSION, "WorkerPool", "workerpools", namespaced=False)
WORKERS = Kind(GROUP, VERSION, "Worker", "workers")
LEASES = Kind("coordination.k8s.io", "v1", "Lease", "leases")
CONTROLLER_REVISIONS = Kind("apps", "v1", "ControllerRevision", "controllerrevisions")
EVENTS = Kind("", "v1", "Event", "events")
PODS = Kind("", "v1", "Pod", "pods")
NAMESPACES = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
SECRETS = Kind("", "v1", "Secret", "secrets")
CONFIG_MAPS = Kind("", "v1", "ConfigMap", "configmaps")
SELF_SUBJECT_REVIEWS = Kind("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False)
