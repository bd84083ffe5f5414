"""A cluster in containers by kind, for whoever has a container engine; it brings a real node.

What was tried: kind 0.33 read kind.yaml (it refuses unknown fields) and went as far as `docker run` with a
stand-in for docker, and the messages for a missing kind and for an engine that doesn't answer were seen. No
cluster was ever created, since the machine this was written on has no container engine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.e2e.controlplane.build import say
from tests.e2e.controlplane.cluster import print_export
from tests.e2e.controlplane.errors import ControlPlaneError
from tests.e2e.controlplane.paths import PACKAGE_FOLDER, cache_folder

CLUSTER_NAME = "fencepost"
CONFIG = PACKAGE_FOLDER / "kind.yaml"
ENGINE_VARIABLE = "KIND_EXPERIMENTAL_PROVIDER"
ENGINE_LIMIT_S = 30.0


def kind_kubeconfig() -> Path:
    return cache_folder() / "kind" / "kubeconfig"


def kind_up() -> None:
    """Create the cluster and print its export line; kind itself says so where it exists already."""
    kind = _find_kind()
    _check_engine()
    kubeconfig = kind_kubeconfig()
    kubeconfig.parent.mkdir(parents=True, exist_ok=True)
    _run([kind, "create", "cluster", "--name", CLUSTER_NAME, "--config", str(CONFIG), *_file(kubeconfig)])
    print_export(kubeconfig)


def kind_down() -> None:
    """Delete the cluster; nothing happens where there is none."""
    kind = _find_kind()
    _check_engine()
    _run([kind, "delete", "cluster", "--name", CLUSTER_NAME, *_file(kind_kubeconfig())])


def _file(kubeconfig: Path) -> list[str]:
    return ["--kubeconfig", str(kubeconfig)]


def _find_kind() -> str:
    kind = shutil.which("kind")
    if kind is None:
        raise ControlPlaneError(
            "kind is not on PATH: install it (`go install sigs.k8s.io/kind@latest`), "
            "or use `up`, which needs no containers"
        )
    return kind


def _check_engine() -> None:
    engine = os.environ.get(ENGINE_VARIABLE) or "docker"
    remedy = f"start it, name another in {ENGINE_VARIABLE}, or use `up`, which needs no containers"
    if shutil.which(engine) is None:
        raise ControlPlaneError(f"kind needs a container engine, and `{engine}` is not on PATH: {remedy}")
    try:
        done = subprocess.run([engine, "ps"], capture_output=True, text=True, check=False, timeout=ENGINE_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise ControlPlaneError(f"`{engine} ps` did not answer within {ENGINE_LIMIT_S:.0f} s: {remedy}") from None
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ControlPlaneError(f"the engine of `{engine}` does not answer ({reason}): {remedy}")


def _run(command: list[str]) -> None:
    say(" ".join(command))
    done = subprocess.run(command, check=False, stdout=2)  # standard output is for the export line
    if done.returncode != 0:
        raise ControlPlaneError(f"{command[0]} exited with {done.returncode}: what it said stands above")
