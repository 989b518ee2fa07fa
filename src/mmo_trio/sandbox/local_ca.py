"""A local certificate authority issues the certificates of the sandbox, `mmo listen` and the demo.

It consists of two files in a data directory: `ca-key.pem`, readable by its owner only, and `ca.pem`, which the sandbox
trusts in addition to the authorities in `egress.extra_ca_file`. Production doesn't use it.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from attrs import field, frozen
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from mmo_trio.system.fault_report import DamagedFile

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 397
"""The longest lifetime that browsers accept."""
BACKDATE = timedelta(days=1)
"""How long before its issue a certificate is valid, for clocks that are behind."""
AUTHORITY_NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mmo-gateway sandbox authority")])


@frozen
class CertificateAuthority:
    """Issues certificates for local servers."""

    certificate_file: Path
    """The authority's certificate (PEM), which clients must trust."""
    _key: ec.EllipticCurvePrivateKey = field(repr=False, eq=False)

    def issue(self, *hosts: str) -> ssl.SSLContext:
        """Return a server's TLS context with a fresh certificate for these host names and IP addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        subject = x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "mmo-gateway")])
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            _certificate_builder(CERTIFICATE_DAYS)
            .subject_name(subject)
            .issuer_name(AUTHORITY_NAME)
            .public_key(key.public_key())
            .add_extension(names, critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(identifier, critical=False)
            .add_extension(authority, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return _server_context(_to_pem(key) + certificate.public_bytes(serialization.Encoding.PEM))


def ensure_authority(directory: Path) -> CertificateAuthority:
    """Return the authority of this directory, created when there is none yet.

    Processes that start together get the same key. Raises OSError when the directory can't be written, and DamagedFile
    when `ca-key.pem` holds no elliptic-curve key.
    """
    directory.mkdir(parents=True, exist_ok=True)
    key_file, certificate_file = directory / "ca-key.pem", directory / "ca.pem"
    if not key_file.exists():
        fresh = _to_pem(ec.generate_private_key(ec.SECP256R1()))
        with suppress(FileExistsError):  # Another process was faster, and its key is used.
            _write_atomically(key_file, fresh, replace=False)
    try:
        key: object = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
    except ValueError:
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise DamagedFile(f"{key_file} holds no elliptic-curve key: remove it to have one made.")
    if not _is_valid_certificate(certificate_file, key):
        octets = _self_signed(key).public_bytes(serialization.Encoding.PEM)
        _write_atomically(certificate_file, octets, replace=True)
    return CertificateAuthority(certificate_file, key)


def _is_valid_certificate(file: Path, key: ec.EllipticCurvePrivateKey) -> bool:
    """Tell whether the file holds this key's certificate, valid longer than any that it issues."""
    try:
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    needed_until = datetime.now(UTC) + timedelta(days=CERTIFICATE_DAYS)
    is_long_valid = certificate.not_valid_after_utc > needed_until
    return is_long_valid and certificate.public_key() == key.public_key()


def _self_signed(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        _certificate_builder(AUTHORITY_DAYS)
        .subject_name(AUTHORITY_NAME)
        .issuer_name(AUTHORITY_NAME)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _certificate_builder(days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now - BACKDATE + timedelta(days=days))
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _to_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form, encryption = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, encryption)


def _server_context(key_and_certificate: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.NamedTemporaryFile() as file:  # The ssl module reads keys from files only.
        file.write(key_and_certificate)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def _write_atomically(file: Path, content: bytes, *, replace: bool) -> None:
    """Write the complete file or nothing, readable by its owner only. Raises FileExistsError when the file exists,
    unless `replace` is set."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "wb") as temporary:
            temporary.write(content)
            temporary.flush()
            os.fsync(temporary.fileno())
        if replace:
            os.replace(name, file)
        else:
            os.link(name, file)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)
