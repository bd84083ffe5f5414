"""The epoch fence: a leader that was deposed while its write was on the way is refused by the API server.

A create has no resourceVersion to fail on, so a compare-and-swap cannot stop one that was frozen between deciding and
sending. The fence can: the policy `fencepost-runs` is bound once for each shard, chosen by the run's label, with the
shard's Lease as its parameter, chosen by name; it refuses whatever changes a run's status under an epoch below that
Lease's `leaseTransitions`. One more binding, without a parameter, is for runs that belong to no shard.

A shard without a Lease refuses everything: nobody leads it, so no write can be its leader's.
Leases come through an informer and are a few milliseconds old, so this is a fence and not a proof.
"""

from typing import Any

from fencepost.api.names import SHARD_LABEL, SYSTEM_NAMESPACE_DEFAULT
from fencepost.core.names import shard_lease_name

POLICY = "fencepost-runs"


def shard_bindings(shards: int) -> list[dict[str, Any]]:
    """The bindings of the policy for this number of shards, as Kubernetes objects."""
    numbers = [str(shard) for shard in range(shards)]
    return [_unsharded_binding(numbers), *(_shard_binding(number) for number in numbers)]


def _unsharded_binding(numbers: list[str]) -> dict[str, Any]:
    selector = {"matchExpressions": [{"key": SHARD_LABEL, "operator": "NotIn", "values": numbers}]}
    return _binding(f"{POLICY}-unsharded", selector)


def _shard_binding(number: str) -> dict[str, Any]:
    lease = {
        "name": shard_lease_name(int(number)),
        "namespace": SYSTEM_NAMESPACE_DEFAULT,
        "parameterNotFoundAction": "Deny",
    }
    return _binding(f"{POLICY}-{number}", {"matchLabels": {SHARD_LABEL: number}}, paramRef=lease)


def _binding(name: str, selector: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "fencepost"}},
        "spec": {
            "policyName": POLICY,
            "validationActions": ["Deny"],
            **more,
            "matchResources": {"objectSelector": selector},
        },
    }
