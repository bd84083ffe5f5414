"""Where things lie, so that no other module spells a folder's name.

Everything written goes under one cache folder that git ignores: `<repo>/.cache`, or the folder named by
the environment variable FENCEPOST_CACHE. A control plane's own files are described by `Layout`.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

PACKAGE_FOLDER = Path(__file__).resolve().parent
REPOSITORY = PACKAGE_FOLDER.parents[2]
CACHE_VARIABLE = "FENCEPOST_CACHE"


def cache_folder() -> Path:
    """The folder of built binaries and of the cluster that `up` keeps."""
    named = os.environ.get(CACHE_VARIABLE)
    return (Path(named).resolve() if named else REPOSITORY / ".cache") / "controlplane"


@dataclass(frozen=True)
class Layout:
    """The files of one control plane, all under one state folder."""

    root: Path

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def ports(self) -> Path:
        return self.root / "ports.json"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def controller_manager_kubeconfig(self) -> Path:
        return self.root / "kube-controller-manager.kubeconfig"

    @property
    def etcd_data(self) -> Path:
        return self.root / "etcd"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def pid_file(self, component: str) -> Path:
        return self.run / f"{component}.json"

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"

    def create(self) -> None:
        for folder in (self.root, self.run, self.logs):
            folder.mkdir(parents=True, exist_ok=True)

    def wipe(self) -> None:
        """Remove what a control plane writes, by name; other files in the folder stay."""
        for folder in (self.etcd_data, self.pki, self.run, self.logs):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (self.ports, self.kubeconfig, self.controller_manager_kubeconfig):
            file.unlink(missing_ok=True)
