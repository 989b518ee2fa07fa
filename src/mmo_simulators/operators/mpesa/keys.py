"""Opens the simulated M-Pesa with the key pair for secrets that only the operator may read.

The key pair is published here, and always the same, so that a certificate that was fetched once
stays right."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from mmo_simulators.operators.mpesa.api import MpesaSimulator

_NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "simulated M-Pesa")])

# The usual exponent (RFC 8017 appendix A): no secret.
_EXPONENT: Final = 65_537
_PRIME_1: Final = int(
    "fe2e24e0a60af6b6e56e7b0c5e642fc60d2fa8ff3c5889ca805bbcc296681ece"
    "f65289bbf3ccbf2e07075972d3aba2cbb10cbd37296db54c6a98e2491f6b7b95"
    "93e899d58eb3f2986d936e5cda3827b2ee714fbb71aad852ce1e9de79ccd4793"
    "9cd3683d5019bba112bb0dee1166326c735d97f5d62f95409c42c37a644e66fb",
    16,
)
_PRIME_2: Final = int(
    "c982adc78b7dffaf3d56ee91a701047a25c0defca89714ec6f5d73f196aed2fa"
    "0432e6324f2a957ce3d1422316ef69f185ec46a74306c155ea1eebe2dc562148"
    "273ca72d2e59921f197f952a78d222cfa4857240e1b86b665cd508b7f51482cd"
    "c43fbcd3e27e49da7170ee17ba48651ee01edd6dd60cd8e2fa2f6ecc4683deb1",
    16,
)
_BEGIN: Final = datetime(2022, 1, 1, tzinfo=UTC)
_END: Final = datetime(2024, 1, 1, tzinfo=UTC)


def open_mpesa() -> MpesaSimulator:
    """Return a new simulated operator. Its certificate has expired, as the real ones have."""
    key = _load_key()
    # Signed by itself: clients take its key, and check neither issuer nor dates.
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_NAME)
        .issuer_name(_NAME)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(_BEGIN)
        .not_valid_after(_END)
        .sign(key, hashes.SHA256())
    )

    def decrypt(secret: bytes) -> bytes | None:
        try:
            return key.decrypt(secret, padding.PKCS1v15())
        except ValueError:
            return None

    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    return MpesaSimulator(certificate=pem, decrypt=decrypt)


def _load_key() -> rsa.RSAPrivateKey:
    d = pow(_EXPONENT, -1, (_PRIME_1 - 1) * (_PRIME_2 - 1))
    return rsa.RSAPrivateNumbers(
        p=_PRIME_1,
        q=_PRIME_2,
        d=d,
        dmp1=rsa.rsa_crt_dmp1(d, _PRIME_1),
        dmq1=rsa.rsa_crt_dmq1(d, _PRIME_2),
        iqmp=rsa.rsa_crt_iqmp(_PRIME_1, _PRIME_2),
        public_numbers=rsa.RSAPublicNumbers(_EXPONENT, _PRIME_1 * _PRIME_2),
        # Not checked again: it is always the same, and nobody forged it.
    ).private_key(unsafe_skip_rsa_key_validation=True)
