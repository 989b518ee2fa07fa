"""Checks the requests to the simulated Airtel Money: headers, members, numbers, signatures and PINs
that can be decrypted."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from attrs import field, frozen
from cryptography.hazmat.primitives.asymmetric.padding import (
    MGF1,
    OAEP,
    AsymmetricPadding,
    PKCS1v15,
)
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.padding import PKCS7

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import RsaPadding
from mmo_sansio.values.clock import SECOND, Span
from mmo_sansio.values.dialling_codes import DIALLING_CODES, is_msisdn_of
from mmo_sansio.values.money import AmountError, Money, parse_number, to_money
from mmo_simulators.common.faults import RequestRejected
from mmo_simulators.common.messages import json_response
from mmo_simulators.operators.airtel.accounts import CODE_PREFIXES

# The simulator's own reading of the paddings, so that it finds a gateway that pads wrongly.
_PADDINGS: Final[Mapping[RsaPadding, AsymmetricPadding]] = {
    RsaPadding.OAEP_SHA256: OAEP(MGF1(SHA256()), SHA256(), None),
    RsaPadding.OAEP_SHA256_MGF1_SHA1: OAEP(MGF1(SHA1()), SHA256(), None),
    RsaPadding.OAEP_SHA1: OAEP(MGF1(SHA1()), SHA1(), None),
    RsaPadding.PKCS1V15: PKCS1v15(),
}

# All paddings, that of PKCS#1 v1.5 last: its decryption may return anything instead of failing.
ANY_PADDING: Final = tuple(_PADDINGS)

_SHORT_KEY_BITS = 1024
# What has to be signed; older versions may be.
_SIGNED_PATHS: Final = ("/merchant/v2/payments", "/standard/v3/disbursements")
# More than our own ids have: other gateways use hyphens.
_ID_PATTERN: Final = re.compile(r"[A-Za-z0-9._~-]{1,64}", re.ASCII)
_REFERENCE_CHARACTERS_MAX: Final = 64
_NATIONAL_NUMBER_PATTERN: Final = re.compile(r"[1-9][0-9]{5,11}", re.ASCII)
_PIN_PATTERN: Final = re.compile(rb"[0-9]{4}")


@frozen
class SimulatedAirtelMarket:
    """Describes the country of the simulator, and the application that it knows."""

    private_key: RSAPrivateKey = field(repr=False)
    country: str = "UG"
    currency: str = "UGX"
    client_id: str = "client-id"
    client_secret: str = field(default="client-secret", repr=False)
    pin: str = field(default="1234", repr=False)
    callback_url: str | None = None
    callback_key: str | None = field(default=None, repr=False)
    token_lifetime: Span = Span(180 * SECOND)
    refundable_for: Span | None = None
    """How long after its result a collection can be refunded; None: always, as no document names a
    limit."""
    pin_paddings: tuple[RsaPadding, ...] = ANY_PADDING
    """Those that are accepted with keys of more than 1024 bits; shorter ones take PKCS#1 v1.5."""
    key_padding: RsaPadding = RsaPadding.PKCS1V15
    ambiguous_status: str = "TA"
    """The status beside the ambiguous code: `TA`, as documents have it, or `TF`, as in Uganda
    (callbacks of May 2025)."""
    has_short_codes: bool = False
    """Whether results of collections have the short family of codes, as in Uganda and Niger (2022)
    and Zambia (2023)."""
    names_codes: bool = False
    """Whether a callback has the member `code`, as in Uganda (2025)."""
    failed_enquiries_succeed: bool = False
    """Whether the answer to an enquiry about a failed payment has `success: true`, as in Zambia
    (2023) and in public samples: the enquiry itself has succeeded."""


