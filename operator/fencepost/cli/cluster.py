"""A person's cluster: the API server of a kubeconfig, as the commands see it, through pykube.

Whatever the server refuses comes as RefusedError with the object, the fact and the remedy, and ends the command with 2.
A request is sent once; only who waits for something asks again (`cli.waiting`). The kubeconfig is read by
`kube.access`, which merges several files in KUBECONFIG as kubectl does.
"""

import argparse
import base64
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fencepost.api.names import GROUP, SELF_SUBJECT_REVIEWS, Kind
from fencepost.cli.errors import RefusedError
from fencepost.kube.access import Access, AccessError, access_default, access_from_kubeconfig

if TYPE_CHECKING:
    from requests import Response

Obj = dict[str, Any]

_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
PAGE_SIZE = 500
REQUEST_TIMEOUT_S = 30.0
NOT_FOUND, CONFLICT, TOO_MANY, NO_ANSWER = 404, 409, 429, 0


class ClusterError(RefusedError):
    """What the API server has answered; `status` is the HTTP status, or NO_ANSWER."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status

    @property
    def passing(self) -> bool:
        """Whether it may go well later."""
        return self.status in (NO_ANSWER, TOO_MANY) or self.status >= 500


class Cluster(Protocol):
    """What the commands need of a cluster. Every method raises ClusterError."""

    namespace: str
    """That of the command's objects."""

    def get(self, kind: Kind, name: str) -> Obj:
        """An object of the namespace (or of the cluster)."""
        ...

    def find(self, kind: Kind, name: str) -> Obj | None:
        """The same; None where there is none."""
        ...

    def list(self, kind: Kind, label_selector: str = "", namespace: str = "") -> list[Obj]:
        """All objects of a kind in the namespace, or in another."""
        ...

    def create(self, kind: Kind, obj: Obj) -> Obj:
        """The object as it was stored; its namespace is filled in."""
        ...

    def patch(self, kind: Kind, name: str, change: Mapping[str, Any]) -> Obj:
        """The object after a JSON merge patch."""
        ...

    def user_name(self) -> str:
        """Under which name the API server knows who asks."""
        ...

    def pod_log(self, namespace: str, pod: str, since: str) -> Iterator[bytes]:
        """The lines that a pod has printed since a moment (RFC 3339)."""
        ...


def add_cluster_options(parser: argparse.ArgumentParser, namespace: str = "") -> None:
    """Declare which cluster, and which namespace in it: as kubectl does, unless the command is about another one."""
    parser.add_argument("--kubeconfig", metavar="FILE", help="how to reach the API server; default: as kubectl")
    parser.add_argument("--context", metavar="NAME", help="of the kubeconfig; default: its current one")
    help_ = f"default: {namespace or 'that of the context'}"
    parser.add_argument("-n", "--namespace", metavar="NAME", default=namespace, help=help_)


def open_cluster(args: argparse.Namespace) -> "PykubeCluster":
    """The cluster that the options name; RefusedError where the kubeconfig does not say how to reach it."""
    try:
        named = Path(args.kubeconfig) if args.kubeconfig else None
        access = access_from_kubeconfig(named, args.context) if named else access_default(args.context)
    except AccessError as error:
        raise RefusedError(str(error)) from None
    namespace = args.namespace or access.namespace
    _check_name("a namespace", namespace)
    return PykubeCluster(access, namespace)


def named(kind: Kind, name: str) -> str:
    """`dagrun.fencepost.dev/nightly-etl-4k2`, as kubectl writes it."""
    return f"{kind.kind.lower()}.{GROUP}/{name}"


