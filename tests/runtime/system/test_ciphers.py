"""The owner of the private key can decrypt what adapters encrypt; published vectors are met
exactly."""

from __future__ import annotations

import base64
from functools import cache

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import load_pem_x509_certificate

from mmo_sansio.providers.common.interface import CipherError, Ciphers, RsaPadding
from mmo_trio.system.ciphers import SystemCiphers, rsa_padding

CIPHERS: Ciphers = SystemCiphers()


@cache
def private_key(bits: int) -> RSAPrivateKey:
    """Return an RSA key, which is generated once."""
    return generate_rsa(65537, bits)


def public_key(bits: int, encoding: Encoding = Encoding.DER) -> bytes:
    """Return its public key in the form that operators publish."""
    return private_key(bits).public_key().public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize("encoding", [Encoding.DER, Encoding.PEM])
@pytest.mark.parametrize("padding", RsaPadding)
def test_the_holder_of_the_private_key_reads_what_was_encrypted(
    padding: RsaPadding, encoding: Encoding
) -> None:
    sealed = CIPHERS.rsa_encrypt(public_key(2048, encoding), b"1234", padding)
    assert private_key(2048).decrypt(sealed, rsa_padding(padding)) == b"1234"
    assert sealed != CIPHERS.rsa_encrypt(public_key(2048, encoding), b"1234", padding)


def test_a_certificate_serves_as_a_public_key() -> None:
    pem = trustme.CA(key_type=trustme.KeyType.RSA).cert_pem.bytes()
    assert len(CIPHERS.rsa_encrypt(pem, b"Safaricom999!*!", RsaPadding.PKCS1V15)) == 256
    assert CIPHERS.rsa_bits(pem) == load_pem_x509_certificate(pem).public_key().key_size  # type: ignore[union-attr]


def test_a_key_of_1024_bits_takes_key_and_vector_with_pkcs1v15_not_with_oaep_sha256() -> None:
    text = b":".join((base64.b64encode(bytes(32)), base64.b64encode(bytes(16))))
    assert len(text) == 69
    assert CIPHERS.rsa_bits(public_key(1024)) == 1024
    assert len(CIPHERS.rsa_encrypt(public_key(1024), text, RsaPadding.PKCS1V15)) == 128
    with pytest.raises(CipherError, match="1024 bits is too short"):
        CIPHERS.rsa_encrypt(public_key(1024), text, RsaPadding.OAEP_SHA256)


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"SECRET-ish nonsense",
        b"-----BEGIN PUBLIC KEY-----\nSECRET\n-----END PUBLIC KEY-----",
        b"-----BEGIN CERTIFICATE-----\nSECRET\n-----END CERTIFICATE-----",
        generate_private_key(SECP256R1())
        .public_key()
        .public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    ],
    ids=["nothing", "nonsense", "no PEM", "no certificate", "another kind of key"],
)
def test_what_is_no_rsa_key_is_refused_without_being_quoted(key: bytes) -> None:
    with pytest.raises(CipherError) as refusal:
        CIPHERS.rsa_encrypt(key, b"1234", RsaPadding.PKCS1V15)
    assert "SECRET" not in str(refusal.value)
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


def test_aes_cbc_writes_what_nist_published() -> None:
    """NIST SP 800-38A F.2.5 (CBC-AES256.Encrypt), its first block; the padding is a second one."""
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    plain = bytes.fromhex("6bc1bee22e409f96e93d7e117393172a")
    sealed = CIPHERS.aes_cbc_encrypt(key, bytes(range(16)), plain)
    assert sealed[:16].hex() == "f58c4c04d6e5f1ba779eabfb5f7bfbd6"
    assert len(sealed) == 32


@pytest.mark.parametrize(("key", "vector"), [(31, 16), (32, 15), (0, 0)])
def test_aes_refuses_a_key_or_a_vector_of_another_length(key: int, vector: int) -> None:
    with pytest.raises(CipherError):
        CIPHERS.aes_cbc_encrypt(bytes(key), bytes(vector), b"x")


def test_chance_gives_what_is_asked_for_and_never_twice() -> None:
    assert len(CIPHERS.random_bytes(32)) == 32
    assert CIPHERS.random_bytes(32) != CIPHERS.random_bytes(32)
