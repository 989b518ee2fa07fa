"""Reads and writes Daraja's formats: JSON, Nairobi's time, whole shillings, phone numbers."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from mmo_sansio.providers.common import wire
from mmo_sansio.values.clock import HOUR, Instant, Span, later, to_datetime
from mmo_sansio.values.model import QrCode
from mmo_sansio.values.money import AmountError, Money, check_amount, parse_number, to_money

CURRENCY: Final = "KES"
FAULT_CHARACTERS_MAX: Final = 200
# What a PNG file begins with (W3C PNG, 5.2): a picture, and no text that says so.
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_NAIROBI_OFFSET: Final = 3 * HOUR
# `2547…` is documented, the newer `2541…` is reported.
_MSISDN: Final = re.compile(r"254[17][0-9]{8}", re.ASCII)


class NumberText(str):
    """A JSON number as it was written, so that no digit of it is lost."""

    __slots__ = ()


def to_json(document: Mapping[str, Any]) -> bytes:
    # No spaces, as the examples of the pages have none.
    return json.dumps(document, separators=(",", ":")).encode()


def parse_json(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body, with numbers as NumberText; see `wire.parse_json`."""
    return wire.parse_json(body, number=NumberText)


def text_member(document: Mapping[str, Any], name: str) -> str:
    """Return a text or number member as text; empty when it is absent or null. Raises ValueError
    for any other type."""
    value = document.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    return str(value).strip()


def soap_fault(document: Mapping[str, Any]) -> str:
    """Return what a fault of the system behind Daraja says, which comes as SOAP written as JSON:
    its `faultstring`, and the text of its `detail`; empty where there is none."""
    # Where it stands, and how it is spelled, differs: it is looked for in every object.
    texts: list[str] = []
    for name, value in _members(document):
        is_told = name.rpartition(":")[2].lower() in ("faultstring", "detail", "text")
        if is_told and isinstance(value, str) and value.strip() not in ("", *texts):
            texts.append(value.strip())
    return ": ".join(texts)[:FAULT_CHARACTERS_MAX]


def _members(value: object) -> Iterator[tuple[str, object]]:
    """Yield each member of each object in a JSON value, the outer ones first."""
    if isinstance(value, dict):
        yield from value.items()
        for member in value.values():
            yield from _members(member)
    elif isinstance(value, list):
        for item in value:
            yield from _members(item)


def code_member(document: Mapping[str, Any], name: str) -> str:
    """Return a code: a JSON number or plain digits by its number, so `0` for 0, 0.0 and `"00"`; any
    other text as it is; empty when it is absent or null. Raises ValueError for any other type."""
    text = text_member(document, name)
    if not isinstance(document.get(name), NumberText) and not (text.isascii() and text.isdigit()):
        return text
    number = parse_number(text)
    if number == number.to_integral_value():
        return str(int(number))
    return text


def parse_amount(value: object) -> Money:
    """Read an amount, a number or text, `1.00` as well as `1`. Raises ValueError for other
    values."""
    if not isinstance(value, str):
        raise AmountError("must be a number")
    return to_money(check_amount(parse_number(value.strip())), CURRENCY)


def whole_shillings(amount: Money) -> int | None:
    """Return the amount in shillings; None when it has cents or is in another currency."""
    shillings, cents = divmod(amount.minor, 100)
    if amount.currency == CURRENCY and not cents:
        return shillings
    return None


def format_msisdn(msisdn: str) -> str | None:
    """Return a number as `2547XXXXXXXX`, from that or from `+2547…`, `07…` or `01…`; None when it
    is not a Kenyan mobile number."""
    digits = "".join(character for character in msisdn if character not in " -+()")
    if digits.startswith("0"):
        digits = f"254{digits[1:]}"
    if _MSISDN.fullmatch(digits):
        return digits
    return None


def to_nairobi_time(now: Instant) -> datetime:
    """Return the local time in Nairobi, which is UTC+3 all the year."""
    return to_datetime(later(now, Span(_NAIROBI_OFFSET)))


def timestamp(now: Instant) -> str:
    """Return an instant as `YYYYMMDDHHmmss` in Nairobi's time."""
    return to_nairobi_time(now).strftime("%Y%m%d%H%M%S")


def spaced_timestamp(now: Instant) -> str:
    """Return an instant as `YYYY-MM-DD HH:mm:ss` in Nairobi's time, the form of Pull
    Transactions."""
    return to_nairobi_time(now).strftime("%Y-%m-%d %H:%M:%S")


def password(shortcode: str, passkey: str, stamp: str) -> str:
    """Return the password of a push: base64 of the three values without separators."""
    return b64encode(f"{shortcode}{passkey}{stamp}".encode()).decode()


def parse_qr_code(document: Mapping[str, Any]) -> QrCode | None:
    """Return the QR code of a response: a PNG picture in Base64, and no text; None when it has none
    that can be shown."""
    text = text_member(document, "QRCode")
    try:
        # Anything else, a link say, could not be shown as a picture.
        is_picture = b64decode(text, validate=True).startswith(_PNG)
    except ValueError:
        is_picture = False
    if is_picture:
        return QrCode(image=text)
    return None
