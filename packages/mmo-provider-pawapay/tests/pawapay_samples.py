"""Provides an account with pawaPay, payments of it, the documentation's signed callback, byte by
byte, and its failure codes; `tests/captures/pawapay/bodies.toml` has its bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from mmo_provider_pawapay import PAWAPAY, PawapayProvider
from mmo_provider_pawapay.adapter import open_pawapay
from tests.support.bodies import read_bodies

from mmo_sansio import Money, Transaction
from mmo_sansio.providers import AdapterContext, HttpRequest, HttpResponse, Stage, Type
from mmo_sansio.testing import START, a_party, a_transaction
from mmo_sansio.testing.adapter_conformance import TransparentCiphers

TOKEN: Final = "SECRET-api-token"
HOOKS_URL: Final = "https://pay.example/hooks/pawapay/0123abcd"
NAME: Final = "pawapay"
AMOUNT: Final = Money(1500, "ZMW")

EC_KEY: Final = ec.derive_private_key(0xC0FFEE, ec.SECP256R1())
EC_PRIVATE_PEM: Final = EC_KEY.private_bytes(
    Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
).decode()


def public_pem(key: Any) -> str:
    """The public key of a private key, in PEM."""
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert isinstance(pem, bytes)
    return pem.decode()


def an_account(**options: Any) -> PawapayProvider:
    """An account in Zambia's market of MTN."""
    chosen = {"market": "MTN_MOMO_ZMB", "api_token": TOKEN, **options}
    return open_pawapay(
        NAME, PAWAPAY.title, chosen, AdapterContext(HOOKS_URL, TransparentCiphers())
    )


def a_payment(
    reference: str, type: Type = Type.PAYIN, amount: Money = AMOUNT, **members: Any
) -> Transaction:
    """A payment that is being submitted, with that gatewayReference."""
    members = {
        "stage": Stage.SUBMITTING,
        "submitted_at": START,
        "msisdn": "+260763456789",
        **members,
    }
    return a_transaction(
        members.pop("stage"),
        gateway_reference=reference,
        type=type,
        provider=NAME,
        country="ZM",
        requested=amount,
        party=a_party(msisdn=members.pop("msisdn")),
        **members,
    )


def answering(
    answer: HttpResponse | Exception, sent: list[HttpRequest]
) -> Callable[[HttpRequest], HttpResponse]:
    """An exchange that answers submissions and polls; the active configuration is not to be had."""

    def exchange(request: HttpRequest) -> HttpResponse:
        if b"/active-conf" in request.target:
            return HttpResponse(503)
        sent.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return exchange


def example(name: str) -> bytes:
    """An example of the documentation."""
    return read_bodies(NAME)[name].encode()


INITIATED_ID: Final = "f4401bd2-1568-4140-bf2d-eb77d2b2b639"

FOUND_ID: Final = "8917c345-4791-4285-a416-62f24b6982db"

# https://docs.pawapay.io/v2/docs/signatures: a callback; the key is not published.
SIGNED_CALLBACK_HEADERS: Final = (
    (b"content-type", b"application/json; charset=UTF-8"),
    (
        b"content-digest",
        b"sha-512=:0ki7QBS/0MA424uwOq3k5HnJnL5SRkPjit12m0YMpd4JgWiMvm9+yNT3FunkpDaTSsKhTkliQwJlRw9bgsos9w==:",
    ),
    (b"signature-date", b"2024-05-02T16:45:51.131905Z"),
    (
        b"signature",
        b"sig-pp=:MEQCIHFvGCUgyxmmowMufO4Yk20pBs3JHRax81si2QZVi9ByAiBPpg1WBhQjZ6fmi3a/gKcWiQ73Qm9Ol35On3c4K/flew==:",
    ),
    (
        b"signature-input",
        b'sig-pp=("@method" "@authority" "@path" "signature-date" "content-digest" "content-type")'
        b';alg="ecdsa-p256-sha256";keyid="CUSTOMER_TEST_KEY";created=1714657551;expires=1714657611',
    ),
)
SIGNED_CALLBACK_BASE: Final = (
    b'"@method": POST\n'
    b'"@authority": localhost:8080\n'
    b'"@path": /callback\n'
    b'"signature-date": 2024-05-02T16:45:51.131905Z\n'
    b'"content-digest": sha-512=:'
    b"0ki7QBS/0MA424uwOq3k5HnJnL5SRkPjit12m0YMpd4JgWiMvm9+yNT3FunkpDaTSsKhTkliQwJlRw9bgsos9w==:\n"
    b'"content-type": application/json; charset=UTF-8\n'
    b'"@signature-params": ("@method" "@authority" "@path" "signature-date" "content-digest" '
    b'"content-type")'
    b';alg="ecdsa-p256-sha256";keyid="CUSTOMER_TEST_KEY";created=1714657551;expires=1714657611'
)


# https://docs.pawapay.io/v2/docs/failure_codes
FAILURE_CODES: Final = tuple(
    """
    NO_AUTHENTICATION AUTHENTICATION_ERROR AUTHORISATION_ERROR HTTP_SIGNATURE_ERROR INVALID_INPUT
    MISSING_PARAMETER UNSUPPORTED_PARAMETER INVALID_PARAMETER AMOUNT_OUT_OF_BOUNDS INVALID_AMOUNT
    INVALID_PHONE_NUMBER INVALID_CURRENCY INVALID_PROVIDER DUPLICATE_METADATA_FIELD
    DEPOSITS_NOT_ALLOWED PAYOUTS_NOT_ALLOWED REFUNDS_NOT_ALLOWED REMITTANCES_NOT_ALLOWED
    PROVIDER_TEMPORARILY_UNAVAILABLE INVALID_CALLBACK_URL INVALID_DATE_RANGE WALLET_NOT_FOUND
    NOT_FOUND INVALID_STATE PAYMENT_NOT_APPROVED INSUFFICIENT_BALANCE PAYMENT_IN_PROGRESS
    PAYER_NOT_FOUND PAYER_LIMIT_REACHED RECIPIENT_NOT_FOUND RECIPIENT_LIMIT_REACHED
    WALLET_LIMIT_REACHED MANUALLY_CANCELLED PAWAPAY_WALLET_OUT_OF_FUNDS AMOUNT_TOO_LARGE
    DEPOSIT_ALREADY_REFUNDED REFUND_IN_PROGRESS TRANSACTION_ALREADY_IN_PROCESS UNSPECIFIED_FAILURE
    UNKNOWN_ERROR
    """.split()  # noqa: SIM905 - a list of these would be a line for each.
)
"""Those of requests, then those of payments."""
