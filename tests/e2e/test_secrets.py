"""Values from Secrets on the real API server: who may read them, who gets them, and that nothing else holds them."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.api import names as wire
from tests.e2e.support.dags import NAMESPACE, Obj, dag, pool, task
from tests.e2e.support.install import kubectl
from tests.e2e.support.stage import Stage

POOL = "confidential"
PASSWORD = "correct-horse-battery-staple"
HIDDEN = base64.b64encode(PASSWORD.encode()).decode()
FROM_SECRET = {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}
FROM_CONFIG_MAP = {"name": "REGION", "valueFrom": {"configMapKeyRef": {"name": "site", "key": "region"}}}
KEPT = ("dagruns", "controllerrevisions", "events", "dags")
"""What Fencepost writes in a user's namespace."""


def granted() -> list[Obj]:
    """As the chart grants it to a pool's workers: to get the Secrets and ConfigMaps of one namespace."""
    rbac = "rbac.authorization.k8s.io"
    meta = {"name": "worker-secrets", "namespace": NAMESPACE}
    account = {"kind": "ServiceAccount", "name": "fencepost-worker", "namespace": wire.SYSTEM_NAMESPACE_DEFAULT}
    rules = [{"apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": ["get"]}]
    reference = {"apiGroup": rbac, "kind": "Role", "name": meta["name"]}
    return [
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": meta, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": reference,
            "subjects": [account],
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**meta, "name": "db"},
            "stringData": {"password": PASSWORD},
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**meta, "name": "site"}, "data": {"region": "eu"}},
    ]


@pytest.fixture(scope="module")
def confidential(stage: Stage) -> Iterator[None]:
    """A pool whose workers may read the Secrets of the tests' namespace, with one worker."""
    admin = stage.fleet.fencepost.admin_kubeconfig
    kubectl(admin, "apply", "--filename=-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": granted()}))
    made = pool(POOL)
    made["spec"]["secrets"] = {"allow": [NAMESPACE]}
    stage.admin.create(made)
    stage.worker("confidential-0", pool=POOL, slots=2)
    stage.wait_for_slots(POOL, 2)
    yield
    stage.dismiss("confidential-0")
    stage.admin.delete(wire.WORKER_POOLS, POOL)


def tells_its_environment(file: Path) -> list[str]:
    return ["sh", "-c", f"env > {file}.part && mv {file}.part {file}"]


def test_a_job_gets_the_values_and_nothing_else_does(stage: Stage, confidential: None, tmp_path: Path) -> None:
    trusted, other = tmp_path / "trusted", tmp_path / "other"
    tasks = [
        task("trusted", command=tells_its_environment(trusted), env=[FROM_SECRET, FROM_CONFIG_MAP]),
        task("other", command=tells_its_environment(other)),
    ]
    run = stage.launch(dag("with-secrets", *tasks, pool=POOL))
    stage.wait_for_phase(run, "Succeeded")
    assert {f"PASSWORD={PASSWORD}", "REGION=eu"} <= set(trusted.read_text().splitlines())
    assert PASSWORD not in other.read_text(), "a job sees its own values alone"
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "FENCEPOST_KUBECONFIG"):
        assert f"{name}=" not in trusted.read_text(), "the way to the API server is none of a job's business"
    kubeconfig = str(stage.fleet.fencepost.worker_kubeconfig("confidential-0"))
    assert kubeconfig not in trusted.read_text()
    written = [stage.kubectl("get", kind, "--output=json") for kind in KEPT]
    written.append(json.dumps(stage.admin.all_of(wire.WORKERS, wire.SYSTEM_NAMESPACE_DEFAULT)))
    written += [member.log.read_text() for member in stage.fleet.members.values()]
    assert run in written[0]
    assert not [text for text in written if PASSWORD in text or HIDDEN in text]


def test_a_pool_that_does_not_allow_it_reads_nothing_though_its_workers_could(stage: Stage, confidential: None) -> None:
    run = stage.launch(dag("not-allowed", task("a", command=["true"], env=[FROM_SECRET])))
    status = stage.wait_for_phase(run, "Failed")
    assert "does not let its workers read Secrets and ConfigMaps" in status["failures"]["a/0"]


def test_a_secret_that_is_not_there_fails_the_attempt_with_its_name(stage: Stage, confidential: None) -> None:
    absent = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "token"}}}
    run = stage.launch(dag("absent-secret", task("a", command=["true"], env=[absent]), pool=POOL))
    status = stage.wait_for_phase(run, "Failed")
    assert f"Secret {NAMESPACE}/absent, from which TOKEN comes, does not exist" in status["failures"]["a/0"]
