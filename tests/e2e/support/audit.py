"""What the API server was asked to write, by whom and with what answer: its own audit log.

It is the drills' second witness. It holds every version that was ever stored of a run or a worker, and every write that
was refused, also across restarts of the API server, and names the address that each request came from.
"""

import json
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from fencepost.api import names as wire
from fencepost.api.names import GROUP, Kind
from tests.e2e.support.objects import KIND_OF

Obj = dict[str, Any]
WRITES = ["create", "update", "patch", "delete"]
WHOLE = [wire.DAG_RUNS.plural, wire.WORKERS.plural, f"{wire.WORKERS.plural}/status"]
POLICY: Obj = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [
        {"level": "Request", "verbs": WRITES, "resources": [{"group": GROUP, "resources": WHOLE}]},
        {"level": "Metadata", "verbs": WRITES, "resources": [{"group": GROUP}, {"group": wire.LEASES.group}]},
        {"level": "None"},
    ],
}
REFUSALS = (403, 409, 422)


@dataclass(frozen=True)
class Request:
    """One write that somebody asked for."""

    verb: str
    resource: str
    """Plural; with its subresource, if any: `workers/status`."""
    name: str
    status: int
    """Of the answer, as HTTP has it."""
    source: str
    """The address that it came from."""
    at_s: float
    """When the API server received it, in Unix seconds."""
    body: Obj
    """What was to be stored; empty where the log does not tell."""

    @property
    def stored(self) -> bool:
        """Whether it was done."""
        return 200 <= self.status < 300

    @property
    def refused(self) -> bool:
        """Whether a fence kept it out: a version, a law or a policy."""
        return self.status in REFUSALS


@dataclass
class AuditLog:
    """The log in a file, read on from where it was read last."""

    file: Path
    _requests: list[Request] = field(default_factory=list)
    _read_bytes: int = 0

    def flags(self) -> list[str]:
        """For the API server; writes its policy beside the log."""
        policy = self.file.with_suffix(".policy.json")
        policy.write_text(json.dumps(POLICY))
        return [f"--audit-log-path={self.file}", f"--audit-policy-file={policy}"]

    def requests(
        self, kind: Kind | None = None, name: str = "", source: str = "", since_s: float = 0.0
    ) -> list[Request]:
        """All writes so far, in the order of their answers; or only those on this, from there, since then."""
        self._read_on()
        return [
            request
            for request in self._requests
            if (kind is None or request.resource.partition("/")[0] == kind.plural)
            and name in ("", request.name)
            and source in ("", request.source)
            and request.at_s >= since_s
        ]

    def versions(self, now: Obj) -> list[Obj]:
        """What was stored of this object, version by version, as far as it was stored whole.

        Where whoever asked hung up before the answer, the log tells none. Such a write was stored if what came after
        it, in the end the object as it is now, was built on another version than itself.
        """
        whole = [
            request
            for request in self.requests(KIND_OF[(now["apiVersion"], now["kind"])], now["metadata"]["name"])
            if request.verb in ("create", "update") and request.body and not 400 <= request.status < 500
        ]
        later = [*(request.body for request in whole[1:]), now]
        return [
            request.body
            for request, next_body in zip(whole, later, strict=True)
            if request.stored or _version(next_body) != _version(request.body)
        ]

    def _read_on(self) -> None:
        with self.file.open("rb") as stream:
            stream.seek(self._read_bytes)
            for line in stream:
                if not line.endswith(b"\n"):
                    break  # it is being written
                self._read_bytes += len(line)
                self._requests.append(_parse(json.loads(line)))


def _version(obj: Obj) -> str:
    return str(obj["metadata"].get("resourceVersion", ""))


def _parse(event: Obj) -> Request:
    about, body = event["objectRef"], event.get("requestObject") or {}
    resource = "/".join(filter(None, (about["resource"], about.get("subresource", ""))))
    name = about.get("name") or body.get("metadata", {}).get("name", "")
    received_s = datetime.fromisoformat(event["requestReceivedTimestamp"].replace("Z", "+00:00")).timestamp()
    status = event.get("responseStatus", {}).get("code", 0)
    return Request(event["verb"], resource, name, status, event["sourceIPs"][0], received_s, body)
