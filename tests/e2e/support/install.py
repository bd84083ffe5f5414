"""Fencepost's kinds, rights and policies in a cluster, as its chart ships them, and identities to use them with.

    fencepost = install(kubeconfig, folder)
    fencepost.operator_kubeconfig(), fencepost.worker_kubeconfig("pool-a-1"), fencepost.user_kubeconfig()

Each identity is a service account with a token; that of a worker is bound to a Pod object that nothing runs. The one
trap: a policy is enforced a second or two after it has been created, so `install` returns only once every policy has
been seen to refuse something. Installing again over what is there does no harm; nothing here uninstalls.
"""

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.api.codec import encode_run_status
from fencepost.api.names import (
    API_VERSION,
    DAG_RUNS,
    GROUP,
    LEASES,
    ROLE_LABEL,
    SHARD_LABEL,
    SYSTEM_NAMESPACE_DEFAULT,
    WORKERS,
)
from fencepost.core.names import SHARDS_DEFAULT
from fencepost.core.run_state import RunState
from tests.e2e.controlplane.kubeconfig import kubeconfig_for_token
from tests.e2e.controlplane.paths import REPOSITORY
from tests.e2e.controlplane.waiting import eventually

CRDS = REPOSITORY / "crds"
MANIFESTS = REPOSITORY / "charts" / "fencepost" / "files"
OPERATOR_ACCOUNT = "fencepost-operator"
WORKER_ACCOUNT = "fencepost-worker"
USER_ACCOUNT = "fencepost-test-user"
USER_NAMESPACE = "default"
RBAC_GROUP = "rbac.authorization.k8s.io"
TOKEN_LIFETIME = "24h"
ACTIVE_LIMIT_S = 60.0
ACTIVE_POLL_S = 0.2
KUBECTL_LIMIT_S = 60.0

Obj = dict[str, Any]


class InstallError(RuntimeError):
    """kubectl failed; the message has the command and its last words."""


@dataclass(frozen=True)
class Fencepost:
    """What `install` gives. Kubeconfig files of identities are written into `folder` and stand alone."""

    admin_kubeconfig: Path
    folder: Path

    def operator_kubeconfig(self) -> Path:
        """Of the operator's service account."""
        token = self._token(SYSTEM_NAMESPACE_DEFAULT, OPERATOR_ACCOUNT)
        return self._write("operator", token)

    def worker_kubeconfig(self, pod: str, pool: str = "") -> Path:
        """Of the workers' service account, or of one of this pool's own as the chart makes it, with a token bound to a
        Pod of this name; what is not there is made."""
        account = f"{WORKER_ACCOUNT}-{pool}" if pool else WORKER_ACCOUNT
        self._apply(*(_account_of_pool(account, pool) if pool else ()), _pod(pod, account))
        bound = ("--bound-object-kind=Pod", f"--bound-object-name={pod}")
        return self._write(f"worker-{pod}", self._token(SYSTEM_NAMESPACE_DEFAULT, account, *bound))

    def user_kubeconfig(self) -> Path:
        """Of a person with the built-in role `edit` in all namespaces."""
        self._apply(*_user())
        return self._write("user", self._token(USER_NAMESPACE, USER_ACCOUNT))

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """kubectl as the administrator; what it prints. InstallError where it fails."""
        return kubectl(self.admin_kubeconfig, *arguments, stdin=stdin)

    def _apply(self, *objects: Obj) -> None:
        self.kubectl("apply", "--filename=-", stdin=_list_of(objects))

    def _token(self, namespace: str, account: str, *bound: str) -> str:
        lifetime = f"--duration={TOKEN_LIFETIME}"
        return self.kubectl("create", "token", account, f"--namespace={namespace}", lifetime, *bound).strip()

    def _write(self, name: str, token: str) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return kubeconfig_for_token(self.admin_kubeconfig, self.folder / f"{name}.kubeconfig", token, name)


def install(kubeconfig: Path, folder: Path) -> Fencepost:
    """Apply CRDs, rights and policies as the administrator, and wait until all of them are in force."""
    manifests = sorted(MANIFESTS.glob("*.yaml"), key=lambda path: (path.name != "namespace.yaml", path.name))
    files = [f"--filename={path}" for path in (CRDS, *manifests)]
    kubectl(kubeconfig, "apply", *files)
    kinds = [f"{path.stem}.{GROUP}" for path in CRDS.glob("*.yaml")]
    kubectl(kubeconfig, "wait", "--for=condition=Established", *(f"crd/{kind}" for kind in kinds))
    eventually("every kind can be listed", lambda: _listed(kubeconfig, kinds), limit_s=ACTIVE_LIMIT_S)
    _wait_until_refused(kubeconfig, list(_probes_of_admin()))
    _wait_until_refused(kubeconfig, _probes_of_worker(), f"--as={_account_user(WORKER_ACCOUNT)}")
    return Fencepost(kubeconfig, folder)


