"""Creates the simulated M-Pesa's key pair, for secrets that only the operator may read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from mmo_simulators.operators.mpesa.api import MpesaSimulator

_NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "simulated M-Pesa")])


def open_mpesa() -> MpesaSimulator:
    """Return an operator with a fresh key. Its certificate has expired, as the real ones have."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    ended = datetime.now(UTC) - timedelta(days=365)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_NAME)
        .issuer_name(_NAME)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(ended - timedelta(days=730))
        .not_valid_after(ended)
        .sign(key, hashes.SHA256())
    )

    def decrypt(secret: bytes) -> bytes | None:
        try:
            return key.decrypt(secret, padding.PKCS1v15())
        except ValueError:
            return None

    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    return MpesaSimulator(certificate=pem, decrypt=decrypt)
