"""What a job's environment takes from Secrets and ConfigMaps of its DAG's namespace.

Read anew for each attempt, by the worker, with the worker's own rights, and only where the pool says that its workers
may read that namespace's. A value goes into the environment of the one process that asked for it: no run, mailbox,
event or log of ours ever holds it, and neither does a message about it.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from fencepost.api.names import CONFIG_MAPS, SECRETS, WORKER_POOLS
from fencepost.core.definition import EnvSource
from fencepost.kube.errors import ForbiddenError, NotFoundError
from fencepost.kube.protocol import Obj
from fencepost.worker.patient import PatientReads
from fencepost.worker.runner import COMMAND_NOT_RUNNABLE, CannotStartError

ANY_NAMESPACE = "*"


class NotAllowedError(Exception):
    """The pool does not let its workers read what the job asks for; `str()` says so, with the remedy."""


async def read_values(reads: PatientReads, pool: str, namespace: str, sources: Sequence[EnvSource]) -> dict[str, str]:
    """The variables that come from elsewhere, by name; an optional one whose value is not there is left out.

    NotAllowedError; CannotStartError where a value is not there or not for us; UnavailableError where the API server
    does not answer.
    """
    if not sources:
        return {}
    await _check_allowed(reads, pool, namespace)
    objects: dict[tuple[bool, str], Obj | None] = {}
    values: dict[str, str] = {}
    for source in sources:
        asked = (source.secret, source.object)
        if asked not in objects:
            objects[asked] = await _read(reads, namespace, source)
        value = _value_of(objects[asked], namespace, source)
        if value is not None:
            values[source.name] = value
    return values


async def _check_allowed(reads: PatientReads, pool: str, namespace: str) -> None:
    try:
        spec: dict[str, Any] = (await reads.get(WORKER_POOLS, None, pool)).get("spec") or {}
    except NotFoundError as error:
        raise NotAllowedError(f"WorkerPool {pool!r} cannot be read, which says who may use Secrets: {error}") from error
    allowed = (spec.get("secrets") or {}).get("allow") or []
    if namespace not in allowed and ANY_NAMESPACE not in allowed:
        fact = f"WorkerPool {pool!r} does not let its workers read Secrets and ConfigMaps of namespace {namespace!r}"
        raise NotAllowedError(f"{fact}; add it to spec.secrets.allow, or name another pool")


async def _read(reads: PatientReads, namespace: str, source: EnvSource) -> Obj | None:
    """The object; None if it is not there and need not be."""
    try:
        kind = SECRETS if source.secret else CONFIG_MAPS
        return await reads.get(kind, namespace, source.object, refusal_is_final=True)
    except NotFoundError as error:
        if source.optional:
            return None
        raise _cannot(namespace, source, "does not exist; create it") from error
    except ForbiddenError as error:
        fact = "may not be read by this worker; give its service account the right to get it"
        raise _cannot(namespace, source, fact) from error


def _value_of(obj: Obj | None, namespace: str, source: EnvSource) -> str | None:
    data = (obj or {}).get("data") or {}
    if source.key not in data:
        if source.optional:
            return None
        raise _cannot(namespace, source, f"has no key {source.key!r}; add it")
    text: str = data[source.key]
    if not source.secret:
        return text
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        # Without the error itself, which quotes what it could not read.
        raise _cannot(namespace, source, f"holds no text under {source.key!r}; store it as UTF-8") from None


def _cannot(namespace: str, source: EnvSource, fact: str) -> CannotStartError:
    kind = "Secret" if source.secret else "ConfigMap"
    what = f"{kind} {namespace}/{source.object}, from which {source.name} comes, {fact}"
    return CannotStartError(what, COMMAND_NOT_RUNNABLE)
