"""What is built, under which name, and what a person is told when it can't be."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from tests.e2e.controlplane import build as build_module
from tests.e2e.controlplane.__main__ import main
from tests.e2e.controlplane.binaries import BINARIES, ETCD, KUBERNETES, Binary, Module, binary_folder, cache_key
from tests.e2e.controlplane.build import binary_path, build
from tests.e2e.controlplane.errors import BuildFailed
from tests.e2e.controlplane.paths import CACHE_VARIABLE

FAKE_GO = """#!/bin/sh
if [ "$1" = env ]; then echo go{version}; exit 0; fi
echo "$@" >> "{calls}"
while [ "$1" != -o ]; do shift; done
{body}
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache/controlplane"


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    return tmp_path / "calls"


def put_go_on_path(
    monkeypatch: pytest.MonkeyPatch, calls: Path, version: str = "1.26.8", body: str = 'echo x > "$2"'
) -> None:
    folder = calls.parent / "path"
    folder.mkdir()
    go = folder / "go"
    go.write_text(FAKE_GO.format(version=version, calls=calls, body=body))
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def copy_of(module: Module, folder: Path) -> Module:
    shutil.copytree(module.folder, folder)
    return dataclasses.replace(module, folder=folder)


def test_versions_are_read_from_go_mod_and_given_to_the_linker() -> None:
    assert KUBERNETES.version.startswith("v1.")
    major, minor, _ = KUBERNETES.version[1:].split(".")
    for setting in (f"gitVersion={KUBERNETES.version}", f"gitMajor={major}", f"gitMinor={minor}"):
        assert f"-X k8s.io/component-base/version.{setting}" in KUBERNETES.linker_flags
        assert f"-X k8s.io/client-go/pkg/version.{setting}" in KUBERNETES.linker_flags
    assert ETCD.linker_flags == "-s -w"


def test_every_staging_module_is_replaced_by_the_release_of_kubernetes() -> None:
    staging = KUBERNETES.version.replace("v1.", "v0.")
    replaced = [line for line in (KUBERNETES.folder / "go.mod").read_text().splitlines() if " => " in line]

    assert len(replaced) == 33
    assert all(line.endswith(f" {staging}") for line in replaced)


def test_every_kubernetes_binary_is_imported_by_the_file_that_keeps_go_mod_tidy() -> None:
    for binary in BINARIES:
        assert f'"{binary.package}"' in (binary.module.folder / "tools.go").read_text()


@pytest.mark.parametrize("file", ["go.mod", "go.sum"])
def test_the_key_changes_with_each_file_that_pins_something(tmp_path: Path, file: str) -> None:
    module = copy_of(ETCD, tmp_path / "etcd")
    before = cache_key((KUBERNETES, module))

    with (module.folder / file).open("a") as pinned:
        pinned.write("// changed\n")

    assert cache_key((KUBERNETES, module)) != before


def test_the_key_changes_with_the_flags_and_not_with_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = copy_of(ETCD, tmp_path / "etcd")
    before = cache_key()
    assert cache_key((KUBERNETES, elsewhere)) == before
    assert before.startswith(f"{KUBERNETES.version}-")

    monkeypatch.setattr("tests.e2e.controlplane.binaries.BUILD_FLAGS", ("-race",))

    assert cache_key() != before


def test_without_go_the_message_says_which_go_to_install(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert main(["build"]) == 1

    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "no `go` is on PATH" in said
    assert f"install Go {ETCD.go_version}" in said
    assert not binary_folder().exists()


def test_a_go_that_is_too_old_is_named_with_its_version(
    cache: Path, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_go_on_path(monkeypatch, calls, version="1.9.7")

    with pytest.raises(BuildFailed, match=r"is Go 1\.9\.7, too old: install Go 1\.\d+"):
        build(report=lambda _: None)

    assert not calls.exists()


def test_each_binary_is_built_once_with_its_progress_told(
    cache: Path, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_go_on_path(monkeypatch, calls)
    told: list[str] = []

    folder = build(report=told.append)
    build(report=told.append)

    assert sorted(path.name for path in folder.iterdir()) == sorted(binary.name for binary in BINARIES)
    assert len(calls.read_text().splitlines()) == len(told) == len(BINARIES)
    assert told[1] == f"building kube-apiserver {KUBERNETES.version} (once, about 4 minutes)…"
    assert binary_path("etcd") == folder / "etcd"


def test_a_failed_build_says_why_in_one_line_and_leaves_nothing(
    cache: Path, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_go_on_path(monkeypatch, calls, body='echo half > "$2"; echo "main.go:1: no such thing" >&2; exit 2')

    with pytest.raises(BuildFailed, match=r"^building etcd v\S+ failed, go build exited with 2: main\.go:1") as failure:
        build(report=lambda _: None)

    assert "\n" not in str(failure.value)
    assert [path.name for path in cache.iterdir()] == ["build.lock"]


def test_what_a_killed_builder_left_is_removed_by_the_next(
    cache: Path, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_go_on_path(monkeypatch, calls)
    leftover = cache / f"{build_module.TEMPORARY_PREFIX}old"
    leftover.mkdir(parents=True)

    build(report=lambda _: None)

    assert not leftover.exists()


def test_a_binary_that_is_not_built_is_never_built_by_asking_for_it(cache: Path) -> None:
    with pytest.raises(BuildFailed, match=r"etcd is not built yet: run `python -m tests.e2e.controlplane build`"):
        binary_path("etcd")


def test_another_binary_is_one_more_line(cache: Path, calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_go_on_path(monkeypatch, calls)
    scheduler = Binary("kube-scheduler", KUBERNETES, "k8s.io/kubernetes/cmd/kube-scheduler", "1 minute")

    assert (build((*BINARIES, scheduler), report=lambda _: None) / "kube-scheduler").is_file()
