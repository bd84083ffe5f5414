"""Which binaries a control plane needs, pinned by two small Go modules beside this file.

The trick: `k8s.io/kubernetes` replaces its own staging modules and so cannot be installed by
`go install ...@version`; a wrapper module that repeats the replaces can. Its go.mod is the only place where
a version stands; everything here reads it from there.

Another binary is one line in BINARIES, one import in the module's tools.go, and a `go mod tidy`.
"""

from __future__ import annotations

import hashlib
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.controlplane.paths import PACKAGE_FOLDER, cache_folder

BUILD_FLAGS = ("-mod=readonly", "-buildvcs=false", "-trimpath")
KEY_LENGTH = 12


@dataclass(frozen=True)
class Module:
    """A wrapper module; `version_packages` are those whose version variables only the linker sets."""

    folder: Path
    requirement: str
    version_packages: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """The pinned version, such as `v1.36.3`."""
        return _search(rf"^require {re.escape(self.requirement)} (v\S+)", self.folder / "go.mod")

    @property
    def go_version(self) -> str:
        """The oldest Go that builds it, such as `1.26.0`."""
        return _search(r"^go (\S+)", self.folder / "go.mod")

    @property
    def linker_flags(self) -> str:
        """Without the version variables the API server would report v0.0.0."""
        major, minor, _ = self.version.removeprefix("v").split(".", 2)
        values = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor}
        settings = [f"-X {p}.{name}={v}" for p in self.version_packages for name, v in values.items()]
        return " ".join(["-s", "-w", *settings])


@dataclass(frozen=True)
class Binary:
    """A command to build; `duration` is what a person is told to expect on two cores."""

    name: str
    module: Module
    package: str
    duration: str


ETCD = Module(PACKAGE_FOLDER / "etcd", "go.etcd.io/etcd/server/v3")
KUBERNETES = Module(
    PACKAGE_FOLDER / "kubernetes",
    "k8s.io/kubernetes",
    ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"),
)
BINARIES = (
    Binary("etcd", ETCD, "go.etcd.io/etcd/server/v3", "1 minute"),
    Binary("kube-apiserver", KUBERNETES, "k8s.io/kubernetes/cmd/kube-apiserver", "4 minutes"),
    Binary("kube-controller-manager", KUBERNETES, "k8s.io/kubernetes/cmd/kube-controller-manager", "1 minute"),
)


def cache_key(modules: tuple[Module, ...] = (KUBERNETES, ETCD)) -> str:
    """A name for what the sources and flags would build: `v1.36.3-` and a hash of them.

    The first module lends its version; the machine's kind counts, the Go that happens to be installed
    does not (a newer one gives no reason to build again).
    """
    digest = hashlib.sha256(f"{sys.platform} {platform.machine()}\n".encode())
    for module in modules:
        for file in ("go.mod", "go.sum"):
            digest.update((module.folder / file).read_bytes())
        digest.update(" ".join((*BUILD_FLAGS, module.linker_flags)).encode())
    return f"{modules[0].version}-{digest.hexdigest()[:KEY_LENGTH]}"


def binary_folder() -> Path:
    """Where the binaries of this key are, or would be."""
    return cache_folder() / cache_key() / "bin"


def _search(pattern: str, file: Path) -> str:
    found = re.search(pattern, file.read_text(), re.MULTILINE)
    if found is None:
        raise ValueError(f"{file} has no line like /{pattern}/: write it back, the build reads its version there")
    return found.group(1)
