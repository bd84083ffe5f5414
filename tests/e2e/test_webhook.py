"""The validating webhook on the real API server: what no schema sees is refused at apply, as long as it is there."""

import base64
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.loops.webhook import PATH
from tests.e2e.controlplane.ports import free_ports
from tests.e2e.support.dags import Obj, dag, task
from tests.e2e.support.fleet import Member
from tests.e2e.support.install import kubectl
from tests.e2e.support.stage import Stage
from tests.unit.support.certificates import write_certificate

CONFIGURATION = "fencepost-dags"
CYCLE = "the tasks depend on each other: a -> b -> a; remove one edge"
REPLICA = "operator-webhook"


def cyclic(name: str) -> Obj:
    return dag(name, task("a", "b"), task("b", "a"))


def configuration(port: int, authority: Path) -> Obj:
    """As the chart makes it, but for the address, as there is no Service here."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": CONFIGURATION},
        "webhooks": [
            {
                "name": "dags.fencepost.dev",
                "clientConfig": {
                    "url": f"https://127.0.0.1:{port}{PATH}",
                    "caBundle": base64.b64encode(authority.read_bytes()).decode(),
                },
                "rules": [
                    {
                        "apiGroups": ["fencepost.dev"],
                        "apiVersions": ["v1alpha1"],
                        "resources": ["dags"],
                        "operations": ["CREATE", "UPDATE"],
                    }
                ],
                "matchConditions": [
                    {"name": "spec-has-changed", "expression": "oldObject == null || object.spec != oldObject.spec"}
                ],
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Ignore",
                "timeoutSeconds": 5,
            }
        ],
    }


@pytest.fixture(scope="module")
def webhook(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    """A replica that serves the webhook with a certificate of this test's own; the API server knows of it."""
    certificate, key = write_certificate(tmp_path_factory.mktemp("certificate"))
    [port] = free_ports(1)
    member = stage.fleet.operator(REPLICA, webhook_cert=certificate, webhook_key=key, webhook_port=port)
    admin = stage.fleet.fencepost.admin_kubeconfig
    kubectl(admin, "create", "--filename=-", stdin=json.dumps(configuration(port, certificate)))
    stage.wait("the API server asks the webhook", lambda: _refuses(stage, cyclic("probe")))
    yield member
    kubectl(admin, "delete", "validatingwebhookconfigurations", CONFIGURATION)
    if REPLICA in stage.fleet.members:
        stage.fleet.members.pop(REPLICA).process.end(10.0)


def _refuses(stage: Stage, obj: Obj) -> bool:
    """Whether a DAG is refused; nothing is stored in any case."""
    try:
        stage.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps(obj))
    except Exception:
        return True
    return False


def test_a_dag_that_no_schema_refuses_is_refused_at_apply_with_path_fact_and_remedy(
    stage: Stage, webhook: Member
) -> None:
    said = stage.refusal("apply", "--filename=-", stdin=json.dumps(cyclic("round-and-round")))
    assert "dags.fencepost.dev" in said
    assert f"spec.tasks: {CYCLE}" in said


def test_a_good_dag_goes_through_and_runs(stage: Stage, webhook: Member) -> None:
    run = stage.launch(dag("admitted", task("a", command=["true"])))
    stage.wait_for_phase(run, "Succeeded")
    assert webhook.metric("fencepost_admission_reviews_total", allowed="true") >= 1


def test_an_edit_that_breaks_a_dag_is_refused_and_the_dag_stays_as_it_was(stage: Stage, webhook: Member) -> None:
    stage.apply(dag("edited-in-vain", task("a", command=["true"])))
    patch = json.dumps({"spec": {"schedule": {"cron": ["61 * * * *"]}}})
    said = stage.refusal("patch", "dag", "edited-in-vain", "--type=merge", f"--patch={patch}")
    assert "'61' in the minute field is outside 0 to 59" in said
    assert "schedule" not in stage.dag("edited-in-vain")["spec"]


def test_a_schedule_that_never_fires_is_let_through_with_a_warning(stage: Stage, webhook: Member) -> None:
    never = dag("leap-day-and-one", task("a", command=["true"])) | {}
    never["spec"]["schedule"] = {"cron": ["0 3 30 2 *"]}
    command = ["create", "--dry-run=server", "--output=name", "--filename=-", "--warnings-as-errors"]
    assert "it never fires" in stage.refusal(*command, stdin=json.dumps(never))


def test_without_the_webhook_the_condition_says_the_same(stage: Stage, webhook: Member) -> None:
    """The last of these stories, as it ends the replica that answers."""
    webhook.process.send(signal.SIGTERM)
    stage.wait("nobody answers any more", lambda: not _refuses(stage, cyclic("probe")))
    stage.fleet.members.pop(REPLICA).process.end(10.0)
    name = stage.apply(cyclic("let-through"))
    [condition] = stage.wait_for_dag(name, "conditions")["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "Cycle")
    assert CYCLE in condition["message"]
    labelled = json.dumps({"metadata": {"labels": {"team": "etl"}}})
    stage.kubectl("patch", "dag", name, "--type=merge", f"--patch={labelled}")
