"""Builds the operator's requests (paths, headers, bodies, signatures, numbers and references), and
reads its responses: JSON over HTTP, of which nothing is trusted."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from mmo_sansio.http.messages import Headers, HttpRequest, HttpResponse
from mmo_sansio.providers.airtel_money.account import AirtelAccount
from mmo_sansio.providers.common.account_check import SubmissionPart
from mmo_sansio.providers.common.interface import Ciphers, RsaPadding
from mmo_sansio.providers.common.wire import parse_json, plain_amount
from mmo_sansio.values.model import Order, Type
from mmo_sansio.values.money import Money

# AES-256 in CBC mode (documented, message signing).
AES_KEY_BYTES = 32
AES_IV_BYTES = 16

# The length limit of the reference for a payer; the operator's own limit is undocumented.
REFERENCE_CHARACTERS_MAX = 25

# An id that no payment has.
IMPOSSIBLE_ID = "MMOCHECK0000000000000000"

# The length to which the operator's texts are cut.
TEXT_CHARACTERS_MAX = 500

# With fewer the payer would see a reference that tells nothing.
_REFERENCE_CHARACTERS_MIN = 4
# PKCS#1 v1.5 leaves 117 bytes in such a key, OAEP with SHA-256 leaves 62: x-key's text has 69.
_SHORT_KEY_BITS = 1024
_KEY_PATH = "/v1/rsa/encryption-keys"
# With and without a slash at the end, as clients write them.
_COLLECTION_PATHS = {1: "/merchant/v1/payments/", 2: "/merchant/v2/payments/"}

_DISBURSEMENT_PATHS = {
    1: "/standard/v1/disbursements/",
    2: "/standard/v2/disbursements/",
    3: "/standard/v3/disbursements",
}

_NOT_ALPHANUMERIC = re.compile(r"[^A-Za-z0-9]")
_SPACE = re.compile(r"[ \t\n\r]*")
_DIGITS = re.compile(r"[0-9]+", re.ASCII)


class ForeignNumberError(ValueError):
    """The payee's or payer's number is not of this account's country."""


def sign_in_request(account: AirtelAccount) -> HttpRequest:
    body = {
        "client_id": account.client_id,
        "client_secret": account.client_secret,
        "grant_type": "client_credentials",
    }
    headers = ((b"content-type", b"application/json"), (b"accept", b"*/*"))
    return HttpRequest("POST", _target(account, "/auth/oauth2/token"), headers, to_json(body))


def key_request(account: AirtelAccount) -> HttpRequest:
    return HttpRequest("GET", _target(account, _KEY_PATH), _headers(account))


def status_request(account: AirtelAccount, order: Order) -> HttpRequest:
    if order.type is Type.PAYIN:
        path = f"/standard/v1/payments/{order.gateway_reference}"
    else:
        path = f"/standard/v1/disbursements/{order.gateway_reference}"
        if account.polls_with_type:
            path += f"?transactionType={account.disbursement_type}"
    return HttpRequest("GET", _target(account, path), _headers(account))


def check_requests(account: AirtelAccount) -> Sequence[tuple[HttpRequest, bool]]:
    """Ask about a payment that does not exist, and for the balance; each with whether it is the
    latter."""
    impossible = HttpRequest(
        "GET", _target(account, f"/standard/v1/payments/{IMPOSSIBLE_ID}"), _headers(account)
    )
    return [(impossible, False), (balance_request(account), True)]


def balance_request(account: AirtelAccount) -> HttpRequest:
    """Ask for the balance of the wallet that pays out."""
    return HttpRequest("GET", _target(account, "/standard/v1/users/balance"), _headers(account))


def user_request(account: AirtelAccount, msisdn: str) -> HttpRequest:
    """Ask who has an account with this number. Raises ForeignNumberError."""
    path = f"/standard/v1/users/{national_number(account, msisdn)}"
    return HttpRequest("GET", _target(account, path), _headers(account))


def needs_key(account: AirtelAccount, order: Order) -> bool:
    if order.type is Type.PAYIN:
        return account.signs_collections
    # A pay-out has a PIN, which is encrypted in every version.
    return True


def submission_request(
    account: AirtelAccount, order: Order, ciphers: Ciphers, public_key: bytes
) -> HttpRequest:
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

    # Over exactly the bytes that are sent: they are written once.
    headers = _headers(account)
    if is_signed:
        headers += signature_headers(body, ciphers, public_key, account.key_padding)

    return HttpRequest("POST", _target(account, path), headers, body)


