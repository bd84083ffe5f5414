"""The CustomResourceDefinitions, derived from the models: what `kubectl get` shows, and which names are allowed."""

from dataclasses import dataclass
from typing import Any

from fencepost.api.dag_models import DAG
from fencepost.api.letter_models import DeadLetter
from fencepost.api.names import CATEGORY, DAG_RUNS, DAGS, DEAD_LETTERS, GROUP, VERSION, WORKER_POOLS, WORKERS, Kind
from fencepost.api.pool_models import WorkerPool
from fencepost.api.run_models import DAGRun
from fencepost.api.schema import NAME_LENGTH_MAX, NAME_PATTERN, Part
from fencepost.api.structural import Schema, structural
from fencepost.api.worker_models import Worker
from fencepost.core.names import DAG_NAME_LENGTH_MAX, WORKER_NAME_LENGTH_MAX


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    """`date` is shown as an age, and only for the past."""

    def as_json(self) -> dict[str, str]:
        return {"name": self.name, "type": self.type, "jsonPath": self.path}


@dataclass(frozen=True, slots=True)
class Resource:
    """All that a CRD says beside the schema of its model."""

    kind: Kind
    model: type[Part]
    name_length_max: int
    short_names: tuple[str, ...]
    status_subresource: bool
    columns: tuple[Column, ...]


AGE = Column("Age", ".metadata.creationTimestamp", "date")

RESOURCES = (
    Resource(
        DAGS,
        DAG,
        name_length_max=DAG_NAME_LENGTH_MAX,
        short_names=(),
        status_subresource=True,
        columns=(
            Column("Schedule", ".status.schedule"),
            Column("Zone", ".spec.schedule.timeZone"),
            Column("Suspended", ".spec.suspend", "boolean"),
            Column("Last", ".status.lastScheduledTime", "date"),
            Column("Next", ".status.nextScheduledTime"),
            Column("Active", ".status.active", "integer"),
            Column("State", ".status.state"),
        ),
    ),
    Resource(
        DAG_RUNS,
        DAGRun,
        name_length_max=NAME_LENGTH_MAX,
        short_names=("dr",),
        status_subresource=False,
        columns=(
            Column("DAG", ".spec.dag"),
            Column("Phase", ".status.phase"),
            Column("Done", ".status.done"),
            Column("Reason", ".status.message"),
            AGE,
            Column("Duration", ".status.duration"),
        ),
    ),
    Resource(
        DEAD_LETTERS,
        DeadLetter,
        name_length_max=NAME_LENGTH_MAX,
        short_names=("dl",),
        status_subresource=True,
        columns=(
            Column("DAG", ".spec.job.dag"),
            Column("Run", ".spec.job.run"),
            Column("Task", ".spec.job.task"),
            Column("Index", ".spec.job.index", "integer"),
            Column("Reason", ".spec.job.reason"),
            Column("Attempts", ".spec.job.attempt", "integer"),
            Column("Replay", ".status.phase"),
            AGE,
        ),
    ),
    Resource(
        WORKER_POOLS,
        WorkerPool,
        name_length_max=NAME_LENGTH_MAX,
        short_names=("wp",),
        status_subresource=True,
        columns=(
            Column("Workers", ".status.workers", "integer"),
            Column("Slots", ".status.slots", "integer"),
            Column("Reserved", ".status.reserved", "integer"),
            Column("Busy", ".status.busy", "integer"),
            Column("Free", ".status.free", "integer"),
            Column("Queued", ".status.queued", "integer"),
            AGE,
        ),
    ),
    Resource(
        WORKERS,
        Worker,
        name_length_max=WORKER_NAME_LENGTH_MAX,
        short_names=(),
        status_subresource=True,
        columns=(
            Column("Pool", ".spec.pool"),
            Column("Slots", ".spec.slots", "integer"),
            Column("Reserved", ".spec.reservedSlots", "integer"),
            Column("Fenced", ".spec.fenced", "boolean"),
            AGE,
        ),
    ),
)


def crd(resource: Resource) -> dict[str, Any]:
    """The CustomResourceDefinition of one kind, as JSON."""
    kind = resource.kind
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root_schema(resource)},
        "additionalPrinterColumns": [column.as_json() for column in resource.columns],
    }
    if resource.status_subresource:
        version["subresources"] = {"status": {}}
    names = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
        "categories": [CATEGORY],
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": names,
            "versions": [version],
        },
    }


def _root_schema(resource: Resource) -> Schema:
    root = structural(resource.model.model_json_schema(by_alias=True))
    # the length makes rules about the name affordable, and a DAG's name leave room for the seconds in a run's
    name = {"type": "string", "maxLength": resource.name_length_max, "pattern": NAME_PATTERN}
    envelope = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object", "properties": {"name": name}},
    }
    return {**root, "properties": {**envelope, **root["properties"]}}
