"""Kubeconfigs stand alone, and one for a token carries nobody else's credentials."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.controlplane.certificates import ADMIN, AUTHORITY, Pki
from tests.e2e.controlplane.environment import VARIABLE, Cluster, cluster_from_environment
from tests.e2e.controlplane.errors import ControlPlaneError
from tests.e2e.controlplane.kubeconfig import kubeconfig_for_token, server_of, with_certificate

SERVER = "https://127.0.0.1:6443"


@pytest.fixture
def admin(tmp_path: Path) -> Path:
    pki = Pki(tmp_path / "pki")
    pki.ensure()
    return with_certificate(
        tmp_path / "kubeconfig", SERVER, pki.certificate(AUTHORITY), ADMIN, pki.certificate(ADMIN), pki.key(ADMIN)
    )


def content(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_it_stands_alone_and_is_for_its_owner_only(admin: Path, tmp_path: Path) -> None:
    assert str(tmp_path) not in admin.read_text()
    assert stat.S_IMODE(admin.stat().st_mode) == 0o600
    assert server_of(admin) == SERVER


def test_a_token_replaces_the_user_and_keeps_the_cluster(admin: Path, tmp_path: Path) -> None:
    written = kubeconfig_for_token(admin, tmp_path / "worker", "a.b.c", "worker")

    assert content(written)["users"] == [{"name": "worker", "user": {"token": "a.b.c"}}]
    assert content(written)["clusters"] == content(admin)["clusters"]
    assert stat.S_IMODE(written.stat().st_mode) == 0o600


def test_an_authority_named_by_a_relative_path_is_put_inside(admin: Path, tmp_path: Path) -> None:
    named = content(admin)
    embedded = named["clusters"][0]["cluster"].pop("certificate-authority-data")
    named["clusters"][0]["cluster"]["certificate-authority"] = "pki/ca.crt"
    admin.write_text(yaml.safe_dump(named))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    written = kubeconfig_for_token(admin, elsewhere / "worker", "a.b.c", "worker")

    assert content(written)["clusters"][0]["cluster"] == {"server": SERVER, "certificate-authority-data": embedded}


@pytest.mark.parametrize("text", ["", "contexts: []", "contexts: [", "current-context: x\ncontexts: []\nclusters: []"])
def test_a_file_without_a_current_context_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)

    with pytest.raises(ControlPlaneError, match=f"{path} names no cluster"):
        server_of(path)


def test_the_environment_names_a_cluster_or_none(admin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert cluster_from_environment() is None

    monkeypatch.setenv(VARIABLE, str(admin))
    assert cluster_from_environment() == Cluster(admin)


def test_a_cluster_of_the_environment_that_is_no_file_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "missing"))

    with pytest.raises(ControlPlaneError, match="missing, which is no file"):
        cluster_from_environment()
