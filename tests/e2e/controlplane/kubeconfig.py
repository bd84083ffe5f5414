"""Kubeconfig files that stand alone: certificates and tokens are inside, so a file can be handed on."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.controlplane.errors import ControlPlaneError

CLUSTER_NAME = "fencepost"


def with_certificate(path: Path, server: str, authority: Path, user: str, certificate: Path, key: Path) -> Path:
    """Write a kubeconfig for `user`, who shows a client certificate."""
    cluster = {"server": server, "certificate-authority-data": _encoded(authority)}
    credentials = {"client-certificate-data": _encoded(certificate), "client-key-data": _encoded(key)}
    return _write(path, cluster, user, credentials)


def kubeconfig_for_token(kubeconfig: Path, path: Path, token: str, user: str) -> Path:
    """Write to `path` a kubeconfig for the cluster of `kubeconfig`, with a bearer token instead of its user.

    Of the original only the current context's cluster is taken: no credential of it gets into the new file.
    """
    return _write(path, _current_cluster(kubeconfig), user, {"token": token})


def server_of(kubeconfig: Path) -> str:
    """The server's URL in the current context."""
    return str(_current_cluster(kubeconfig).get("server", ""))


def _current_cluster(kubeconfig: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(kubeconfig.read_text())
        contexts = {each["name"]: each["context"] for each in content["contexts"]}
        clusters = {each["name"]: each["cluster"] for each in content["clusters"]}
        return _with_embedded_authority(clusters[contexts[content["current-context"]]["cluster"]], kubeconfig.parent)
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise ControlPlaneError(
            f"{kubeconfig} names no cluster ({error!r}): give a kubeconfig with a current context"
        ) from error


def _with_embedded_authority(cluster: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A relative path is meant from the kubeconfig's own folder, so it must not be copied elsewhere."""
    named = cluster.get("certificate-authority")
    if named is None:
        return cluster
    rest = {key: value for key, value in cluster.items() if key != "certificate-authority"}
    return {**rest, "certificate-authority-data": _encoded(folder / named)}


def _write(path: Path, cluster: dict[str, Any], user: str, credentials: dict[str, str]) -> Path:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CLUSTER_NAME, "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": CLUSTER_NAME, "context": {"cluster": CLUSTER_NAME, "user": user}}],
        "current-context": CLUSTER_NAME,
    }
    temporary = path.with_name(path.name + ".partial")
    temporary.touch(mode=0o600)
    temporary.write_text(yaml.safe_dump(content, sort_keys=False))
    temporary.replace(path)
    return path


def _encoded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
