"""The kind WorkerPool: a set of worker slots, and how DAGs share them. Whoever may use a pool shares its rights."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from fencepost.api.schema import ATOMIC_LIST, WRITTEN_WHOLE, Conditions, Count, OnlyNow, Part, Timeout

NAMESPACES_MAX = 1000

Share = Annotated[str, StringConstraints(pattern="^([1-9][0-9]?|100)%$")]
NamespaceOrAny = Annotated[str, StringConstraints(pattern=r"^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$", max_length=63)]


class Ageing(Part):
    """Waiting raises a job's priority, so that no job waits for ever."""

    period: Timeout = "10m"
    """One priority for each such period, never into critical."""


class Reserved(Part):
    """Slots that stay free for critical jobs. Nobody else borrows them, however long they are idle."""

    critical: Share
    """How much of the live slots, rounded down; of any pool one slot at least stays open to all."""


class Namespaces(Part):
    """Whose DAGs may use the pool. All jobs on one worker run with its rights."""

    allow: Annotated[
        list[NamespaceOrAny], Field(min_length=1, max_length=NAMESPACES_MAX, json_schema_extra=ATOMIC_LIST)
    ] = Field(default=["*"])
    """Names of namespaces; `*` is all of them."""


class Secrets(Part):
    """Whose Secrets and ConfigMaps the pool's workers read for jobs. They need the right to it besides."""

    allow: Annotated[list[NamespaceOrAny], Field(max_length=NAMESPACES_MAX, json_schema_extra=ATOMIC_LIST)] = Field(
        default=[]
    )
    """Names of namespaces; `*` is all that the pool admits. None if left out."""


class WorkerPoolSpec(Part):
    """How the slots of the pool's workers are shared."""

    executor: Annotated[Literal["Workers", "Pods"], OnlyNow(("Workers",))] = "Workers"
    """Workers: long-lived processes that run job after job."""
    max_share_per_dag: Annotated[Share, Field(alias="maxSharePerDAG")] = "30%"
    """How much of the live slots the runs of one DAG may hold together; one slot at least."""
    ageing: Ageing = Ageing()
    namespaces: Namespaces = Namespaces()
    secrets: Secrets | None = None
    reserved: Reserved | None = None


class WorkerPoolStatus(Part):
    """What the operator sees of the pool."""

    model_config = ConfigDict(json_schema_extra=WRITTEN_WHOLE)

    observed_generation: Count | None = None
    conditions: Conditions | None = None
    workers: Count | None = None
    """Workers that live."""
    slots: Count | None = None
    """Theirs together."""
    reserved: Count | None = None
    """Those of them that are kept for critical jobs, taken or not."""
    busy: Count | None = None
    """Slots whose entry has no result yet."""
    free: Count | None = None
    """Slots that any job can take now: neither busy nor kept."""
    queued: Count | None = None
    """Jobs that wait for a slot."""


class WorkerPool(Part):
    """A set of worker slots that DAGs share."""

    spec: WorkerPoolSpec = WorkerPoolSpec()
    status: WorkerPoolStatus | None = None
