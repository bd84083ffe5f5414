"""kind-up says what is missing before it does anything, and hands kind the right words."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.e2e.controlplane.__main__ import main
from tests.e2e.controlplane.kind import CONFIG
from tests.e2e.controlplane.paths import CACHE_VARIABLE


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv("KIND_EXPERIMENTAL_PROVIDER", raising=False)
    return folder


def put(folder: Path, name: str, body: str) -> None:
    tool = folder / name
    tool.write_text(f"#!/bin/sh\n{body}\n")
    tool.chmod(0o755)


def test_without_kind_it_says_how_to_get_it(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kind-up"]) == 1

    assert "kind is not on PATH: install it" in capsys.readouterr().err


def test_without_a_running_engine_it_quotes_what_the_engine_said(
    tools: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tools, "kind", "exit 9")
    put(tools, "docker", "echo 'cannot connect' >&2; exit 1")

    assert main(["kind-up"]) == 1

    assert "the engine of `docker` does not answer (cannot connect): start it" in capsys.readouterr().err


def test_it_prints_nothing_but_the_export_line(tools: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(tools, "kind", f'echo "$@" > {tmp_path}/words; echo "creating"')
    put(tools, "docker", "exit 0")

    assert main(["kind-up"]) == 0

    kubeconfig = tmp_path / "cache/controlplane/kind/kubeconfig"
    assert capfd.readouterr().out == f"export KUBECONFIG={kubeconfig}\n"
    want_words = f"create cluster --name fencepost --config {CONFIG} --kubeconfig {kubeconfig}\n"
    assert (tmp_path / "words").read_text() == want_words


def test_the_configuration_binds_to_loopback_only() -> None:
    config = yaml.safe_load(CONFIG.read_text())

    assert (config["kind"], config["apiVersion"]) == ("Cluster", "kind.x-k8s.io/v1alpha4")
    assert config["networking"] == {"apiServerAddress": "127.0.0.1"}