def refund_request(
    account: AirtelAccount, receipt: str, ciphers: Ciphers, public_key: bytes
) -> HttpRequest:
    """Give the payment with this airtel_money_id back. The key is used only if collections are
    signed. Raises CipherError for an unusable key."""
    body = to_json({"transaction": {"airtel_money_id": receipt}})
    headers = _headers(account)
    if account.signs_collections:
        headers += signature_headers(body, ciphers, public_key, account.key_padding)
    path = f"/standard/v{account.collection_version}/payments/refund"
    return HttpRequest("POST", _target(account, path), headers, body)


def submission_part(account: AirtelAccount, request: HttpRequest) -> SubmissionPart | None:
    """Return the part of the account with which this request is made; None: it submits nothing, nor
    is it for the key without which nothing can be submitted."""
    path = request.target.decode("ascii", "replace").removeprefix(account.base_url)
    if path == _KEY_PATH:
        # The key is fetched for what needs one: what waits for it depends on the account.
        held: tuple[Type, ...] = (Type.PAYOUT,)
        if account.signs_collections:
            held = (Type.PAYOUT, Type.PAYIN)
        return SubmissionPart("encryption_key", held, account.signs_collections)

    if request.method != "POST":
        return None
    if path.endswith("/payments/refund"):
        return SubmissionPart("refund_submissions", holds_reversals=True)
    if path in _COLLECTION_PATHS.values():
        return SubmissionPart("collection_submissions", (Type.PAYIN,))
    if path in _DISBURSEMENT_PATHS.values():
        return SubmissionPart("disbursement_submissions", (Type.PAYOUT,))

    return None


def signature_headers(
    body: bytes, ciphers: Ciphers, public_key: bytes, padding: RsaPadding
) -> Headers:
    """Return `x-signature` and `x-key` for exactly these bytes. Raises CipherError."""
    # Fresh ones for each request, which are only in x-key.
    key = ciphers.random_bytes(AES_KEY_BYTES)
    vector = ciphers.random_bytes(AES_IV_BYTES)
    key_and_vector = base64.b64encode(key) + b":" + base64.b64encode(vector)
    sealed = _encrypt(ciphers, public_key, key_and_vector, padding)
    return (
        (b"x-signature", base64.b64encode(ciphers.aes_cbc_encrypt(key, vector, body))),
        (b"x-key", sealed),
    )


def national_number(account: AirtelAccount, msisdn: str) -> str:
    """Return the number without the country's dialling code. Raises ForeignNumberError for a number
    of another country, which, shortened, would belong to another person."""
    digits = msisdn.removeprefix("+")
    # Cut to nine digits it would be a number of this country, and another person's.
    if not digits.startswith(account.dialling_code):
        raise ForeignNumberError("The number is none of the account's country.")
    national = digits.removeprefix(account.dialling_code)
    if account.keeps_leading_zero:
        return national
    return national.lstrip("0")


def payer_reference(order: Order) -> str:
    """Return the reference for the payer: letters and digits of the merchant's reference, cut; the
    gateway's reference if too few are left."""
    plain = _NOT_ALPHANUMERIC.sub("", order.merchant_reference or "")[:REFERENCE_CHARACTERS_MAX]
    if len(plain) >= _REFERENCE_CHARACTERS_MIN:
        return plain
    return order.gateway_reference


def _collection_body(account: AirtelAccount, order: Order) -> Mapping[str, Any]:
    place = {"country": account.country, "currency": account.currency}
    return {
        "reference": payer_reference(order),
        "subscriber": {**place, "msisdn": national_number(account, order.party.msisdn)},
        "transaction": {"amount": order.requested, **place, "id": order.gateway_reference},
    }


def _disbursement_body(
    account: AirtelAccount, order: Order, ciphers: Ciphers, public_key: bytes
) -> Mapping[str, Any]:
    payee: dict[str, Any] = {"msisdn": national_number(account, order.party.msisdn)}
    transaction: dict[str, Any] = {"amount": order.requested, "id": order.gateway_reference}
    # What each version has besides (reported by clients; version 3 is documented for Tchad).
    if account.disbursement_version == 2:
        names = (order.party.first_name, order.party.last_name)
        payee["currency"] = account.currency
        payee["name"] = " ".join(name for name in names if name)

    if account.disbursement_version == 3:
        payee["wallet_type"] = account.wallet_type

    if account.disbursement_version >= 2:
        transaction["type"] = account.disbursement_type

    # Each time anew: the padding is random, so that two requests show no common text.
    pin = _encrypt(ciphers, public_key, (account.pin or "").encode(), account.pin_padding)
    return {
        "payee": {name: value for name, value in payee.items() if value},
        "reference": order.gateway_reference,
        account.pin_member: pin.decode(),
        "transaction": transaction,
    }