class AirtelRequestRejected(RequestRejected):
    """A request is rejected with the operator's code."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(operator_response({}, code, message, success=False, status=status))


def operator_response(
    data: Mapping[str, Any], code: str, message: str, *, success: bool = True, status: int = 200
) -> HttpResponse:
    """Return a response in the operator's form."""
    result_code = "ESB000011"
    if success:
        result_code = "ESB000010"

    status_document = {
        "code": str(status),
        "message": message,
        "result_code": result_code,
        "response_code": code,
        "success": success,
    }
    return json_response(status, {"data": data, "status": status_document})


def parse_document(request: HttpRequest) -> Mapping[str, Any]:
    """Parse the JSON object of a request, numbers as Decimal. Raises AirtelRequestRejected."""
    media_type = (request.value(b"content-type") or b"").partition(b";")[0].strip().lower()
    if media_type != b"application/json":
        raise AirtelRequestRejected("ROUTER003", "Content-Type must be application/json", 415)

    try:
        # Amounts stay as they were written: a float would hide a wrong digit.
        document = json.loads(request.body, parse_float=parse_number, parse_int=parse_number)
    except (ValueError, RecursionError):
        raise AirtelRequestRejected("ROUTER003", "The body is no JSON") from None

    if not isinstance(document, dict):
        raise AirtelRequestRejected("ROUTER003", "The body is no JSON object")

    return document


