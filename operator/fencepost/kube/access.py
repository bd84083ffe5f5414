"""Where the API server is and who we are there: from a kubeconfig, or from the files that a pod is given.

Kubeconfigs are read by hand, because certificates then stay in memory instead of lying about as temporary files, and
token files are read again as they change. Understood are: several files in KUBECONFIG, merged as kubectl does; of a
cluster `server`, `certificate-authority(-data)`, `insecure-skip-tls-verify`, `tls-server-name`; of a user
`client-certificate(-data)`, `client-key(-data)`, `token`, `tokenFile`, and `exec` plugins that give a token. Not
understood, and refused where they are set: `auth-provider`, passwords, impersonation (`as`), `proxy-url`.
"""

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

IN_CLUSTER_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST_VARIABLE = "KUBERNETES_SERVICE_HOST"
PORT_VARIABLE = "KUBERNETES_SERVICE_PORT"
NAMESPACE_DEFAULT = "default"
REFUSED_CLUSTER_FIELDS = ("proxy-url",)
REFUSED_USER_FIELDS = ("auth-provider", "username", "password", "as", "as-groups", "as-uid", "as-user-extra")


class AccessError(Exception):
    """No way to an API server can be read; the message names the file, the fact and the remedy."""


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A command that prints an ExecCredential with a token."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    """Besides our own environment."""
    api_version: str
    install_hint: str = ""


@dataclass(frozen=True, slots=True)
class Access:
    """One API server as one user. Of `exec`, `token_file` and `token` the first that is set counts."""

    server: str
    """`https://host:port`, with no slash at the end."""
    user: str = ""
    """For messages; the server decides by certificate or token."""
    namespace: str = NAMESPACE_DEFAULT
    authority: str = ""
    """PEM; empty: the system's authorities."""
    verify: bool = True
    tls_server_name: str = ""
    certificate: str = ""
    """Of the client, PEM."""
    key: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    exec: ExecPlugin | None = None

    def ssl_context(self) -> ssl.SSLContext:
        """For connections to the server; AccessError where a certificate cannot be used."""
        try:
            context = ssl.create_default_context(cadata=self.authority or None)
            if not self.verify:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if self.certificate:
                _load_client_certificate(context, self.certificate, self.key)
        except ssl.SSLError as error:
            raise AccessError(
                f"a certificate for {self.server} cannot be used ({error}): make the kubeconfig anew"
            ) from error
        return context


def _load_client_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """The ssl module takes a client's certificate from files only: for a moment it lies in one of mode 0600."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(f"{certificate}\n{key}\n")
        file.flush()
        context.load_cert_chain(file.name)


def access_in_cluster(folder: Path = IN_CLUSTER_FOLDER, environ: Mapping[str, str] = os.environ) -> Access:
    """As a pod's service account; AccessError outside of a pod."""
    host, port = environ.get(HOST_VARIABLE), environ.get(PORT_VARIABLE)
    if not host or not port:
        raise AccessError(f"{HOST_VARIABLE} and {PORT_VARIABLE} are not set: this is no pod; name a kubeconfig instead")
    token_file = folder / "token"
    if not token_file.is_file():
        raise AccessError(f"{token_file} is missing: set automountServiceAccountToken for this pod")
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        user="the pod's service account",
        namespace=_read_text(folder / "namespace").strip(),
        authority=_read_text(folder / "ca.crt"),
        token_file=token_file,
    )


def access_default(context: str | None = None, environ: Mapping[str, str] = os.environ) -> Access:
    """As kubectl would: the files in KUBECONFIG, else `~/.kube/config`, else the pod that we run in."""
    if environ.get("KUBECONFIG") or _home_kubeconfig(environ).exists() or not environ.get(HOST_VARIABLE):
        return access_from_kubeconfig(None, context, environ)
    return access_in_cluster(environ=environ)