def _encrypt(ciphers: Ciphers, public_key: bytes, plain: bytes, padding: RsaPadding) -> bytes:
    """Encrypt a text with the operator's key, in Base64. Only PKCS#1 v1.5 leaves room in a short
    key."""
    if ciphers.rsa_bits(public_key) <= _SHORT_KEY_BITS:
        padding = RsaPadding.PKCS1V15
    return base64.b64encode(ciphers.rsa_encrypt(public_key, plain, padding))


def _headers(account: AirtelAccount) -> Headers:
    return (
        (b"content-type", b"application/json"),
        (b"accept", b"*/*"),
        (b"x-country", account.country.encode()),
        (b"x-currency", account.currency.encode()),
    )


def _target(account: AirtelAccount, path: str) -> bytes:
    return f"{account.base_url}{path}".encode()


def to_json(document: Mapping[str, Any]) -> bytes:
    """Return the document as compact JSON in the order of its members, with amounts as exact
    numbers."""
    return _to_json_text(document).encode()


def _to_json_text(value: object) -> str:
    # Not as a float: `150.10` has to stay that.
    if isinstance(value, Money):
        return plain_amount(value)
    if isinstance(value, Mapping):
        members = (f"{json.dumps(name)}:{_to_json_text(member)}" for name, member in value.items())
        return "{" + ",".join(members) + "}"
    return json.dumps(value, ensure_ascii=False)


@frozen
class AirtelResponse:
    """Holds the content of a response; None for a member that is missing or invalid."""

    status: int
    """The HTTP status."""
    success: bool | None = None
    is_clear: bool = True
    """False: `success` is there and neither true nor false, so that the response can be read in two
    ways."""
    code: str | None = None
    """`response_code`, or the code that older responses have in its place."""
    message: str | None = None
    transaction_id: str | None = None
    """The gatewayReference."""
    transaction_status: str | None = None
    """`TS`, `TF`, `TE`, `TA`, `TIP`."""
    airtel_money_id: str | None = None


def parse_response(response: HttpResponse) -> AirtelResponse:
    """Return the content of a response; of an unreadable one only the HTTP status."""
    try:
        document = parse_json(response.body)
    except ValueError:
        return AirtelResponse(response.status)

    status = object_member(document, "status")
    transaction = object_member(object_member(document, "data"), "transaction")

    # What is there and no boolean could mean either: such an answer decides nothing.
    success = status.get("success")
    is_clear = isinstance(success, bool | None)
    if not isinstance(success, bool):
        success = None

    return AirtelResponse(
        response.status,
        success=success,
        is_clear=is_clear,
        code=_code(document, status),
        message=text_member(transaction, "message")
        or text_member(status, "message")
        or text_member(document, "status_message"),
        transaction_id=text_member(transaction, "id"),
        transaction_status=text_member(transaction, "status"),
        airtel_money_id=text_member(transaction, "airtel_money_id"),
    )


def _code(document: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    """Return `response_code`, else the deprecated `result_code`, else the code of the router's
    errors."""
    code = text_member(status, "response_code") or text_member(status, "result_code")
    if code is not None:
        return code
    # Mostly the HTTP status once more, which says nothing new.
    code = text_member(status, "code")
    if code is not None and not (_DIGITS.fullmatch(code) and len(code) == 3):
        return code
    return text_member(document, "status_code")


def object_member(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an object; an empty one in place of anything else."""
    value = document.get(name)
    if isinstance(value, dict):
        return value
    return {}


def text_member(document: Mapping[str, Any], name: str) -> str | None:
    """Return a text that is not empty, cut, or a number as text; else None."""
    value = document.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str) and value:
        return value[:TEXT_CHARACTERS_MAX]
    return None


def raw_member(text: str, name: str) -> str | None:
    """Return the value of a member of the JSON object in a text, exactly as written; of several
    with this name the last, as other parsers do. None when it has none. Raises ValueError when the
    text is no JSON object."""
    # Walked by hand: reading and writing it again would change spaces and numbers, and the hash.
    decoder = json.JSONDecoder()
    value = None
    position = _skip_past(text, 0, "{")
    while text[position : position + 1] != "}":
        key, position = decoder.raw_decode(text, position)
        start = _skip_past(text, position, ":")
        _, end = decoder.raw_decode(text, start)
        if key == name:
            value = text[start:end]

        position = _skip_space(text, end)
        if text[position : position + 1] == ",":
            position = _skip_past(text, position, ",")
        elif text[position : position + 1] != "}":
            raise ValueError("the object has no end")

    return value


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    if match is None:
        return position
    return match.end()


def _skip_past(text: str, position: int, mark: str) -> int:
    position = _skip_space(text, position)
    if text[position : position + 1] != mark:
        raise ValueError(f"no {mark} at character {position}")
    return _skip_space(text, position + 1)
