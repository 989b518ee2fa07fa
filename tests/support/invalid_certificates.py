"""Generates certificates that clients must reject."""

from __future__ import annotations

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

SHA256_WITH_RSA = bytes.fromhex("06092a864886f70d01010b")
SHA1_WITH_RSA = bytes.fromhex("06092a864886f70d010105")


def server_with(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """A server that shows this certificate (PEM), however weak it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "both.pem")
        file.write_bytes(key + certificate)
        context.load_cert_chain(file)
    return context


def self_signed(host: str) -> ssl.SSLContext:
    """A server whose certificate for this host is signed by its own key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return server_with(certificate.public_bytes(serialization.Encoding.PEM), _in_pem(key))


def expired(authority: trustme.CA, host: str) -> ssl.SSLContext:
    """A server whose certificate ended yesterday."""
    now = datetime.now(UTC)
    certificate = authority.issue_cert(
        host, not_before=now - timedelta(days=2), not_after=now - timedelta(days=1)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


def signed_with_sha1(authority: trustme.CA, host: str) -> ssl.SSLContext:
    """A server whose certificate the authority (one with an RSA key) signed over a SHA-1 digest.

    Nothing makes those any more: so a SHA-256 one is taken, its algorithm renamed and signed anew.
    """
    leaf = authority.issue_cert(host, key_type=trustme.KeyType.RSA)
    good = x509.load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes())
    key = serialization.load_pem_private_key(authority.private_key_pem.bytes(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    signed = good.tbs_certificate_bytes.replace(SHA256_WITH_RSA, SHA1_WITH_RSA)
    signature = key.sign(signed, padding.PKCS1v15(), hashes.SHA1())
    algorithm = _der(0x30, SHA1_WITH_RSA + b"\x05\x00")
    weak = _der(0x30, signed + algorithm + _der(0x03, b"\x00" + signature))
    return server_with(ssl.DER_cert_to_PEM_cert(weak).encode(), leaf.private_key_pem.bytes())


def _der(tag: int, content: bytes) -> bytes:
    """A DER element, of fewer than 65536 octets."""
    return (
        bytes([tag, 0x82]) + len(content).to_bytes(2, "big") + content
        if len(content) > 127
        else bytes([tag, len(content)]) + content
    )


def _in_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
