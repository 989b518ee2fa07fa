"""Airtel Money's signature with real ciphers equals the published vector and can be decrypted."""

from __future__ import annotations

import base64

from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from mmo_sansio.http.messages import header_value
from mmo_sansio.providers.airtel_money.wire import signature_headers
from mmo_sansio.providers.common.interface import RsaPadding
from mmo_trio.system.ciphers import SystemCiphers, rsa_padding

BODY = (
    b'{"reference":"ref1","subscriber":{"country":"UG","currency":"UGX","msisdn":"752000000"},'
    b'"transaction":{"amount":1000,"country":"UG","currency":"UGX","id":"GW0001"}}'
)
SIGNATURE = (
    b"2dp6JUuPZzl0TjsKgcbmps/+JQBUiP7ghHKPBW8HVUU31AYjjPjqhxfoLCYwKy6LIOnGZlTlq08lwQbgEq1DCx8Nzn2RuaQqT1S8"
    b"bA2YX7HTJk7nOV2FCa4+49uRhR+6qPkWoZlPq9OYEpEa7opJ9AqkNnIz877JfkP4ng1BFL+nEwFISUYQ2k1ycUMbJbTod4baP+k8"
    b"kNZoYLgLfwAExvSlmTXzEB/qpwrVBhn/cHs="
)


class CountingCiphers(SystemCiphers):
    """Combines real ciphers with random numbers that count from 0."""

    def random_bytes(self, count: int) -> bytes:
        return bytes(range(count))


def test_a_signature_is_the_published_one_and_its_key_is_for_the_operator_only() -> None:
    private_key = generate_private_key(65537, 1024)
    public_key = private_key.public_key().public_bytes(
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    )
    headers = signature_headers(BODY, CountingCiphers(), public_key, RsaPadding.OAEP_SHA256)
    assert header_value(headers, b"x-signature") == SIGNATURE
    sealed = base64.b64decode(header_value(headers, b"x-key") or b"")
    assert private_key.decrypt(sealed, rsa_padding(RsaPadding.PKCS1V15)) == (
        b"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=:AAECAwQFBgcICQoLDA0ODw=="
    )
