"""Who the certificates name, what they may do, and that they are made once."""

from __future__ import annotations

import ipaddress
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.e2e.controlplane import certificates
from tests.e2e.controlplane.certificates import Pki

SERVES, CALLS = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    made = Pki(tmp_path_factory.mktemp("pki"))
    made.ensure()
    return made


def read(pki: Pki, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pki.certificate(name).read_bytes())


@pytest.mark.parametrize(
    ("name", "want_user", "want_group", "want_usages"),
    [
        (certificates.SERVER, "kube-apiserver", None, {SERVES}),
        (certificates.ETCD_SERVER, "etcd", None, {SERVES, CALLS}),
        (certificates.ETCD_CLIENT, "kube-apiserver-etcd-client", None, {CALLS}),
        (certificates.ADMIN, "fencepost-admin", "system:masters", {CALLS}),
        (certificates.CONTROLLER_MANAGER, "system:kube-controller-manager", None, {CALLS}),
    ],
)
def test_each_certificate_names_its_holder_and_its_use(
    pki: Pki, name: str, want_user: str, want_group: str | None, want_usages: set[x509.ObjectIdentifier]
) -> None:
    certificate = read(pki, name)

    def part(oid: x509.ObjectIdentifier) -> list[str | bytes]:
        return [attribute.value for attribute in certificate.subject.get_attributes_for_oid(oid)]

    assert part(NameOID.COMMON_NAME) == [want_user]
    assert part(NameOID.ORGANIZATION_NAME) == ([want_group] if want_group else [])
    assert set(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == want_usages
    certificate.verify_directly_issued_by(read(pki, certificates.AUTHORITY))


def test_servers_answer_for_loopback_and_for_the_name_inside_the_cluster(pki: Pki) -> None:
    names = read(pki, certificates.SERVER).extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert ipaddress.ip_address("127.0.0.1") in names.get_values_for_type(x509.IPAddress)
    assert {"localhost", "kubernetes.default.svc"} <= set(names.get_values_for_type(x509.DNSName))


def test_only_the_authority_may_sign(pki: Pki) -> None:
    def signs(name: str) -> bool:
        return read(pki, name).extensions.get_extension_for_class(x509.BasicConstraints).value.ca

    assert signs(certificates.AUTHORITY)
    assert not any(signs(name) for name in certificates.IDENTITIES)


def test_private_keys_are_for_their_owner_only(pki: Pki) -> None:
    keys = list(pki.folder.glob("*.key"))

    assert len(keys) == len(certificates.IDENTITIES) + 2  # the authority's and the service accounts'
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}
    assert load_pem_public_key(pki.service_account_public_key.read_bytes())


def test_what_is_there_stays_and_what_is_half_there_is_made_anew(tmp_path: Path) -> None:
    pki = Pki(tmp_path / "pki")
    pki.ensure()
    first = pki.certificate(certificates.ADMIN).read_bytes()

    pki.ensure()
    assert pki.certificate(certificates.ADMIN).read_bytes() == first

    (tmp_path / "pki/complete").unlink()
    pki.ensure()
    assert pki.certificate(certificates.ADMIN).read_bytes() != first


def test_two_control_planes_share_no_authority(pki: Pki, tmp_path: Path) -> None:
    other = Pki(tmp_path)
    other.ensure()

    with pytest.raises(InvalidSignature):
        read(other, certificates.SERVER).verify_directly_issued_by(read(pki, certificates.AUTHORITY))
