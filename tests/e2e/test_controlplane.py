"""The control plane does what the other tests build on, survives the drills, and cleans up after itself."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kubernetes
import pytest

from tests.e2e.controlplane import Component, ComponentFailed, ControlPlane, ControlPlaneError, PortInUse, eventually
from tests.e2e.controlplane.binaries import binary_folder
from tests.e2e.controlplane.cluster import standing_cluster
from tests.e2e.controlplane.paths import CACHE_VARIABLE, REPOSITORY, cache_folder
from tests.e2e.controlplane.ports import LOOPBACK, Ports, free_ports
from tests.e2e.controlplane.processes import Process

client: Any = kubernetes.client  # its types make every field of every answer optional
config: Any = kubernetes.config

END_LIMIT_S = 20.0
COMMAND = [sys.executable, "-m", "tests.e2e.controlplane"]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("controlplane")) as started:
        yield started


@pytest.fixture
def api(plane: ControlPlane) -> Iterator[Any]:
    with connect(plane.kubeconfig) as connection:
        yield connection


def connect(kubeconfig: Path) -> Any:
    return config.new_client_from_config(config_file=str(kubeconfig))


def is_gone(read: Callable[[], Any]) -> bool:
    try:
        read()
    except client.ApiException as refusal:
        if refusal.status == 404:
            return True
        raise
    return False


def config_map(name: str, owner: Any = None) -> Any:
    owners = None
    if owner is not None:
        reference = client.V1OwnerReference(
            api_version="v1", kind="ConfigMap", name=owner.metadata.name, uid=owner.metadata.uid
        )
        owners = [reference]
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, owner_references=owners))


def bound_token(core: Any, pod: Any, account: str) -> str:
    """What `kubectl create token --bound-object-kind Pod` asks for."""
    reference = client.V1BoundObjectReference(
        api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid
    )
    request = client.AuthenticationV1TokenRequest(
        spec=client.V1TokenRequestSpec(audiences=["https://kubernetes.default.svc"], bound_object_ref=reference)
    )
    answer = core.create_namespaced_service_account_token(account, pod.metadata.namespace, request)
    return str(answer.status.token)


# What the other tests build on


def test_an_object_goes_when_its_owner_goes(api: Any) -> None:
    core = client.CoreV1Api(api)
    owner = core.create_namespaced_config_map("default", config_map("owner"))
    core.create_namespaced_config_map("default", config_map("owned", owner))

    core.delete_namespaced_config_map("owner", "default")

    assert eventually("owned is gone", lambda: is_gone(lambda: core.read_namespaced_config_map("owned", "default")))


def test_a_deleted_namespace_goes_with_all_that_is_in_it(api: Any) -> None:
    core = client.CoreV1Api(api)
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="doomed")))
    core.create_namespaced_config_map("doomed", config_map("inside"))

    core.delete_namespace("doomed")

    assert eventually("doomed is gone", lambda: is_gone(lambda: core.read_namespace("doomed")))


def test_a_role_adds_its_rules_to_the_role_that_aggregates_it(api: Any) -> None:
    rbac = client.RbacAuthorizationV1Api(api)
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    rule = client.V1PolicyRule(api_groups=["fencepost.dev"], resources=["dags"], verbs=["get"])
    role = client.V1ClusterRole(metadata=client.V1ObjectMeta(name="dag-viewer", labels=labels), rules=[rule])

    rbac.create_cluster_role(role)

    def viewers_see_dags() -> bool:
        return any("fencepost.dev" in (each.api_groups or []) for each in rbac.read_cluster_role("view").rules)

    assert eventually("the role view names DAGs", viewers_see_dags)


def test_a_bound_token_carries_the_name_of_its_pod(plane: ControlPlane, api: Any, tmp_path: Path) -> None:
    core = client.CoreV1Api(api)
    container = client.V1Container(name="worker", image="none")
    pod = core.create_namespaced_pod(
        "default",
        client.V1Pod(
            metadata=client.V1ObjectMeta(name="worker-0"),
            spec=client.V1PodSpec(containers=[container], service_account_name="default"),
        ),
    )
    token = bound_token(core, pod, "default")

    restricted = plane.kubeconfig_for_token(tmp_path / "worker", token, "worker")

    with connect(restricted) as connection:
        review = client.AuthenticationV1Api(connection).create_self_subject_review(client.V1SelfSubjectReview())
        assert review.status.user_info.username == "system:serviceaccount:default:default"
        assert review.status.user_info.extra["authentication.kubernetes.io/pod-name"] == ["worker-0"]
        with pytest.raises(client.ApiException, match="Forbidden"):
            client.CoreV1Api(connection).list_namespaced_secret("kube-system")


def test_a_deployment_makes_its_pods(api: Any) -> None:
    labels = {"app": "pool"}
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels),
        spec=client.V1PodSpec(containers=[client.V1Container(name="worker", image="none")]),
    )
    spec = client.V1DeploymentSpec(replicas=2, selector=client.V1LabelSelector(match_labels=labels), template=template)
    client.AppsV1Api(api).create_namespaced_deployment(
        "default", client.V1Deployment(metadata=client.V1ObjectMeta(name="pool"), spec=spec)
    )

    def pods() -> list[Any]:
        return list(client.CoreV1Api(api).list_namespaced_pod("default", label_selector="app=pool").items)

    assert eventually("the pool has two Pods", lambda: len(pods()) == 2)


def test_the_server_tells_the_version_that_go_mod_pins(api: Any) -> None:
    pinned = (Path(__file__).parent / "controlplane/kubernetes/go.mod").read_text()

    assert f"k8s.io/kubernetes {client.VersionApi(api).get_code().git_version}\n" in pinned


# Drills


def test_a_restart_of_the_api_server_keeps_its_data_and_its_address(plane: ControlPlane, api: Any) -> None:
    client.CoreV1Api(api).create_namespaced_config_map("default", config_map("kept"))
    before, server = plane.pids, plane.server

    plane.restart_apiserver()

    assert plane.server == server
    assert plane.pids[Component.APISERVER] != before[Component.APISERVER]
    with connect(plane.kubeconfig) as again:
        assert client.CoreV1Api(again).read_namespaced_config_map("kept", "default")


def test_a_killed_api_server_comes_back(plane: ControlPlane) -> None:
    plane.kill(Component.APISERVER)
    assert Component.APISERVER not in plane.pids
    assert not plane.ready

    plane.start_component(Component.APISERVER)

    assert plane.ready


def test_a_paused_etcd_makes_the_control_plane_unready_until_it_goes_on(plane: ControlPlane) -> None:
    plane.pause(Component.ETCD)
    try:
        assert plane.paused(Component.ETCD)
        assert not plane.ready
    finally:
        plane.resume(Component.ETCD)

    assert eventually("the control plane is ready", lambda: plane.ready)


def test_a_second_start_is_refused_and_harms_nothing(plane: ControlPlane) -> None:
    before = plane.pids

    with pytest.raises(ControlPlaneError, match="runs already"):
        ControlPlane(plane.state_dir).start()

    assert plane.pids == before


# Beginning and end


def processes_of(plane: ControlPlane) -> list[Process]:
    return [Process.of(pid) for pid in plane.pids.values()]


def test_stop_leaves_no_process_and_the_next_start_finds_the_data(tmp_path: Path) -> None:
    plane = ControlPlane(tmp_path)
    plane.start()
    server, processes = plane.server, processes_of(plane)
    assert len(processes) == len(Component)
    with connect(plane.kubeconfig) as connection:
        client.CoreV1Api(connection).create_namespaced_config_map("default", config_map("kept"))

    plane.pause(Component.ETCD)  # a paused component ends too
    plane.stop()

    assert not any(process.running for process in processes)
    assert plane.pids == {}
    with plane:
        assert plane.server == server
        with connect(plane.kubeconfig) as connection:
            assert client.CoreV1Api(connection).read_namespaced_config_map("kept", "default")


@pytest.mark.parametrize("asked", ["port", "etcd_port"])
def test_a_port_asked_for_by_number_and_in_use_is_named(tmp_path: Path, asked: str) -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        number = other.getsockname()[1]
        plane = ControlPlane(tmp_path, **{asked: number})

        with pytest.raises(PortInUse, match=rf"port {number} .* in use"):
            plane.start()

    assert plane.pids == {}


@pytest.mark.parametrize("lost", ["apiserver", "etcd"])
def test_a_port_that_is_lost_after_the_probe_means_other_ports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    with socket.create_server((LOOPBACK, 0)) as thief:
        first = dataclasses.replace(Ports(*free_ports(5)), **{lost: thief.getsockname()[1]})
        second = Ports(*free_ports(5))
        choices = [first, second]
        monkeypatch.setattr("tests.e2e.controlplane.plane.choose_ports", lambda *_: choices.pop(0))

        with ControlPlane(tmp_path) as plane:
            assert plane.ready
            assert plane.server == f"https://{LOOPBACK}:{second.apiserver}"


def test_a_component_that_dies_at_its_start_is_quoted_and_nothing_is_left(tmp_path: Path) -> None:
    plane = ControlPlane(tmp_path, extra_flags={Component.APISERVER: ["--no-such-flag"]})

    with pytest.raises(ComponentFailed, match=r"(?s)kube-apiserver ended by itself with code 1; .*unknown flag"):
        plane.start()

    assert plane.pids == {}


STARTED_BY_A_THREAD = """
import json, pathlib, sys, threading, time
from tests.e2e.controlplane import ControlPlane
plane = ControlPlane(pathlib.Path(sys.argv[1]))
thread = threading.Thread(target=plane.start)
thread.start()
thread.join()  # the thread that started it is gone now
print(json.dumps({"pids": list(plane.pids.values()), "ready": plane.ready}), flush=True)
threading.Event().wait()
"""


def test_it_outlives_the_thread_that_started_it_but_not_the_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTED_BY_A_THREAD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as owner:
        assert owner.stdout is not None
        told = json.loads(owner.stdout.readline())
        processes = [Process.of(pid) for pid in told["pids"]]
        owner.send_signal(signal.SIGKILL)

    assert told["ready"]
    assert len(processes) == len(Component)
    assert all(process.wait(END_LIMIT_S) for process in processes)


# The command


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder of our own that lends the binaries of the real one; its cluster is stopped at the end."""
    built = binary_folder()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    monkeypatch.delenv("FENCEPOST_TEST_KUBECONFIG", raising=False)
    lent = cache_folder() / built.parent.name
    lent.mkdir(parents=True)
    (lent / "bin").symlink_to(built)
    yield tmp_path
    standing_cluster().stop()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_up_stays_until_down_and_keeps_its_data_unless_fresh(cache: Path) -> None:
    first = run("up")
    assert first.returncode == 0, first.stderr
    kubeconfig = cache / "controlplane/cluster/kubeconfig"
    assert first.stdout == f"export KUBECONFIG={kubeconfig}\n"
    plane = standing_cluster()
    pids, processes = plane.pids, processes_of(plane)
    assert plane.ready
    with connect(kubeconfig) as connection:
        client.CoreV1Api(connection).create_namespaced_config_map("default", config_map("kept"))

    again = run("up")
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert "already up" in again.stderr
    assert plane.pids == pids
    assert run("status").returncode == 0

    assert run("down").returncode == 0
    assert plane.pids == {}
    assert not any(process.running for process in processes)
    assert run("status").returncode == 3

    assert run("up").returncode == 0
    with connect(kubeconfig) as connection:
        assert client.CoreV1Api(connection).read_namespaced_config_map("kept", "default")

    assert run("up", "--fresh").returncode == 0
    with connect(kubeconfig) as connection:
        assert is_gone(lambda: client.CoreV1Api(connection).read_namespaced_config_map("kept", "default"))


def test_up_uses_a_cluster_that_the_environment_names(
    plane: ControlPlane, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENCEPOST_TEST_KUBECONFIG", str(plane.kubeconfig))

    done = run("up")

    assert done.returncode == 0, done.stderr
    assert done.stdout == f"export KUBECONFIG={plane.kubeconfig}\n"
    assert standing_cluster().pids == {}


def test_up_says_when_the_cluster_that_the_environment_names_does_not_answer(
    plane: ControlPlane, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = cache / "silent"
    silent.write_text(plane.kubeconfig.read_text().replace(plane.server, f"https://{LOOPBACK}:{free_ports(1)[0]}"))
    monkeypatch.setenv("FENCEPOST_TEST_KUBECONFIG", str(silent))

    done = run("up")

    assert (done.returncode, done.stdout) == (1, "")
    assert "does not answer" in done.stderr
    assert os.linesep not in done.stderr.strip()
