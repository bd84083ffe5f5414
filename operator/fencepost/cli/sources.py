"""Objects out of files, as a person names them on a command line.

A file may hold several documents, a folder any number of files, and `-` is standard input. What cannot be read raises
RefusedError: unlike a bad object, of which everything that is wrong can be said, there is nothing more to look at.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.api.documents import load_yaml_documents
from fencepost.api.names import DAGS
from fencepost.cli.errors import RefusedError
from fencepost.core.problems import Problem

STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json")
"""Of the files that are read in a folder; one that is named itself may be called anything."""
FILE_BYTES_MAX = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Document:
    """One object in a file, of whatever kind. It may be anything that YAML can spell."""

    file: str
    """As it was named; files in a folder with the folder's path before them."""
    number: int
    """Within the file, from 1."""
    value: Any

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Empty where there is none that could be read."""
        metadata = self.value.get("metadata") if isinstance(self.value, Mapping) else None
        return metadata if isinstance(metadata, Mapping) else {}

    def says(self, field: str) -> Any:
        """A top field such as `kind`; None where there is none."""
        return self.value.get(field) if isinstance(self.value, Mapping) else None

    def __str__(self) -> str:
        """`DAG analytics/nightly-etl`, as far as the document says so."""
        namespace, name = self.metadata.get("namespace"), self.metadata.get("name")
        if name is None and isinstance(generated := self.metadata.get("generateName"), str):
            name = f"{generated}*"
        where = f"{namespace}/" if namespace else ""
        kind = self.says("kind")
        return f"{kind if isinstance(kind, str) else 'document'} {where}{name or f'number {self.number}'}"


def find_files(paths: list[str]) -> Iterator[str]:
    """The files that these paths stand for, folders walked in the order of names; RefusedError for an empty folder."""
    for path in paths:
        if path == STDIN or not Path(path).is_dir():
            yield path
            continue
        found = sorted(each for each in Path(path).rglob("*") if each.suffix in SUFFIXES and each.is_file())
        if not found:
            raise RefusedError(f"{path}: the folder holds no file that ends in {', '.join(SUFFIXES)}; name another")
        yield from map(str, found)


def read_documents(file: str) -> list[Document]:
    """The objects in one file, those of a List one by one; RefusedError if they cannot be read."""
    loaded = load_yaml_documents(_read_text(file))
    if isinstance(loaded, Problem):
        raise RefusedError(f"{_shown(file)}: {loaded}")
    values = [each for value in loaded for each in _flattened(value)]
    documents = [Document(_shown(file), number, value) for number, value in enumerate(values, 1)]
    if not documents:
        raise RefusedError(f"{_shown(file)}: it holds no object; write one, or name another file")
    return documents


def pick_dag(file: str, name: str | None) -> Document:
    """The DAG of this name in a file, or the only one; RefusedError where that is none."""
    dags = [each for each in read_documents(file) if each.says("kind") == DAGS.kind]
    picked = [each for each in dags if name is None or each.metadata.get("name") == name]
    if len(picked) == 1:
        return picked[0]
    names = ", ".join(str(each.metadata.get("name")) for each in dags)
    if not dags:
        raise RefusedError(f"{_shown(file)}: it holds no DAG; name another file")
    if not picked:
        raise RefusedError(f"{_shown(file)}: it holds no DAG {name}; choose one of {names}")
    remedy = "choose one with --dag" if name is None else "rename all but one"
    raise RefusedError(f"{_shown(file)}: it holds the DAGs {names}; {remedy}")


def _shown(file: str) -> str:
    return "standard input" if file == STDIN else file


def _flattened(value: Any) -> Iterator[Any]:
    """A `kind: List`, as kubectl prints it, is only a way to write several objects."""
    items = value.get("items") if isinstance(value, Mapping) and value.get("kind") == "List" else None
    if isinstance(items, list):
        yield from items
    else:
        yield value


def _read_text(file: str) -> str:
    try:
        if file == STDIN:
            content = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        else:
            with open(file, "rb") as opened:
                content = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        fact = (error.strerror or str(error)).lower()
        raise RefusedError(f"{_shown(file)}: it cannot be read: {fact}; name a file that you may read") from error
    if len(content) > FILE_BYTES_MAX:
        raise RefusedError(f"{_shown(file)}: it has more than {FILE_BYTES_MAX // 2**20} MiB; split it")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RefusedError(f"{_shown(file)}: byte {error.start} is not UTF-8; store it as UTF-8") from error
