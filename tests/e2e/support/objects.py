"""Objects of a cluster as plain JSON, by one identity, over a connection that stays open.

The tests watch what they test many times a second, and a kubectl for each look would take the CPU away from it. It is
the Kubernetes project's own Python client underneath, which shares no code with ours.

`changes` is the one trick: a watch that begins in the past gives every version that an object has had since, one by
one, as long as the API server remembers them (a minute at least). So "never above the cap" is checked on all versions
that were ever stored, not on those that a poll has happened to see.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import kubernetes

from fencepost.api import names as wire
from fencepost.api.names import Kind

Obj = dict[str, Any]
client: Any = kubernetes.client  # untyped
config: Any = kubernetes.config

ANSWER_LIMIT_S = 30.0
WATCH_S = 1
"""How long a watch may run on after it has told what there is to tell."""
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
KINDS = (
    wire.DAGS,
    wire.DAG_RUNS,
    wire.DEAD_LETTERS,
    wire.WORKER_POOLS,
    wire.WORKERS,
    wire.LEASES,
    wire.CONTROLLER_REVISIONS,
    wire.EVENTS,
)
KIND_OF = {(kind.api_version, kind.kind): kind for kind in KINDS}


class RefusedError(RuntimeError):
    """The API server has answered with an error: its HTTP status, and what it says."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class Objects:
    """What one identity may do with the objects of one cluster. Every refusal raises RefusedError."""

    def __init__(self, kubeconfig: Path) -> None:
        self._client = config.new_client_from_config(config_file=str(kubeconfig))
        settings = self._client.configuration.auth_settings().get("BearerToken")
        self._identity = {"authorization": settings["value"]} if settings else {}

    def get(self, kind: Kind, name: str, namespace: str = "") -> Obj:
        """One object."""
        found: Obj = self._ask("GET", _path(kind, namespace, name))
        return found

    def find(self, kind: Kind, name: str, namespace: str = "") -> Obj | None:
        """One object, or None if there is none of this name."""
        try:
            return self.get(kind, name, namespace)
        except RefusedError as refusal:
            if refusal.status == 404:
                return None
            raise

    def all_of(self, kind: Kind, namespace: str = "", **query: str) -> list[Obj]:
        """All objects of a kind; without a namespace those of all."""
        items: list[Obj] = self._ask("GET", _path(kind, namespace), query=query)["items"]
        return items

    def create(self, obj: Obj) -> Obj:
        """Store a new object."""
        kind, meta = _kind_of(obj), obj["metadata"]
        stored: Obj = self._ask("POST", _path(kind, meta.get("namespace", "")), obj)
        return stored

    def replace(self, obj: Obj, subresource: str = "") -> Obj:
        """Store an object in the place of the one of its name and version."""
        kind, meta = _kind_of(obj), obj["metadata"]
        path = _path(kind, meta.get("namespace", ""), meta["name"], subresource)
        stored: Obj = self._ask("PUT", path, obj)
        return stored

    def merge(self, kind: Kind, name: str, change: Obj, namespace: str = "", subresource: str = "") -> Obj:
        """Change some fields of an object, by merge patch."""
        stored: Obj = self._ask("PATCH", _path(kind, namespace, name, subresource), change, content=MERGE_PATCH)
        return stored

    def delete(self, kind: Kind, name: str, namespace: str = "") -> None:
        """Ask for an object's deletion."""
        self._ask("DELETE", _path(kind, namespace, name))

    def version(self, kind: Kind, namespace: str = "") -> str:
        """The resourceVersion of now, from which `changes` can begin."""
        listed: Obj = self._ask("GET", _path(kind, namespace), query={"limit": "1"})
        return str(listed["metadata"]["resourceVersion"])

    def changes(self, kind: Kind, since: str, namespace: str = "") -> list[tuple[str, Obj]]:
        """Each change after that resourceVersion, in order: `ADDED`, `MODIFIED` or `DELETED`, and the object then."""
        query = {"watch": "1", "resourceVersion": since, "timeoutSeconds": str(WATCH_S)}
        answer = self._send("GET", _path(kind, namespace), None, query, "")
        events = [json.loads(line) for line in answer.splitlines() if line]
        for event in events:
            if event["type"] == "ERROR":
                raise RefusedError(event["object"].get("code", 0), event["object"].get("message", ""))
        return [(event["type"], event["object"]) for event in events]

    def _ask(
        self, method: str, path: str, body: Any = None, query: Mapping[str, str] | None = None, content: str = ""
    ) -> Any:
        return json.loads(self._send(method, path, body, query or {}, content))

    def _send(self, method: str, path: str, body: Any, query: Mapping[str, str], content: str) -> bytes:
        url = f"{self._client.configuration.host}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json", "Content-Type": content or "application/json", **self._identity}
        try:
            answer = self._client.call_api(
                method, url, header_params=headers, body=body, _request_timeout=ANSWER_LIMIT_S
            )
            data: bytes = answer.read()
        except client.ApiException as error:
            raise RefusedError(error.status, error.body or error.reason) from error
        if answer.status >= 400:
            raise RefusedError(answer.status, _message(data))
        return data


def meta_name(obj: Obj) -> str:
    """An object's name."""
    return str(obj["metadata"]["name"])


def versions_of(changes: list[tuple[str, Obj]], name: str) -> Iterator[Obj]:
    """Every version that was stored of one object."""
    return (obj for what, obj in changes if what != "DELETED" and meta_name(obj) == name)


def _kind_of(obj: Obj) -> Kind:
    return KIND_OF[(obj["apiVersion"], obj["kind"])]


def _path(kind: Kind, namespace: str = "", name: str = "", subresource: str = "") -> str:
    root = f"/apis/{kind.group}" if kind.group else "/api"
    parts = [root, kind.version, *(("namespaces", namespace) if namespace else ()), kind.plural, name, subresource]
    return "/".join(part for part in parts if part)


def _message(data: bytes) -> str:
    try:
        return str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        return data.decode(errors="replace")[:2000]
