"""The epoch fence: a leader that was deposed while its write was on the way is refused by the API server.

A create has no resourceVersion to fail on, so a compare-and-swap cannot stop one that was frozen between deciding and
sending. The fence can: a policy whose parameter is the shard's Lease refuses whatever changes a run's status under an
epoch below that Lease's `leaseTransitions`. One binding a shard, chosen by the run's label, its Lease chosen by name.

It refuses everything for a shard that has no Lease: nobody leads that shard, so no write can be its leader's.
It reads Leases through an informer and is a few milliseconds behind, so it is a fence and not a proof.

The keeper is one more binding, which matches nothing and stays when the chart is uninstalled. Up to 1.36 at least, an
API server stops that informer for good when for one second no binding names its kind, and never says so: a fence that
is put back would know the Leases as they were then, until the server is restarted (kubernetes/kubernetes#130887).
"""

from typing import Any

from fencepost.api.names import DAG_RUNS, GROUP, LEASES, SHARD_LABEL, SYSTEM_NAMESPACE_DEFAULT
from fencepost.core.names import shard_lease_name

POLICY = "fencepost-epoch"
SHARD_POLICY = "fencepost-shard"
_API = "admissionregistration.k8s.io/v1"
_LABELS = {"app.kubernetes.io/name": "fencepost"}
_KEPT = {"helm.sh/resource-policy": "keep"}
_RUN_WRITES = {
    "resourceRules": [
        {"apiGroups": [GROUP], "apiVersions": ["*"], "resources": [DAG_RUNS.plural], "operations": ["CREATE", "UPDATE"]}
    ]
}

_EPOCH_RULE = (
    # asked first, as it is true of nearly every write and costs nothing
    "has(object.status) && object.status.epoch >= variables.epoch"
    # a person's change of a run that an earlier leader wrote last, or any other that leaves the status alone
    " || !has(object.status)"
    " || (oldObject != null && has(oldObject.status) && object.status == oldObject.status)"
)


def epoch_fence(shards: int) -> list[dict[str, Any]]:
    """The policies and bindings for this number of shards, as Kubernetes objects."""
    return [_epoch_policy(), _keeper(), *(_epoch_binding(shard) for shard in range(shards)), *_shard_policy(shards)]


def _epoch_policy() -> dict[str, Any]:
    spec = {
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": LEASES.api_version, "kind": LEASES.kind},
        "matchConstraints": _RUN_WRITES,
        "variables": [
            {
                "name": "epoch",
                "expression": "has(params.spec.leaseTransitions) ? params.spec.leaseTransitions : 0",
            }
        ],
        "validations": [
            {
                "expression": _EPOCH_RULE,
                "reason": "Forbidden",
                "messageExpression": (
                    "'shard ' + params.metadata.name + ' is led under epoch ' + string(variables.epoch)"
                    " + ': a write under epoch ' + string(object.status.epoch) + ' comes too late'"
                ),
                "message": "the shard is led under a higher epoch: this write comes too late",
            }
        ],
    }
    return _object("ValidatingAdmissionPolicy", POLICY, spec, _KEPT)


def _keeper() -> dict[str, Any]:
    return _object("ValidatingAdmissionPolicyBinding", f"{POLICY}-keeper", _binding(0, label="none"), _KEPT)


def _epoch_binding(shard: int) -> dict[str, Any]:
    return _object("ValidatingAdmissionPolicyBinding", f"{POLICY}-{shard}", _binding(shard, label=str(shard)))


def _binding(shard: int, label: str) -> dict[str, Any]:
    return {
        "policyName": POLICY,
        "validationActions": ["Deny"],
        "paramRef": {
            "name": shard_lease_name(shard),
            "namespace": SYSTEM_NAMESPACE_DEFAULT,
            "parameterNotFoundAction": "Deny",
        },
        "matchResources": {"objectSelector": {"matchLabels": {SHARD_LABEL: label}}},
    }


def _shard_policy(shards: int) -> list[dict[str, Any]]:
    """A run without the label of a shard that has a binding would pass every fence."""
    known = ", ".join(f"'{shard}'" for shard in range(shards))
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": _RUN_WRITES,
        "validations": [
            {
                "expression": (
                    f"!has(object.status) || (has(object.metadata.labels) && '{SHARD_LABEL}' in object.metadata.labels"
                    f" && object.metadata.labels['{SHARD_LABEL}'] in [{known}])"
                ),
                "reason": "Forbidden",
                "message": f"a run with a status carries the label {SHARD_LABEL} with a number below {shards}",
            }
        ],
    }
    binding = {"policyName": SHARD_POLICY, "validationActions": ["Deny"]}
    return [
        _object("ValidatingAdmissionPolicy", SHARD_POLICY, spec),
        _object("ValidatingAdmissionPolicyBinding", SHARD_POLICY, binding),
    ]


def _object(kind: str, name: str, spec: dict[str, Any], annotations: dict[str, str] | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": _LABELS}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": _API, "kind": kind, "metadata": metadata, "spec": spec}
