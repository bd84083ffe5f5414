"""The command line of each component. Pure: files and ports in, words out.

The flags are the smallest set that was seen to work, and each that isn't obvious says why it is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from tests.e2e.controlplane import certificates
from tests.e2e.controlplane.certificates import Pki
from tests.e2e.controlplane.paths import Layout
from tests.e2e.controlplane.ports import LOOPBACK, Ports

ETCD_QUOTA_BYTES = 8 * 1024**3
SERVICE_RANGE = "10.0.0.0/24"
ISSUER = "https://kubernetes.default.svc"

# What the tests, the chart and the policies rely on. Controllers for nodes and volumes would only cost CPU, and
# the one that collects Pods would delete those of a node that doesn't exist, which is how tests make them.
CONTROLLERS = (
    "clusterrole-aggregation-controller",  # a role that adds its rules to view, edit and admin
    "deployment-controller",  # the workers of a pool, and the operator itself
    "garbage-collector-controller",  # ownerReferences
    "namespace-controller",  # deletion of a namespace with all that is in it
    "replicaset-controller",  # a Deployment's Pods
    "root-ca-certificate-publisher-controller",  # the ConfigMap kube-root-ca.crt, which every Pod mounts
    "serviceaccount-controller",  # the account `default` of each namespace, without which no Pod is accepted
    "serviceaccount-token-controller",  # Secrets of type service-account-token
    "validatingadmissionpolicy-status-controller",  # type warnings on a policy's expressions
)


class Component(StrEnum):
    """The processes of a control plane, in the order of their start; each value is its binary's name."""

    ETCD = "etcd"
    APISERVER = "kube-apiserver"
    CONTROLLER_MANAGER = "kube-controller-manager"


@dataclass(frozen=True)
class Options:
    """What a user of the control plane may choose; `extra_flags` stand last on a command line, so they win."""

    fsync: bool = False
    controllers: tuple[str, ...] = CONTROLLERS
    extra_flags: Mapping[Component, Sequence[str]] = field(default_factory=dict)


def flags(component: Component, layout: Layout, ports: Ports, options: Options) -> list[str]:
    """The component's arguments."""
    match component:
        case Component.ETCD:
            own = _etcd(layout, ports, options.fsync)
        case Component.APISERVER:
            own = _apiserver(layout, ports)
        case Component.CONTROLLER_MANAGER:
            own = _controller_manager(layout, ports, options.controllers)
        case _:
            assert_never(component)
    return [*own, *options.extra_flags.get(component, ())]


def _etcd(layout: Layout, ports: Ports, fsync: bool) -> list[str]:
    pki = Pki(layout.pki)
    client, peer = f"https://{LOOPBACK}:{ports.etcd}", f"https://{LOOPBACK}:{ports.etcd_peer}"
    certificate, key = pki.certificate(certificates.ETCD_SERVER), pki.key(certificates.ETCD_SERVER)
    authority = pki.certificate(certificates.AUTHORITY)
    return [
        "--name=fencepost",
        f"--data-dir={layout.etcd_data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-client-http-urls=https://{LOOPBACK}:{ports.etcd_http}",  # or /health slows gRPC on the same port
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=fencepost={peer}",
        f"--cert-file={certificate}",
        f"--key-file={key}",
        f"--trusted-ca-file={authority}",
        "--client-cert-auth=true",
        f"--peer-cert-file={certificate}",
        f"--peer-key-file={key}",
        f"--peer-trusted-ca-file={authority}",
        "--peer-client-cert-auth=true",
        "--enable-grpc-gateway=false",  # nobody here speaks JSON to it
        f"--quota-backend-bytes={ETCD_QUOTA_BYTES}",  # the default of 2 GiB is too small for a benchmark
        "--log-level=warn",
        *([] if fsync else ["--unsafe-no-fsync"]),
    ]


def _apiserver(layout: Layout, ports: Ports) -> list[str]:
    pki = Pki(layout.pki)
    return [
        f"--etcd-servers=https://{LOOPBACK}:{ports.etcd}",
        f"--etcd-cafile={pki.certificate(certificates.AUTHORITY)}",
        f"--etcd-certfile={pki.certificate(certificates.ETCD_CLIENT)}",
        f"--etcd-keyfile={pki.key(certificates.ETCD_CLIENT)}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={ports.apiserver}",
        f"--tls-cert-file={pki.certificate(certificates.SERVER)}",
        f"--tls-private-key-file={pki.key(certificates.SERVER)}",
        f"--client-ca-file={pki.certificate(certificates.AUTHORITY)}",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={pki.service_account_public_key}",
        f"--service-account-signing-key-file={pki.key(certificates.SERVICE_ACCOUNT)}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        "--endpoint-reconciler-type=none",  # a loopback address may not stand in an Endpoints object
        # A stop then takes 2 s; without it, it lasts as long as any client keeps its connection, up to a minute.
        "--shutdown-send-retry-after=true",
        "--profiling=true",  # benchmarks read /debug/pprof/profile
    ]


def _controller_manager(layout: Layout, ports: Ports, controllers: tuple[str, ...]) -> list[str]:
    pki = Pki(layout.pki)
    return [
        f"--kubeconfig={layout.controller_manager_kubeconfig}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={ports.controller_manager}",  # only for /healthz, which needs no authentication
        f"--tls-cert-file={pki.certificate(certificates.SERVER)}",
        f"--tls-private-key-file={pki.key(certificates.SERVER)}",
        f"--service-account-private-key-file={pki.key(certificates.SERVICE_ACCOUNT)}",
        f"--root-ca-file={pki.certificate(certificates.AUTHORITY)}",
        f"--cluster-signing-cert-file={pki.certificate(certificates.AUTHORITY)}",
        f"--cluster-signing-key-file={pki.key(certificates.AUTHORITY)}",
        "--use-service-account-credentials=true",  # each controller with its own name and rights, as in production
        f"--controllers={','.join(controllers)}",
        "--leader-elect=false",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]
