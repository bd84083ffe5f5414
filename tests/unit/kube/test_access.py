"""Where the server is and who we are, read from kubeconfigs and from a pod's files."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from fencepost.kube.access import AccessError, access_default, access_from_kubeconfig, access_in_cluster


def write_kubeconfig(
    path: Path, *, name: str = "here", cluster: Any = None, user: Any = None, current: str = ""
) -> Path:
    content = {
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443/", **(cluster or {})}}],
        "users": [{"name": f"{name}-user", "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": f"{name}-user", "namespace": f"{name}-ns"}}],
        "current-context": current,
    }
    path.write_text(yaml.safe_dump(content))
    return path


def test_a_kubeconfig_names_server_user_and_namespace(tmp_path: Path) -> None:
    access = access_from_kubeconfig(write_kubeconfig(tmp_path / "config", current="here", user={"token": "secret"}))
    assert (access.server, access.user, access.namespace) == ("https://here:6443", "here-user", "here-ns")
    assert access.token == "secret"
    assert "secret" not in repr(access)


def test_certificates_may_be_inside_or_in_files_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "client.pem").write_text("CERTIFICATE")
    access = access_from_kubeconfig(
        write_kubeconfig(
            tmp_path / "config",
            current="here",
            cluster={"certificate-authority-data": base64.b64encode(b"AUTHORITY").decode()},
            user={"client-certificate": "client.pem", "client-key-data": base64.b64encode(b"KEY").decode()},
        )
    )
    assert (access.authority, access.certificate, access.key) == ("AUTHORITY", "CERTIFICATE", "KEY")


def test_token_files_and_plugins_are_found_beside_the_kubeconfig(tmp_path: Path) -> None:
    exec = {"command": "./plugin", "args": ["--x"], "env": [{"name": "A", "value": "b"}], "apiVersion": "v9"}
    access = access_from_kubeconfig(
        write_kubeconfig(tmp_path / "config", current="here", user={"tokenFile": "token", "exec": exec})
    )
    assert access.token_file == tmp_path / "token"
    assert access.exec is not None
    assert access.exec.command == (f"{tmp_path}/./plugin", "--x") or access.exec.command == (
        f"{tmp_path}/plugin",
        "--x",
    )
    assert (dict(access.exec.env), access.exec.api_version) == ({"A": "b"}, "v9")


def test_several_kubeconfigs_are_one_and_the_first_word_counts(tmp_path: Path) -> None:
    first = write_kubeconfig(tmp_path / "first", name="one", user={"token": "first"})
    second = write_kubeconfig(tmp_path / "second", name="two", current="two", user={"token": "second"})
    missing = tmp_path / "missing"
    environ = {"KUBECONFIG": f"{missing}:{first}:{second}"}
    assert access_default(environ=environ).token == "second"
    assert access_default("one", environ=environ).token == "first"


def test_without_a_kubeconfig_a_pod_is_its_service_account(tmp_path: Path) -> None:
    for name, content in {"token": "t", "ca.crt": "AUTHORITY", "namespace": "fencepost-system\n"}.items():
        (tmp_path / name).write_text(content)
    access = access_in_cluster(tmp_path, {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"})
    assert (access.server, access.namespace) == ("https://[fd00::1]:443", "fencepost-system")
    assert access.token_file == tmp_path / "token"


@pytest.mark.parametrize(
    ("user", "cluster", "current", "want"),
    [
        ({}, {}, "", "no current context"),
        ({}, {}, "other", "no context 'other'.*it has: here"),
        ({"auth-provider": {"name": "gcp"}}, {}, "here", "sets auth-provider"),
        ({}, {"proxy-url": "http://proxy"}, "here", "sets proxy-url"),
        ({"client-certificate": "gone.pem"}, {}, "here", "gone.pem cannot be read"),
        ({"client-key-data": "***"}, {}, "here", "client-key-data is not base64"),
        ({}, {"server": ""}, "here", "names no server"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_place_and_the_fact(
    tmp_path: Path, user: Any, cluster: Any, current: str, want: str
) -> None:
    path = write_kubeconfig(tmp_path / "config", user=user, cluster=cluster, current=current)
    with pytest.raises(AccessError, match=want):
        access_from_kubeconfig(path)


def test_nowhere_to_go_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="set KUBECONFIG"):
        access_default(environ={"HOME": str(tmp_path)})


def test_a_certificate_that_is_none_is_refused_when_it_is_used(tmp_path: Path) -> None:
    data = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n").decode()
    access = access_from_kubeconfig(
        write_kubeconfig(tmp_path / "config", current="here", cluster={"certificate-authority-data": data})
    )
    with pytest.raises(AccessError, match="certificate for https://here:6443 cannot be used"):
        access.ssl_context()
