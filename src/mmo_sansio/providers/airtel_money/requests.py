"""Builds the operator's requests: paths, headers, bodies, signatures, numbers and references."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mmo_sansio.http.messages import Headers, HttpRequest
from mmo_sansio.providers.airtel_money.account import AirtelAccount
from mmo_sansio.providers.airtel_money.wire import to_json
from mmo_sansio.providers.common.ciphers import Ciphers, RsaPadding
from mmo_sansio.values.model import Order, Type

AES_KEY_BYTES = 32
AES_IV_BYTES = 16
REFERENCE_CHARACTERS_MAX = 25
"""The length limit of the reference for a payer; the operator's own limit is undocumented."""

IMPOSSIBLE_ID = "MMOCHECK0000000000000000"
"""An id that no payment has."""

_REFERENCE_CHARACTERS_MIN = 4
_SHORT_KEY_BITS = 1024
_COLLECTION_PATHS = {1: "/merchant/v1/payments/", 2: "/merchant/v2/payments/"}
_DISBURSEMENT_PATHS = {
    1: "/standard/v1/disbursements/",
    2: "/standard/v2/disbursements/",
    3: "/standard/v3/disbursements",
}
_NOT_ALPHANUMERIC = re.compile(r"[^A-Za-z0-9]")


class ForeignNumberError(ValueError):
    """The payee's or payer's number is not of this account's country."""


def sign_in_request(account: AirtelAccount) -> HttpRequest:
    """Request a token."""
    body = {"client_id": account.client_id, "client_secret": account.client_secret, "grant_type": "client_credentials"}
    headers = ((b"content-type", b"application/json"), (b"accept", b"*/*"))
    return HttpRequest("POST", _target(account, "/auth/oauth2/token"), headers, to_json(body))


def key_request(account: AirtelAccount) -> HttpRequest:
    """Request the operator's RSA key."""
    return HttpRequest("GET", _target(account, "/v1/rsa/encryption-keys"), _headers(account))


def status_request(account: AirtelAccount, order: Order) -> HttpRequest:
    """Poll a payment."""
    if order.type is Type.PAYIN:
        path = f"/standard/v1/payments/{order.gateway_reference}"
    else:
        path = f"/standard/v1/disbursements/{order.gateway_reference}"
        if account.polls_with_type:
            path += f"?transactionType={account.disbursement_type}"
    return HttpRequest("GET", _target(account, path), _headers(account))


def check_requests(account: AirtelAccount) -> Sequence[tuple[HttpRequest, bool]]:
    """Ask about a payment that does not exist, and for the balance; each with whether it is the latter."""
    paths = ((f"/standard/v1/payments/{IMPOSSIBLE_ID}", False), ("/standard/v1/users/balance", True))
    return [(HttpRequest("GET", _target(account, path), _headers(account)), is_balance) for path, is_balance in paths]


def needs_key(account: AirtelAccount, order: Order) -> bool:
    """Return whether a submission needs the operator's RSA key."""
    return account.signs_collections if order.type is Type.PAYIN else True


def submission_request(account: AirtelAccount, order: Order, ciphers: Ciphers, public_key: bytes) -> HttpRequest:
    """Request the payment. The key is used only if `needs_key`.

    Raises ForeignNumberError for a number of another country, CipherError for an unusable key.
    """
    if order.type is Type.PAYIN:
        path = _COLLECTION_PATHS[account.collection_version]
        body = to_json(_collection_body(account, order))
        is_signed = account.signs_collections
    else:
        path = _DISBURSEMENT_PATHS[account.disbursement_version]
        body = to_json(_disbursement_body(account, order, ciphers, public_key))
        is_signed = account.signs_disbursements
    headers = _headers(account)
    if is_signed:
        headers += signature_headers(body, ciphers, public_key, account.key_padding)
    return HttpRequest("POST", _target(account, path), headers, body)


def signature_headers(body: bytes, ciphers: Ciphers, public_key: bytes, padding: RsaPadding) -> Headers:
    """Return `x-signature` and `x-key` for exactly these bytes. Raises CipherError."""
    key = ciphers.random_bytes(AES_KEY_BYTES)
    vector = ciphers.random_bytes(AES_IV_BYTES)
    key_and_vector = base64.b64encode(key) + b":" + base64.b64encode(vector)
    sealed = _encrypt(ciphers, public_key, key_and_vector, padding)
    return ((b"x-signature", base64.b64encode(ciphers.aes_cbc_encrypt(key, vector, body))), (b"x-key", sealed))


def national_number(account: AirtelAccount, msisdn: str) -> str:
    """Return the number without the country's dialling code. Raises ForeignNumberError for a number of another country,
    which, shortened, would belong to another person."""
    digits = msisdn.removeprefix("+")
    if not digits.startswith(account.dialling_code):
        raise ForeignNumberError("The number is none of the account's country.")
    national = digits.removeprefix(account.dialling_code)
    return national if account.keeps_leading_zero else national.lstrip("0")


def payer_reference(order: Order) -> str:
    """Return the reference for the payer: letters and digits of the merchant's reference, cut; the gateway's reference
    if too few are left."""
    plain = _NOT_ALPHANUMERIC.sub("", order.merchant_reference or "")[:REFERENCE_CHARACTERS_MAX]
    return plain if len(plain) >= _REFERENCE_CHARACTERS_MIN else order.gateway_reference


def _collection_body(account: AirtelAccount, order: Order) -> Mapping[str, Any]:
    place = {"country": account.country, "currency": account.currency}
    return {
        "reference": payer_reference(order),
        "subscriber": {**place, "msisdn": national_number(account, order.party.msisdn)},
        "transaction": {"amount": order.requested, **place, "id": order.gateway_reference},
    }


def _disbursement_body(account: AirtelAccount, order: Order, ciphers: Ciphers, public_key: bytes) -> Mapping[str, Any]:
    payee: dict[str, Any] = {"msisdn": national_number(account, order.party.msisdn)}
    transaction: dict[str, Any] = {"amount": order.requested, "id": order.gateway_reference}
    if account.disbursement_version == 2:
        names = (order.party.first_name, order.party.last_name)
        payee["currency"] = account.currency
        payee["name"] = " ".join(each for each in names if each)
    if account.disbursement_version == 3:
        payee["wallet_type"] = account.wallet_type
    if account.disbursement_version >= 2:
        transaction["type"] = account.disbursement_type
    pin = _encrypt(ciphers, public_key, (account.pin or "").encode(), account.pin_padding)
    return {
        "payee": {name: value for name, value in payee.items() if value},
        "reference": order.gateway_reference,
        account.pin_member: pin.decode(),
        "transaction": transaction,
    }


def _encrypt(ciphers: Ciphers, public_key: bytes, plain: bytes, padding: RsaPadding) -> bytes:
    """Encrypt a text with the operator's key, in Base64. Only PKCS#1 v1.5 leaves room in a short key."""
    is_short = ciphers.rsa_bits(public_key) <= _SHORT_KEY_BITS
    used = RsaPadding.PKCS1V15 if is_short else padding
    return base64.b64encode(ciphers.rsa_encrypt(public_key, plain, used))


def _headers(account: AirtelAccount) -> Headers:
    return (
        (b"content-type", b"application/json"),
        (b"accept", b"*/*"),
        (b"x-country", account.country.encode()),
        (b"x-currency", account.currency.encode()),
    )


def _target(account: AirtelAccount, path: str) -> bytes:
    return f"{account.base_url}{path}".encode()
