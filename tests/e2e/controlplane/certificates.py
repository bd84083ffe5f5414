"""The keys and certificates of one control plane, made once for each state folder.

One authority signs them all, and no other control plane has it. That is also how a component knows that
it talks to its own peer: an etcd or an API server of somebody else on the same port fails the handshake.

They are for loopback only and last ten years, so a kept cluster doesn't stop one morning.
"""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY = "ca"
SERVER = "kube-apiserver"
ETCD_SERVER = "etcd"
ETCD_CLIENT = "etcd-client"
ADMIN = "admin"
CONTROLLER_MANAGER = "kube-controller-manager"
SERVICE_ACCOUNT = "service-account"

LIFETIME = datetime.timedelta(days=3650)
CLOCK_SLACK = datetime.timedelta(hours=1)
ADDRESSES: tuple[x509.GeneralName, ...] = (
    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    x509.IPAddress(ipaddress.ip_address("10.0.0.1")),  # the service `kubernetes`, for a node's pods
    x509.DNSName("localhost"),
    x509.DNSName("kubernetes"),
    x509.DNSName("kubernetes.default"),
    x509.DNSName("kubernetes.default.svc"),
    x509.DNSName("kubernetes.default.svc.cluster.local"),
)


@dataclass(frozen=True)
class Identity:
    """Whom a certificate names: Kubernetes reads the user from `name` and the group from `organization`."""

    name: str
    organization: str | None = None
    serves: bool = False
    calls: bool = True


IDENTITIES = {
    SERVER: Identity("kube-apiserver", serves=True, calls=False),
    ETCD_SERVER: Identity("etcd", serves=True),  # calls too: etcd checks its own listener as a client
    ETCD_CLIENT: Identity("kube-apiserver-etcd-client"),
    ADMIN: Identity("fencepost-admin", "system:masters"),
    CONTROLLER_MANAGER: Identity("system:kube-controller-manager"),
}


@dataclass(frozen=True)
class Pki:
    """The folder of keys (`.key`) and certificates (`.crt`)."""

    folder: Path

    def certificate(self, name: str) -> Path:
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.folder / f"{name}.key"

    @property
    def service_account_public_key(self) -> Path:
        return self.folder / f"{SERVICE_ACCOUNT}.pub"

    @property
    def _complete(self) -> Path:
        return self.folder / "complete"

    def ensure(self) -> None:
        """Write everything unless it is there already; half a folder is written anew."""
        if self._complete.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        authority_key, authority = _make_authority()
        self._write(AUTHORITY, authority_key, authority)
        for name, identity in IDENTITIES.items():
            key = _new_key()
            self._write(name, key, _issue(identity, key, authority_key, authority))
        signing = _new_key()
        _write_private(self.key(SERVICE_ACCOUNT), signing)
        self.service_account_public_key.write_bytes(_public_bytes(signing))
        self._complete.touch()

    def _write(self, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        _write_private(self.key(name), key)
        self.certificate(name).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _make_authority() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = _new_key()
    subject = _subject(Identity("fencepost-test-authority"))
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        _dated(subject, subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return key, builder.sign(key, hashes.SHA256())


def _issue(
    identity: Identity,
    key: ec.EllipticCurvePrivateKey,
    authority_key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
) -> x509.Certificate:
    usages = []
    if identity.serves:
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
    if identity.calls:
        usages.append(ExtendedKeyUsageOID.CLIENT_AUTH)
    builder = (
        _dated(_subject(identity), authority.subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
    )
    if identity.serves:
        builder = builder.add_extension(x509.SubjectAlternativeName(ADDRESSES), critical=False)
    return builder.sign(authority_key, hashes.SHA256())


def _dated(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SLACK)
        .not_valid_after(now + LIFETIME)
    )


def _subject(identity: Identity) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, identity.name)]
    if identity.organization is not None:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, identity.organization))
    return x509.Name(parts)


def _write_private(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )


def _public_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