class PykubeCluster:
    """`Cluster` over HTTP."""

    def __init__(self, access: Access, namespace: str) -> None:
        import pykube  # slow to import, and not needed by commands that ask no cluster

        self.namespace = namespace
        self._server = access.server
        config = pykube.KubeConfig(_document(access))
        self._client = pykube.HTTPClient(config, timeout=REQUEST_TIMEOUT_S, verify=access.verify)

    def get(self, kind: Kind, name: str) -> Obj:
        _check_name(f"a {kind.kind}", name)
        return self._json("get", kind, name)

    def find(self, kind: Kind, name: str) -> Obj | None:
        try:
            return self.get(kind, name)
        except ClusterError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def list(self, kind: Kind, label_selector: str = "", namespace: str = "") -> list[Obj]:
        found: list[Obj] = []
        params = {"limit": str(PAGE_SIZE), "labelSelector": label_selector}
        while True:
            page = self._json("get", kind, params=params, namespace=namespace)
            found += page["items"]
            params["continue"] = page["metadata"].get("continue", "")
            if not params["continue"]:
                return found

    def create(self, kind: Kind, obj: Obj) -> Obj:
        obj = {**obj, "metadata": {**obj["metadata"], "namespace": self.namespace}}
        return self._json("post", kind, content=obj, what=obj["metadata"].get("name", ""))

    def patch(self, kind: Kind, name: str, change: Mapping[str, Any]) -> Obj:
        _check_name(f"a {kind.kind}", name)
        return self._json("patch", kind, name, content=change)

    def user_name(self) -> str:
        review = {"apiVersion": SELF_SUBJECT_REVIEWS.api_version, "kind": SELF_SUBJECT_REVIEWS.kind}
        answer = self._json("post", SELF_SUBJECT_REVIEWS, content=review)
        return str(answer["status"]["userInfo"]["username"])

    def pod_log(self, namespace: str, pod: str, since: str) -> Iterator[bytes]:
        path = {"version": "v1", "namespace": namespace, "url": f"pods/{pod}/log"}
        params = {"sinceTime": since}
        return self._send("get", f"log of pod {namespace}/{pod}", path, params=params, stream=True).iter_lines()

    def _json(
        self,
        verb: str,
        kind: Kind,
        name: str = "",
        *,
        params: Mapping[str, str] | None = None,
        content: Mapping[str, Any] | None = None,
        what: str = "",
        namespace: str = "",
    ) -> Obj:
        path: dict[str, Any] = {"version": kind.api_version, "url": f"{kind.plural}/{name}" if name else kind.plural}
        if kind.namespaced:
            path["namespace"] = namespace or self.namespace
        more: dict[str, Any] = {"params": params} if params else {}
        if content is not None:
            more["json"] = content
        if verb == "patch":
            more["headers"] = {"Content-Type": "application/merge-patch+json"}
        where = f"{namespace or self.namespace}/" if kind.namespaced else ""
        subject = f"{kind.kind} {where}{name or what}" if name or what else f"{kind.plural} of {where.rstrip('/')}"
        answer: Obj = self._send(verb, subject, path, **more).json()
        return answer

    def _send(self, verb: str, subject: str, path: Mapping[str, Any], **more: Any) -> "Response":
        import requests
        from pykube.exceptions import PyKubeError

        try:
            response: Response = getattr(self._client, verb)(**path, **more)
        except (requests.RequestException, PyKubeError, OSError) as error:
            unclear = "" if verb == "get" else "; whether it was carried out is not known, so look before you try again"
            fact = f"{subject}: {self._server} does not answer ({_first_line(error)}){unclear}"
            raise ClusterError(f"{fact}; check the kubeconfig and the network", NO_ANSWER) from None
        if response.ok:
            return response
        raise ClusterError(f"{subject}: {_answer_text(response)}", response.status_code)


def _check_name(of: str, name: str) -> None:
    """Nothing but a name may stand in the path of a request: with a slash in it, it would be another object's."""
    if not _NAME.fullmatch(name):
        raise RefusedError(
            f"{name!r} cannot be the name of {of}; write its metadata.name alone: small letters, digits, '-' and '.'"
        )


def _document(access: Access) -> Obj:
    """A kubeconfig as pykube reads one, with everything inside it."""
    cluster = {"server": access.server}
    if access.authority:
        cluster["certificate-authority-data"] = _base64(access.authority)
    user: Obj = {}
    if access.exec is not None:
        env = [{"name": name, "value": value} for name, value in access.exec.env.items()]
        command, *args = access.exec.command
        user["exec"] = {"command": command, "args": args, "env": env, "apiVersion": access.exec.api_version}
    elif access.token_file is not None:
        user["token"] = access.token_file.read_text().strip()
    elif access.token:
        user["token"] = access.token
    if access.certificate:
        user["client-certificate-data"] = _base64(access.certificate)
        user["client-key-data"] = _base64(access.key)
    return {
        "clusters": [{"name": "self", "cluster": cluster}],
        "users": [{"name": "self", "user": user}],
        "contexts": [{"name": "self", "context": {"cluster": "self", "user": "self", "namespace": access.namespace}}],
        "current-context": "self",
    }


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _first_line(error: Exception) -> str:
    tried = error.args[0] if error.args else None  # what requests wraps around the last try tells its path, at length
    cause = getattr(tried, "reason", None) or error
    return (str(cause).splitlines() or [type(cause).__name__])[0][:200]


def _answer_text(response: "Response") -> str:
    """The server's own words, and what may help."""
    try:
        said = str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        said = f"{response.status_code} {response.reason}"
    remedies = {
        401: "log in again, or check the kubeconfig",
        403: "ask for the right, or use another context",
        NOT_FOUND: "check the name, and --namespace",
        CONFLICT: "look at what is there, and try again",
    }
    return f"{said}; {remedies.get(response.status_code, 'put right what it says, and try again')}"
