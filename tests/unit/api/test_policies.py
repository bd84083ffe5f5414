"""The policies and roles agree with the code about names and numbers. What they refuse is tried on a real server."""

import re
from pathlib import Path
from typing import Any

import yaml

from fencepost.api.names import GROUP, SYSTEM_NAMESPACE_DEFAULT
from fencepost.core.names import NONCE_LENGTH, SHARDS_DEFAULT, member_lease_name, shard_lease_name

FILES = Path(__file__).parents[3] / "charts/fencepost/files"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FILES / name).read_text()))


def policy(name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        each["spec"]
        for each in documents("policies.yaml")
        if each["kind"] == "ValidatingAdmissionPolicy" and each["metadata"]["name"] == name
    )
    return found


def expressions(name: str) -> str:
    spec = policy(name)
    return "\n".join(each["expression"] for each in (*spec.get("variables", ()), *spec["validations"]))


def shard_bindings() -> list[dict[str, Any]]:
    return [each["spec"] for each in documents("shard-bindings.yaml")]


def test_each_shard_is_bound_by_its_label_to_its_own_lease_and_refused_without_one() -> None:
    bound = {
        each["matchResources"]["objectSelector"]["matchLabels"][f"{GROUP}/shard"]: each["paramRef"]
        for each in shard_bindings()
        if "paramRef" in each
    }

    assert bound == {
        str(shard): {
            "name": shard_lease_name(shard),
            "namespace": SYSTEM_NAMESPACE_DEFAULT,
            "parameterNotFoundAction": "Deny",
        }
        for shard in range(SHARDS_DEFAULT)
    }


def test_runs_without_a_shard_are_bound_as_well() -> None:
    (unsharded,) = (each for each in shard_bindings() if "paramRef" not in each)
    (selector,) = unsharded["matchResources"]["objectSelector"]["matchExpressions"]

    assert selector["operator"] == "NotIn"
    assert selector["values"] == [str(shard) for shard in range(SHARDS_DEFAULT)]


def test_a_status_is_taken_only_with_the_label_of_a_shard_that_is_bound() -> None:
    (pattern,) = re.findall(r"variables\.shard\.matches\('(.*?)'\)", expressions("fencepost-runs"))

    assert [number for number in range(-1, 200) if re.search(pattern, str(number))] == list(range(SHARDS_DEFAULT))


def test_the_policies_know_the_names_of_leases_and_the_length_of_a_nonce() -> None:
    leases = expressions("fencepost-leases")

    assert f"startsWith('{shard_lease_name(0).removesuffix('0')}')" in leases
    assert f"startsWith('{member_lease_name('')}')" in leases
    for text in (leases, expressions("fencepost-workers")):
        assert f"size(variables.pod) + {NONCE_LENGTH + 1}" in text


def test_whatever_a_policy_refuses_is_forbidden_but_for_the_laws_of_runs_and_says_why() -> None:
    refusing = [policy(name) for name in ("fencepost-runs", "fencepost-workers", "fencepost-leases")]
    laws, *rest = (validation for each in refusing for validation in each["validations"])

    assert all(each["failurePolicy"] == "Fail" for each in refusing)
    assert (laws["reason"], laws["messageExpression"]) == ("Invalid", "variables.wrong")
    assert all(validation["reason"] == "Forbidden" and validation["message"] for validation in rest)


def test_every_policy_is_bound() -> None:
    policies = {each["metadata"]["name"] for each in documents("policies.yaml") if each["kind"].endswith("Policy")}
    bindings = [*documents("policies.yaml"), *documents("shard-bindings.yaml")]

    assert {each["spec"]["policyName"] for each in bindings if each["kind"].endswith("Binding")} == policies


def test_the_informer_of_leases_outlives_the_chart() -> None:
    kept = [each for each in documents("policies.yaml") if "annotations" in each["metadata"]]

    assert [each["kind"].removeprefix("ValidatingAdmission") for each in kept] == ["Policy", "PolicyBinding"]
    assert all(each["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"} for each in kept)
    assert policy("fencepost-keeper")["paramKind"] == policy("fencepost-runs")["paramKind"]


def test_no_role_of_ours_uses_a_wildcard_and_none_of_a_person_writes_a_status() -> None:
    roles = {each["metadata"]["name"]: each["rules"] for each in documents("rbac.yaml") if "rules" in each}
    words = [word for rules in roles.values() for each in rules for words in each.values() for word in words]

    assert "*" not in words
    for name in ("fencepost-view", "fencepost-edit"):
        assert not [resource for each in roles[name] for resource in each["resources"] if "/" in resource]


def test_the_chart_lets_each_account_serve_its_own_pool_and_kubectl_lets_the_one_that_there_is_serve_all() -> None:
    """Only the second stands in a file that the chart leaves out."""
    chart = (FILES.parent / "templates" / "cluster.yaml").read_text()
    assert {file.stem for file in FILES.glob("*.yaml") if f'"{file.stem}"' not in chart} == {
        "namespace",
        "serve-any-pool",
    }
    granted = [rule for each in documents("serve-any-pool.yaml") for rule in each.get("rules", ())]
    assert granted == [{"apiGroups": [GROUP], "resources": ["workerpools"], "verbs": ["serve"]}]
    verbs = {verb for each in documents("rbac.yaml") for rule in each.get("rules", ()) for verb in rule["verbs"]}
    assert "serve" not in verbs
    assert ".check('serve')" in expressions("fencepost-workers")


def test_every_account_of_ours_renews_its_leases_apart_from_bulk_work() -> None:
    schema = next(each["spec"] for each in documents("flow-control.yaml") if each["kind"] == "FlowSchema")
    (subject,) = schema["rules"][0]["subjects"]
    assert subject == {"kind": "Group", "group": {"name": f"system:serviceaccounts:{SYSTEM_NAMESPACE_DEFAULT}"}}
    assert schema["distinguisherMethod"] == {"type": "ByUser"}


def test_every_name_of_the_namespace_can_be_replaced_as_a_word() -> None:
    for file in FILES.glob("*.yaml"):
        names = re.findall(rf"[\w-]*{SYSTEM_NAMESPACE_DEFAULT}[\w-]*", file.read_text())
        assert set(names) <= {SYSTEM_NAMESPACE_DEFAULT}