def required_object(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object under this name. Raises AirtelRequestRejected."""
    value = document.get(name)
    if not isinstance(value, dict):
        raise AirtelRequestRejected("ROUTER003", f"{name} is missing")
    return value


def parse_id(transaction: Mapping[str, Any], name: str = "id") -> str:
    """Return the id under this name, which is part of a path when it is asked for. Raises
    AirtelRequestRejected."""
    value = transaction.get(name)
    if not isinstance(value, str) or _ID_PATTERN.fullmatch(value) is None:
        raise AirtelRequestRejected(
            "ROUTER003", f"{name} must be 1 to 64 letters, digits, dots, hyphens or underscores"
        )
    return value


def check_reference(document: Mapping[str, Any]) -> None:
    """Check the reference, a text for people. Raises AirtelRequestRejected."""
    value = document.get("reference")
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= _REFERENCE_CHARACTERS_MAX
        or not value.isprintable()
    ):
        raise AirtelRequestRejected(
            "ROUTER003", f"reference must be 1 to {_REFERENCE_CHARACTERS_MAX} characters"
        )


def parse_national_number(party: Mapping[str, Any], country: str) -> str:
    """Return the number in `msisdn`, text or number, without country code, and without a leading
    zero but in Congo, whose numbers have it. Raises AirtelRequestRejected."""
    number = str(party.get("msisdn", ""))

    # Congo's national numbers begin with a zero; nobody else's do.
    plain = number
    if country == "CG":
        plain = number.removeprefix("0")

    is_number = _NATIONAL_NUMBER_PATTERN.fullmatch(plain) is not None
    if not is_number or not is_msisdn_of(country, DIALLING_CODES.get(country, "") + number):
        raise AirtelRequestRejected("ESB000033", "Invalid MSISDN length")

    return number


def parse_amount(transaction: Mapping[str, Any], kind: str, market: SimulatedAirtelMarket) -> Money:
    """Return a positive amount that the currency has, from a number or its text. Raises
    AirtelRequestRejected."""
    value = transaction.get("amount")
    if not isinstance(value, Decimal | str):
        raise AirtelRequestRejected("ROUTER003", "transaction.amount must be a number")
    # What Airtel answers to an exponent is not known; that it is refused is assumed.
    if "e" in str(value).lower():
        raise AirtelRequestRejected("ROUTER003", "transaction.amount must be a plain number")

    try:
        if isinstance(value, str):
            value = parse_number(value)
        amount = to_money(value, market.currency)
    except AmountError:
        amount = Money(0, market.currency)

    if amount.minor <= 0:
        raise AirtelRequestRejected(f"{CODE_PREFIXES[kind]}04", "Invalid Amount")

    return amount


def check_market_headers(request: HttpRequest, market: SimulatedAirtelMarket) -> None:
    """Check that `X-Country` and `X-Currency` are this market's. Raises AirtelRequestRejected."""
    if request.value(b"x-country") != market.country.encode():
        raise AirtelRequestRejected("ROUTER006", "Invalid country in X-Country")
    currency = request.value(b"x-currency")
    if currency != market.currency.encode():
        code = "ROUTER112"
        if currency is None:
            code = "ROUTER119"
        raise AirtelRequestRejected(code, "Invalid currency in X-Currency")


def check_country_and_currency(document: Mapping[str, Any], market: SimulatedAirtelMarket) -> None:
    """Check country and currency in the body, if given. Raises AirtelRequestRejected."""
    if document.get("country", market.country) != market.country:
        raise AirtelRequestRejected("ROUTER006", "Invalid country")
    if document.get("currency", market.currency) != market.currency:
        raise AirtelRequestRejected("ROUTER112", "Invalid currency")


def check_version_fields(
    path: str, payee: Mapping[str, Any], transaction: Mapping[str, Any]
) -> None:
    """Check the members that newer versions of a disbursement require. Raises
    AirtelRequestRejected."""
    if "/v1/" not in path and transaction.get("type") not in ("B2C", "B2B"):
        raise AirtelRequestRejected("ROUTER003", "transaction.type must be B2C or B2B")
    if "/v3/" in path and payee.get("wallet_type") not in ("NORMAL", "SALARY"):
        raise AirtelRequestRejected("ROUTER003", "payee.wallet_type must be NORMAL or SALARY")


def check_pin(document: Mapping[str, Any], market: SimulatedAirtelMarket) -> None:
    """Check the merchant's encrypted PIN. Raises AirtelRequestRejected."""
    encrypted = document.get("pin", document.get("pinstring"))
    if not isinstance(encrypted, str):
        raise AirtelRequestRejected("ROUTER114", "The PIN is missing")

    # Each padding is tried: the wrong one gives nothing, or text that is no PIN.
    decrypted = (
        _rsa_decrypt(encrypted.encode(), market, padding) for padding in market.pin_paddings
    )
    pins = [pin for pin in decrypted if pin is not None and _PIN_PATTERN.fullmatch(pin)]
    if not pins:
        raise AirtelRequestRejected("ROUTER116", "The PIN can't be decrypted")
    if pins[0] != market.pin.encode():
        raise AirtelRequestRejected("ROUTER115", "Wrong PIN")


def check_signature(
    request: HttpRequest, path: str, market: SimulatedAirtelMarket, code: str
) -> None:
    """Check that the signature is of exactly this body; older versions may leave it out. Raises
    AirtelRequestRejected with the code."""
    signature = request.value(b"x-signature")
    key = request.value(b"x-key")
    if signature is None and key is None and path not in _SIGNED_PATHS:
        return

    # Of the body as it came, byte for byte.
    opened = _rsa_decrypt(key or b"", market, market.key_padding)
    if opened is None or _decrypt_signature(signature or b"", opened) != request.body:
        raise AirtelRequestRejected(code, "x-signature and payload do not match")


def _rsa_decrypt(
    encrypted: bytes, market: SimulatedAirtelMarket, padding: RsaPadding
) -> bytes | None:
    if market.private_key.key_size <= _SHORT_KEY_BITS:
        padding = RsaPadding.PKCS1V15

    try:
        return market.private_key.decrypt(
            base64.b64decode(encrypted, validate=True), _PADDINGS[padding]
        )
    except ValueError:
        return None


def _decrypt_signature(signature: bytes, key_and_vector: bytes) -> bytes | None:
    try:
        key, vector = (base64.b64decode(part) for part in key_and_vector.split(b":"))
        encrypted = base64.b64decode(signature, validate=True)
        decryptor = Cipher(AES(key), CBC(vector)).decryptor()
        unpadder = PKCS7(AES.block_size).unpadder()
        padded = decryptor.update(encrypted) + decryptor.finalize()
        return unpadder.update(padded) + unpadder.finalize()
    except ValueError:
        return None
