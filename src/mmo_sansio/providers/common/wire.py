"""Reads and writes what the messages of several operators have in common."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, Final

from mmo_sansio.values.clock import DAY, SECOND, Span
from mmo_sansio.values.money import Money, parse_number
from mmo_sansio.values.strict_json import reject_constant, structure_error, unique_members

JSON_HEADERS: Final = ((b"content-type", b"application/json"),)

# The length to which the body of a notification is cut before it is stored.
STORED_CHARACTERS_MAX: Final = 2_000

# A number out of all proportion, in milliseconds say, must keep no token for ever.
TOKEN_LIFETIME_MAX: Final = Span(7 * DAY)

# The members that the gateway's own operators fill with texts for people, and with people's names.
# M-Pesa's results have names also as the `Value` beside a `Key` that ends in NAMED.
FREE_TEXTS: Final = frozenset(
    (
        *("ResultDesc", "ResponseDescription", "CustomerMessage"),  # M-Pesa
        *("FirstName", "MiddleName", "LastName", "sender", "organizationname"),
        *("payeeNote", "payerMessage", "given_name", "family_name", "name"),  # MTN MoMo
        *("message", "first_name", "last_name"),  # Airtel Money
    )
)

NAMED: Final = "Name"
# U+0000, which PostgreSQL's text can't hold, and halves of surrogate pairs, which UTF-8 can't.
_UNSTORABLE: Final = re.compile("[\\x00\\ud800-\\udfff]")

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_to_json_text: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def to_json(document: Mapping[str, Any]) -> bytes:
    """Return the document as JSON without spaces, in UTF-8."""
    return _to_json_text(document).encode()


def parse_json(
    body: bytes,
    *,
    number: Callable[[str], Any] | None = None,
    free_texts: Collection[str] = FREE_TEXTS,
) -> dict[str, Any]:
    """Return the JSON object in a body; the function makes numbers from their text. Raises
    ValueError for any other body, for one that can be read in two ways (RFC 8259 section 4: two
    members of one name), for one with too much structure, and for text that no store can hold.

    Such text loses only what can't be held where its member is one of `free_texts`, which an
    operator fills with words for people, and no adapter decides by. A byte order mark in front is
    ignored (RFC 8259 section 8.1)."""
    # Counted in the bytes, before a decoder can be made to recurse or to fill the memory.
    excess = structure_error(body)
    if excess is not None:
        raise ValueError(excess)

    document = _decoder(number).decode(body.removeprefix(_BYTE_ORDER_MARK).decode())
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")

    if b"\\u" in body:  # Escapes can spell U+0000 and lone surrogates.
        _replace_in_free_texts(document, free_texts)
        if b"\\u0000" in json.dumps(document).encode():
            raise ValueError("it holds U+0000")

        to_json(document)  # Encoding a lone surrogate raises UnicodeEncodeError, a ValueError.

    return document


def object_member(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the object under this name, empty when it is absent or null. Raises ValueError for
    another type."""
    value = document.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{name} is no object")
    return value


def text_member(document: Mapping[str, Any], name: str) -> str | None:
    """Return the text under this name; None when it is absent, null or empty. Raises ValueError for
    another type."""
    value = document.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    return value


def _replace_in_free_texts(value: Any, free_texts: Collection[str]) -> None:
    """Replace what no store can hold by U+FFFD: an emoji that an operator has cut in two makes no
    plain success unreadable."""
    if isinstance(value, list):
        for element in value:
            _replace_in_free_texts(element, free_texts)
    elif isinstance(value, dict):
        # {"Key": "ReceiverPartyPublicName", "Value": "…"} in M-Pesa's results.
        is_name = str(value.get("Key", "")).endswith(NAMED)
        for name, member in value.items():
            is_free = name in free_texts or (name == "Value" and is_name)
            if is_free and isinstance(member, str):
                value[name] = _UNSTORABLE.sub("\ufffd", member)
            else:
                _replace_in_free_texts(member, free_texts)


# A decoder is costly to make, and has a few variants; `reject_constant` refuses NaN and Infinity.
@lru_cache(maxsize=16)
def _decoder(number: Callable[[str], Any] | None) -> json.JSONDecoder:
    return json.JSONDecoder(
        parse_int=number,
        parse_float=number,
        parse_constant=reject_constant,
        object_pairs_hook=unique_members,
    )


def parse_token_lifetime(value: object, *, default: Span) -> Span:
    """Return the lifetime in the `expires_in` of an access token: a number of seconds, also as
    text, cut to TOKEN_LIFETIME_MAX; the default where there is none (RFC 6749 section 5.1: it is
    optional). Raises ValueError for any other value."""
    if value is None or value == "":
        return default
    seconds = parse_number(str(value))
    if seconds < 1:
        raise ValueError("the token lives for less than a second")
    return min(Span(int(seconds * SECOND)), TOKEN_LIFETIME_MAX)


def plain_amount(amount: Money) -> str:
    """Return an amount as a JSON number, without decimals where it is whole."""
    whole, point, decimals = amount.text.partition(".")
    if decimals.strip("0"):
        return f"{whole}{point}{decimals}"
    return whole


def stored_text(body: bytes) -> str:
    """Return the part of a notification's body that is stored, as text that every store can
    hold."""
    beginning = body[: 4 * STORED_CHARACTERS_MAX]  # A character has at most four bytes in UTF-8.
    return beginning.decode("utf-8", "replace").replace("\0", "\ufffd")[:STORED_CHARACTERS_MAX]
