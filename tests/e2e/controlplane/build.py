"""Builds the control plane's binaries, once for each state of the two wrapper modules.

A binary is compiled under a temporary name and renamed into place, so a file that stands in `bin` is
whole. One lock serves all builders: a second one waits and then finds the work done. A build that fails
leaves nothing behind and says why in one line.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.e2e.controlplane.binaries import BINARIES, BUILD_FLAGS, Binary, Module, binary_folder
from tests.e2e.controlplane.errors import BuildFailed
from tests.e2e.controlplane.locks import exclusive
from tests.e2e.controlplane.paths import cache_folder

BUILD_LIMIT_S = 3600.0
QUOTED_LINES = 3
TEMPORARY_PREFIX = ".building-"


def say(line: str) -> None:
    """Progress goes to standard error: standard output is for what a shell evaluates."""
    print(line, file=sys.stderr, flush=True)


def binary_path(name: str) -> Path:
    """The built binary `name`; raises BuildFailed where it is not built (this never builds)."""
    path = binary_folder() / name
    if not path.is_file():
        raise BuildFailed(f"{name} is not built yet: run `python -m tests.e2e.controlplane build`")
    return path


def build(binaries: tuple[Binary, ...] = BINARIES, report: Callable[[str], None] = say) -> Path:
    """Build what is missing of `binaries` and return the folder that holds them.

    Raises BuildFailed where Go is missing or too old, or where the compiler refuses.
    """
    folder = binary_folder()
    if _all_built(binaries, folder):
        return folder
    lock = cache_folder() / "build.lock"
    with exclusive(lock, limit_s=BUILD_LIMIT_S, on_wait=lambda: report("waiting for another build to end…")):
        _remove_leftovers(cache_folder())
        for binary in binaries:
            if not (folder / binary.name).is_file():
                _build_one(binary, folder, report)
    return folder


def _all_built(binaries: tuple[Binary, ...], folder: Path) -> bool:
    return all((folder / binary.name).is_file() for binary in binaries)


def _build_one(binary: Binary, folder: Path, report: Callable[[str], None]) -> None:
    go = find_go(binary.name, binary.module)
    report(f"building {binary.name} {binary.module.version} (once, about {binary.duration})…")
    with tempfile.TemporaryDirectory(prefix=TEMPORARY_PREFIX, dir=cache_folder()) as temporary:
        target = Path(temporary) / binary.name
        _compile(go, binary, target)
        folder.mkdir(parents=True, exist_ok=True)
        target.replace(folder / binary.name)


def _compile(go: str, binary: Binary, target: Path) -> None:
    command = [go, "build", *BUILD_FLAGS, "-ldflags", binary.module.linker_flags, "-o", str(target), binary.package]
    done = _run(command, binary.module)
    if done.returncode != 0:
        raise BuildFailed(
            f"building {binary.name} {binary.module.version} failed, go build exited with {done.returncode}: "
            f"{_last_lines(done.stderr)}"
        )


def find_go(wanted_by: str, module: Module) -> str:
    """The path of a Go that is new enough for `module`; raises BuildFailed in one line otherwise."""
    remedy = f"install Go {module.go_version} or newer, or name a running cluster in FENCEPOST_TEST_KUBECONFIG"
    go = shutil.which("go")
    if go is None:
        raise BuildFailed(f"cannot build {wanted_by}, no `go` is on PATH: {remedy}")
    done = _run([go, "env", "GOVERSION"], module)  # asked in the module's folder: Go may fetch the Go it names
    found = done.stdout.strip().removeprefix("go")
    if done.returncode != 0:
        raise BuildFailed(f"cannot build {wanted_by}, {go} refuses: {_last_lines(done.stderr)}: {remedy}")
    if _version_parts(found) < _version_parts(module.go_version):
        raise BuildFailed(f"cannot build {wanted_by}, {go} is Go {found}, too old: {remedy}")
    return go


def _run(command: list[str], module: Module) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": ""}
    return subprocess.run(command, cwd=module.folder, env=environment, capture_output=True, text=True, check=False)


def _version_parts(version: str) -> tuple[int, ...]:
    """`1.26.8` as numbers; `1.27rc1` counts as 1.27, and what is no number as nothing."""
    return tuple(int(part) for part in re.findall(r"\d+", re.split(r"[a-z]|-", version)[0]))


def _last_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-QUOTED_LINES:]) or "it said nothing"


def _remove_leftovers(folder: Path) -> None:
    """What a builder left that was killed outright; called under the lock, so nobody is using it."""
    for leftover in folder.glob(f"{TEMPORARY_PREFIX}*"):
        shutil.rmtree(leftover, ignore_errors=True)