def kubectl(kubeconfig: Path, *arguments: str, stdin: str = "") -> str:
    """Run kubectl on a cluster; what it prints. InstallError where it fails."""
    done = _run(kubeconfig, *arguments, stdin=stdin)
    if done.returncode:
        raise InstallError(f"kubectl {' '.join(arguments)} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout


def _run(kubeconfig: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = ["kubectl", f"--kubeconfig={kubeconfig}", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=KUBECTL_LIMIT_S, check=False)


def _listed(kubeconfig: Path, kinds: list[str]) -> bool:
    """False for a moment after a CRD has been changed, as its storage begins anew."""
    return _run(kubeconfig, "get", ",".join(kinds), "--all-namespaces", "--output=name").returncode == 0


def _wait_until_refused(kubeconfig: Path, probes: list[Obj], *options: str) -> None:
    """Return once a policy refuses each of these; nothing is stored either way. InstallError after a limit."""
    command = ("create", "--dry-run=server", "--validate=false", "--filename=-", *options)
    said = ""

    def all_refused() -> bool:
        nonlocal said
        said = _run(kubeconfig, *command, stdin=_list_of(probes)).stderr.strip()
        return said.count("ValidatingAdmissionPolicy") == len(probes)

    try:
        eventually("every policy is in force", all_refused, limit_s=ACTIVE_LIMIT_S, poll_s=ACTIVE_POLL_S)
    except TimeoutError as error:
        raise InstallError(f"{error}; what is to be refused by policies got: {said[-2000:]}") from error


def _probes_of_admin() -> Iterator[Obj]:
    """Runs that not even an administrator may create: one for each policy on runs, and each binding of the fence."""
    status = encode_run_status(RunState())
    yield _object(DAG_RUNS.kind, "probe-0000000000", spec={"dag": "probe"})
    yield _object(DAG_RUNS.kind, "probe", spec={"dag": "probe"}, status=status)
    for shard in range(SHARDS_DEFAULT):
        labels = {SHARD_LABEL: str(shard)}
        yield _object(DAG_RUNS.kind, f"probe-{shard}", labels=labels, spec={"dag": "probe"}, status=status)


def _probes_of_worker() -> list[Obj]:
    """What a worker may not create with a token that is bound to no pod."""
    lease = _object(LEASES.kind, "probe", SYSTEM_NAMESPACE_DEFAULT, labels={ROLE_LABEL: "worker"}, spec={})
    return [
        _object(WORKERS.kind, "probe", SYSTEM_NAMESPACE_DEFAULT, spec={"pool": "default", "slots": 1}),
        {**lease, "apiVersion": LEASES.api_version},
    ]


def _pod(name: str, account: str) -> Obj:
    """A Pod that no scheduler looks at, as restricted as the system namespace asks for."""
    container = {
        "name": "worker",
        "image": "fencepost/none",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "serviceAccountName": account,
        "schedulerName": "nobody",
        "containers": [container],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    return {**_object("Pod", name, SYSTEM_NAMESPACE_DEFAULT, spec=spec), "apiVersion": "v1"}


def _user() -> list[Obj]:
    account = {**_object("ServiceAccount", USER_ACCOUNT, USER_NAMESPACE), "apiVersion": "v1"}
    return [account, _binding("ClusterRoleBinding", USER_ACCOUNT, "edit", USER_ACCOUNT, USER_NAMESPACE)]


def _account_of_pool(account: str, pool: str) -> list[Obj]:
    """As in the chart's templates/workers.yaml."""
    role = {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"fencepost-serve-{pool}"},
        "rules": [{"apiGroups": [GROUP], "resources": ["workerpools"], "resourceNames": [pool], "verbs": ["serve"]}],
    }
    return [
        {**_object("ServiceAccount", account, SYSTEM_NAMESPACE_DEFAULT), "apiVersion": "v1"},
        role,
        _binding("ClusterRoleBinding", f"fencepost-serve-{pool}", f"fencepost-serve-{pool}", account),
        _binding("ClusterRoleBinding", account, WORKER_ACCOUNT, account),
        _binding("RoleBinding", account, WORKER_ACCOUNT, account),
    ]


def _binding(kind: str, name: str, role: str, account: str, namespace: str = SYSTEM_NAMESPACE_DEFAULT) -> Obj:
    """A service account's rights: cluster-wide, or in its own namespace."""
    metadata = {"name": name, **({"namespace": namespace} if kind == "RoleBinding" else {})}
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": kind.removesuffix("Binding"), "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


def _account_user(account: str) -> str:
    return f"system:serviceaccount:{SYSTEM_NAMESPACE_DEFAULT}:{account}"


def _object(
    kind: str, name: str, namespace: str = USER_NAMESPACE, *, labels: dict[str, str] | None = None, **parts: Obj
) -> Obj:
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, **parts}


def _list_of(objects: Sequence[Obj]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
