"""Reads the gateway's JSON as a merchant should: exact in numbers, tolerant of members and codes
that are added."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias

from mmo_sansio.values.clock import parse_timestamp, to_datetime
from mmo_sansio.values.model import Status
from mmo_sansio.values.money import Money, parse_number, to_money
from mmo_sansio.values.strict_json import JsonNumber

# A parsed object whose numbers are JsonNumber, as a number's text may be longer than any number
# should be.
JsonObject: TypeAlias = Mapping[str, Any]


# Crockford's alphabet, in which I, L, O and U are missing; 26 characters of 5 bits hold 128, so the
# first is at most 7.
_ULID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


class UnreadableBody(ValueError):
    """Raised for a body that does not have the specification's form; the message names what is
    wrong."""


def read_object(body: bytes) -> JsonObject:
    """Return the JSON object in a body. Raises UnreadableBody."""
    try:
        # RecursionError: arrays nested thousands deep, which the gateway never sends and others
        # may.
        parsed = _DECODER.decode(body.decode())
    except (ValueError, RecursionError):
        raise UnreadableBody("The body is not JSON in UTF-8.") from None
    return checked_object(parsed, "The body")


def checked_object(value: object, name: str) -> JsonObject:
    """Return the value, which must be an object. Raises UnreadableBody."""
    if not isinstance(value, dict):
        raise UnreadableBody(f"{name} is no object.")
    return value


def read_text(members: JsonObject, name: str) -> str:
    """Return a string member. Raises UnreadableBody."""
    value = members.get(name)
    if not isinstance(value, str):
        raise UnreadableBody(f"{name} is no string.")
    return value


def read_optional_text(members: JsonObject, name: str) -> str | None:
    """Return a string member; None when it is null or absent. Raises UnreadableBody."""
    if members.get(name) is None:
        return None
    return read_text(members, name)


def read_status(members: JsonObject) -> Status:
    """Return the member `status` (S1). Raises UnreadableBody."""
    try:
        return Status(read_text(members, "status"))
    except ValueError:
        raise UnreadableBody("status is none of pending, success and failed.") from None


def read_gateway_reference(members: JsonObject) -> str:
    """Return the gatewayReference. Raises UnreadableBody for text that is no ULID: none can be a
    path or a piece of a query."""
    reference = read_text(members, "gatewayReference")
    if not _ULID.fullmatch(reference):
        raise UnreadableBody("gatewayReference is no ULID.")
    return reference


def read_money(members: JsonObject, name: str) -> Money:
    """Return a Money member. Raises UnreadableBody for a value that is no exact amount of a
    currency of ISO 4217."""
    amount = checked_object(members.get(name), name)
    value = amount.get("value")
    currency = read_text(amount, "currency")
    if not isinstance(value, JsonNumber):
        raise UnreadableBody(f"{name}.value is no number.")
    try:
        # KeyError: a currency that ISO 4217 does not have, so that its decimals are unknown.
        return to_money(parse_number(value.text), currency)
    except (ValueError, KeyError):
        raise UnreadableBody(f"{name} is no amount of {currency}.") from None


def read_optional_money(members: JsonObject, name: str) -> Money | None:
    """Return a Money member; None when it is null or absent. Raises UnreadableBody."""
    if members.get(name) is None:
        return None
    return read_money(members, name)


def read_time(members: JsonObject, name: str) -> datetime:
    """Return a timestamp in UTC. Raises UnreadableBody."""
    text = read_text(members, name)
    try:
        return to_datetime(parse_timestamp(text))
    except ValueError:
        raise UnreadableBody(f"{name} is no timestamp of ISO 8601.") from None


def read_optional_time(members: JsonObject, name: str) -> datetime | None:
    """Return a timestamp in UTC; None when it is null or absent. Raises UnreadableBody."""
    if members.get(name) is None:
        return None
    return read_time(members, name)


def read_optional_object(members: JsonObject, name: str) -> Mapping[str, Any] | None:
    """Return an object member with its numbers as int or Decimal; None when it is null or absent.
    Raises UnreadableBody."""
    value = members.get(name)
    if value is None:
        return None

    plain: Mapping[str, Any] = plain_value(checked_object(value, name))
    return plain


def read_base64(members: JsonObject, name: str) -> bytes:
    """Return the bytes of a member in base64. Raises UnreadableBody."""
    try:
        return b64decode(read_text(members, name), validate=True)
    except ValueError:
        raise UnreadableBody(f"{name} is not base64.") from None


def plain_value(value: object) -> Any:
    """Return a parsed value with its numbers as int or Decimal. Raises UnreadableBody for a number
    of more than 40 characters."""
    match value:
        case JsonNumber(text):
            try:
                number = parse_number(text)
            except ValueError:
                raise UnreadableBody("A number is too long.") from None
            # `1.0` stays a decimal: a label comes back as it was sent (M4).
            if text.lstrip("-").isdigit():
                return int(text)
            return number
        case dict():
            return {name: plain_value(member) for name, member in value.items()}
        case list():
            return [plain_value(element) for element in value]
        case _:
            return value


# Python's decoder takes NaN and Infinity by itself, which are no JSON (RFC 8259 section 6).
def _reject_constant(name: str) -> Decimal:
    raise UnreadableBody(f"{name} is not JSON.")


# Numbers stay text until a field says what they are: no binary float ever holds an amount (G6).
_DECODER: Final = json.JSONDecoder(
    parse_float=JsonNumber, parse_int=JsonNumber, parse_constant=_reject_constant
)
