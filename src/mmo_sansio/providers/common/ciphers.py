"""What providers want done that takes chance or a cipher: named here, done by the shell, handed in at construction."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class RsaPadding(StrEnum):
    """How text is padded before RSA takes it (RFC 8017 section 7)."""

    PKCS1V15 = "pkcs1v15"
    """RSAES-PKCS1-v1_5; Java's `RSA/ECB/PKCS1Padding`."""
    OAEP_SHA1 = "oaep-sha1"
    """RSAES-OAEP with SHA-1 for both hashes."""
    OAEP_SHA256 = "oaep-sha256"
    """RSAES-OAEP with SHA-256 for both hashes."""
    OAEP_SHA256_MGF1_SHA1 = "oaep-sha256-mgf1-sha1"
    """RSAES-OAEP with SHA-256 and MGF1 with SHA-1: Java's `OAEPWithSHA-256AndMGF1Padding` unless told otherwise."""


class CipherError(ValueError):
    """A key can't be read, or takes less text than this; the message holds neither."""


class Ciphers(Protocol):
    """Chance and ciphers. A public key is a certificate or a key in PEM, or a DER SubjectPublicKeyInfo."""

    def random_bytes(self, count: int) -> bytes:
        """So many unpredictable bytes."""
        ...

    def rsa_bits(self, public_key: bytes) -> int:
        """The length of the key's modulus. Raises CipherError when it is no RSA key."""
        ...

    def rsa_encrypt(self, public_key: bytes, plain: bytes, padding: RsaPadding) -> bytes:
        """The text for the holder of the private key. Raises CipherError for a bad key or too long a text."""
        ...

    def rsa_encrypt_pkcs1v15(self, certificate_pem: bytes, plain: bytes) -> bytes:
        """The same with the padding that most operators name."""
        ...

    def aes_cbc_encrypt(self, key: bytes, iv: bytes, plain: bytes) -> bytes:
        """AES in CBC mode with PKCS#7 padding (NIST SP 800-38A; RFC 5652 section 6.3); the key's length says which
        AES. Raises CipherError unless the key has 16, 24 or 32 bytes and the initialization vector 16."""
        ...
