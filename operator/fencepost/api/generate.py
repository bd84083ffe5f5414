"""`python -m fencepost.api.generate [--check]`: writes what is derived from the models, or says what has drifted.

The CRDs are written twice, as Helm wants its own copy in the chart: `crds/` for kubectl, `charts/fencepost/crds/` for
Helm. The bindings of the epoch fence are written because one for each shard is long and dull.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from fencepost.api.crd import RESOURCES, crd
from fencepost.api.shard_bindings import shard_bindings
from fencepost.core.names import SHARDS_DEFAULT

HEADER = "# Generated from the models by `make generate`; do not edit.\n"


class _Dumper(yaml.SafeDumper):
    """No aliases: two equal parts are written out twice."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def to_yaml(*documents: Mapping[str, Any]) -> str:
    """These documents as one YAML text, keys in the order given."""
    text = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    return HEADER + text


def generated_files() -> dict[str, str]:
    """Path relative to the repository, and content."""
    files = {}
    for resource in RESOURCES:
        text = to_yaml(crd(resource))
        files[f"crds/{resource.kind.plural}.yaml"] = text
        files[f"charts/fencepost/crds/{resource.kind.plural}.yaml"] = text
    files["charts/fencepost/files/shard-bindings.yaml"] = to_yaml(*shard_bindings(SHARDS_DEFAULT))
    return files


def drifted(repository: Path) -> list[str]:
    """Paths whose content is missing or differs from a fresh generation."""
    return [
        path
        for path, text in generated_files().items()
        if not (repository / path).is_file() or (repository / path).read_text() != text
    ]


def write(repository: Path) -> None:
    """Write every generated file."""
    for path, text in generated_files().items():
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_text(text)


def main(arguments: list[str] | None = None) -> int:
    """0 when all is written or nothing has drifted, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="fencepost.api.generate", description="Write what derives from the models.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if something has drifted")
    parser.add_argument("--repository", type=Path, default=Path.cwd(), help="where to write; here if left out")
    options = parser.parse_args(arguments)
    if not options.check:
        write(options.repository)
        return 0
    paths = drifted(options.repository)
    for path in paths:
        sys.stderr.write(f"{path} differs from what the models say; run `make generate` and commit it\n")
    return 1 if paths else 0


if __name__ == "__main__":
    sys.exit(main())
