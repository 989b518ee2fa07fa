"""Defines the randomness and the encryption that adapters need; the shell implements it and passes it in."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class RsaPadding(StrEnum):
    """Says how text is padded before RSA (RFC 8017 section 7)."""

    PKCS1V15 = "pkcs1v15"
    """RSAES-PKCS1-v1_5; Java's `RSA/ECB/PKCS1Padding`."""
    OAEP_SHA1 = "oaep-sha1"
    """RSAES-OAEP with SHA-1 for both hashes."""
    OAEP_SHA256 = "oaep-sha256"
    """RSAES-OAEP with SHA-256 for both hashes."""
    OAEP_SHA256_MGF1_SHA1 = "oaep-sha256-mgf1-sha1"
    """RSAES-OAEP with SHA-256 and MGF1 with SHA-1: the default of Java's `OAEPWithSHA-256AndMGF1Padding`."""


class CipherError(ValueError):
    """Raised for a key that cannot be read, or that takes less text than this; the message contains neither."""


class Ciphers(Protocol):
    """Gives randomness and encryption. A public key is a certificate or a key in PEM, or a DER SubjectPublicKeyInfo."""

    def random_bytes(self, count: int) -> bytes:
        """Return so many unpredictable bytes."""
        ...

    def rsa_bits(self, public_key: bytes) -> int:
        """Return the length of the key's modulus. Raises CipherError when it is not an RSA key."""
        ...

    def rsa_encrypt(self, public_key: bytes, plain: bytes, padding: RsaPadding) -> bytes:
        """Encrypt the text for the holder of the private key. Raises CipherError for a bad key or too long a text."""
        ...

    def rsa_encrypt_pkcs1v15(self, certificate_pem: bytes, plain: bytes) -> bytes:
        """Encrypt the text with the padding that most operators require."""
        ...

    def aes_cbc_encrypt(self, key: bytes, iv: bytes, plain: bytes) -> bytes:
        """Encrypt with AES in CBC mode and PKCS#7 padding (NIST SP 800-38A; RFC 5652 section 6.3); the key's length
        selects the AES. Raises CipherError unless the key has 16, 24 or 32 bytes and the initialization vector 16."""
        ...
