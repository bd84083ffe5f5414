"""Objects as files, for commands to read; only what a test is about has to be said."""

import json
from pathlib import Path
from typing import Any

Task = dict[str, Any]


def task(name: str, script: str = "true", *parents: str, **more: Any) -> Task:
    """A task that runs a shell script after its parents."""
    after = {"dependsOn": list(parents)} if parents else {}
    return {"name": name, "command": ["sh", "-c", script], **after, **more}


def dag(name: str, *tasks: Task, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A DAG of these tasks, or of one that does nothing."""
    return {
        "apiVersion": "fencepost.dev/v1alpha1",
        "kind": "DAG",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {**spec, "tasks": list(tasks) or [task("only")]},
    }


def dag_run(metadata: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A DAGRun of the DAG `etl`, made by hand."""
    return {
        "apiVersion": "fencepost.dev/v1alpha1",
        "kind": "DAGRun",
        "metadata": metadata,
        "spec": {"dag": "etl"},
        **fields,
    }


def write(path: Path, *objects: object) -> str:
    """A file of these objects; JSON is YAML too."""
    path.write_text("\n---\n".join(json.dumps(each) for each in objects))
    return str(path)