def access_from_kubeconfig(
    path: Path | None, context: str | None = None, environ: Mapping[str, str] = os.environ
) -> Access:
    """The named context of a kubeconfig, or its current one; path None: KUBECONFIG, else `~/.kube/config`."""
    merged = _merge(_paths(path, environ))
    context_name = context or merged.current_context
    if not context_name:
        raise AccessError(f"{merged.names} has no current context: `kubectl config use-context NAME`, or name one")
    entry, _ = merged.entry("context", context_name)
    cluster, cluster_folder = merged.entry("cluster", str(entry.get("cluster", "")))
    user_name = str(entry.get("user", ""))
    user, user_folder = merged.entry("user", user_name) if user_name else ({}, Path())
    _refuse(cluster, REFUSED_CLUSTER_FIELDS, f"cluster {entry.get('cluster')!r} in {merged.names}")
    _refuse(user, REFUSED_USER_FIELDS, f"user {user_name!r} in {merged.names}")
    if not cluster.get("server"):
        raise AccessError(
            f"cluster {entry.get('cluster')!r} in {merged.names} names no server: add `server: https://…`"
        )
    return Access(
        server=str(cluster["server"]).rstrip("/"),
        user=user_name,
        namespace=str(entry.get("namespace") or NAMESPACE_DEFAULT),
        authority=_file_or_data(cluster, "certificate-authority", cluster_folder),
        verify=not cluster.get("insecure-skip-tls-verify", False),
        tls_server_name=str(cluster.get("tls-server-name") or ""),
        certificate=_file_or_data(user, "client-certificate", user_folder),
        key=_file_or_data(user, "client-key", user_folder),
        token=str(user.get("token") or ""),
        token_file=user_folder / user["tokenFile"] if user.get("tokenFile") else None,
        exec=_exec_plugin(user["exec"], user_folder) if user.get("exec") else None,
    )


@dataclass(slots=True)
class _Merged:
    """Several kubeconfigs as one: whichever file says a thing first has the last word."""

    names: str
    current_context: str = ""
    entries: dict[tuple[str, str], tuple[Mapping[str, Any], Path]] = field(default_factory=dict)
    """By (sort, name): the entry, and the folder that its relative paths start from."""

    def entry(self, sort: str, name: str) -> tuple[Mapping[str, Any], Path]:
        try:
            return self.entries[sort, name]
        except KeyError:
            known = ", ".join(sorted(other for kind, other in self.entries if kind == sort)) or "none"
            raise AccessError(f"{self.names} has no {sort} {name!r} (it has: {known}): name one of these") from None


def _home_kubeconfig(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"


def _paths(path: Path | None, environ: Mapping[str, str]) -> list[Path]:
    if path is not None:
        return [path]
    listed = [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return listed or [_home_kubeconfig(environ)]


def _merge(paths: list[Path]) -> _Merged:
    merged = _Merged(names=" or ".join(map(str, paths)))
    found = [path for path in paths if path.exists()]
    if not found:
        raise AccessError(f"there is no kubeconfig {merged.names}: set KUBECONFIG, or `--kubeconfig FILE`")
    for path in found:
        try:
            content = yaml.safe_load(_read_text(path)) or {}
            merged.current_context = merged.current_context or str(content.get("current-context") or "")
            for sort in ("context", "cluster", "user"):
                for entry in content.get(f"{sort}s") or []:
                    merged.entries.setdefault((sort, entry["name"]), (entry.get(sort) or {}, path.parent))
        except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
            raise AccessError(f"{path} is no kubeconfig ({error}): `kubectl config view` shows one") from error
    return merged


def _refuse(entry: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    for name in names:
        if entry.get(name):
            raise AccessError(f"{where} sets {name}, which is not supported: use a certificate, a token or exec")


def _file_or_data(entry: Mapping[str, Any], name: str, folder: Path) -> str:
    data = entry.get(f"{name}-data")
    if not data:
        return _read_text(folder / entry[name]) if entry.get(name) else ""
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise AccessError(f"{name}-data is not base64 of a PEM file ({error}): make the kubeconfig anew") from error


def _exec_plugin(entry: Mapping[str, Any], folder: Path) -> ExecPlugin:
    command = str(entry.get("command", ""))
    if os.sep in command:
        command = str(folder / command)
    return ExecPlugin(
        command=(command, *(str(arg) for arg in entry.get("args") or [])),
        env={str(pair["name"]): str(pair["value"]) for pair in entry.get("env") or []},
        api_version=str(entry.get("apiVersion", "client.authentication.k8s.io/v1")),
        install_hint=str(entry.get("installHint") or ""),
    )


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise AccessError(f"{path} cannot be read ({error.strerror}): check that it is there and yours") from error
