"""Provides random numbers and encryption for provider adapters, with the cryptography library."""

from __future__ import annotations

import os
from typing import assert_never

from attrs import frozen
from cryptography.hazmat.primitives.asymmetric.padding import (
    MGF1,
    OAEP,
    AsymmetricPadding,
    PKCS1v15,
)
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.padding import PKCS7
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key
from cryptography.x509 import load_pem_x509_certificate

from mmo_sansio.providers.common.interface import CipherError, RsaPadding

_PEM_CERTIFICATE_HEADER = b"-----BEGIN CERTIFICATE-----"
_PEM_HEADER = b"-----BEGIN"


@frozen
class SystemCiphers:
    """Implements the core's `Ciphers` with the system's random numbers and OpenSSL."""

    def random_bytes(self, count: int) -> bytes:
        """Return this many unpredictable bytes."""
        return os.urandom(count)

    def rsa_bits(self, public_key: bytes) -> int:
        """Return the length of the key's modulus. Raises CipherError when it is not an RSA key."""
        return _load_rsa_key(public_key).key_size

    def rsa_encrypt(self, public_key: bytes, plain: bytes, padding: RsaPadding) -> bytes:
        """Encrypt a text for the owner of the private key. Raises CipherError for an unusable key
        or a text that is too long."""
        key = _load_rsa_key(public_key)
        try:
            return key.encrypt(plain, rsa_padding(padding))
        except ValueError:
            raise CipherError(
                f"a key of {key.key_size} bits is too short for this text with {padding}"
            ) from None

    def aes_cbc_encrypt(self, key: bytes, iv: bytes, plain: bytes) -> bytes:
        """Encrypt with AES in CBC mode and PKCS#7 padding. Raises CipherError for a key or vector
        of a wrong length."""
        try:
            encryptor = Cipher(AES(key), CBC(iv)).encryptor()
        except ValueError:
            raise CipherError("AES takes a key of 16, 24 or 32 bytes and a vector of 16") from None
        padder = PKCS7(AES.block_size).padder()
        return encryptor.update(padder.update(plain) + padder.finalize()) + encryptor.finalize()


def rsa_padding(padding: RsaPadding) -> AsymmetricPadding:
    """Return the library's object for a padding."""
    match padding:
        case RsaPadding.PKCS1V15:
            return PKCS1v15()
        case RsaPadding.OAEP_SHA1:
            return OAEP(MGF1(SHA1()), SHA1(), None)
        case RsaPadding.OAEP_SHA256:
            return OAEP(MGF1(SHA256()), SHA256(), None)
        case RsaPadding.OAEP_SHA256_MGF1_SHA1:
            return OAEP(MGF1(SHA1()), SHA256(), None)
        case other:
            assert_never(other)


def _load_rsa_key(public_key: bytes) -> RSAPublicKey:
    try:
        key = _load_public_key(public_key)
    except Exception:  # The library raises several kinds; some quote the key.
        raise CipherError("this is no public key or certificate that can be read") from None
    if not isinstance(key, RSAPublicKey):
        raise CipherError("this key is not for RSA")
    return key


def _load_public_key(public_key: bytes) -> object:
    if _PEM_CERTIFICATE_HEADER in public_key:
        # M-Pesa publishes a certificate, others a key.
        return load_pem_x509_certificate(public_key).public_key()
    if public_key.lstrip().startswith(_PEM_HEADER):
        return load_pem_public_key(public_key)
    return load_der_public_key(public_key)
