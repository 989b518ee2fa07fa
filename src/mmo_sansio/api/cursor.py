"""Signs the cursors of the records, so that only the gateway makes them (R5, R6).

    base64url( version, 1 byte | HMAC-SHA256, 32 bytes | the query and the position as JSON )

A cursor holds the text of its query, so that the query can be repeated and resent filters can be
compared. The signing key is derived from the brand and the list, so that a cursor is worthless to
any other brand, and in any other list. A cursor holds no secret and never expires. A change of this
form gets a new version, and the old one stays readable."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac_digest
from typing import Final, TypeAlias

from attrs import frozen

from mmo_sansio.messages.queries import Position

# Characters of the longest cursor that is decoded; the gateway's have fewer than 1,500.
CURSOR_MAX: Final = 2_048

_VERSION: Final = b"\x01"
_TAG_BYTES: Final = sha256().digest_size


class CursorError(ValueError):
    """The text is no cursor that this gateway made for this brand."""


# The filters of a query for records: the text of each parameter in the one form that compares (R5).
# Absent parameters are left out.
Filters: TypeAlias = Mapping[str, str]


class PagedList(StrEnum):
    """Names a list that has pages."""

    RECORDS = "records"
    REVERSALS = "reversals"


class Direction(StrEnum):
    """Says in which direction the page lies from its position."""

    AFTER = "after"
    BEFORE = "before"


@frozen
class Cursor:
    """Names a page of a query."""

    filters: Filters
    direction: Direction
    position: Position


def encode_cursor(
    cursor: Cursor, *, brand: str, key: bytes, of: PagedList = PagedList.RECORDS
) -> str:
    """Return the cursor as it stands in `pages.next` and `pages.previous`; it needs no escaping in
    a URL."""
    position = cursor.position
    members = [cursor.filters, cursor.direction, position.created_at, position.gateway_reference]
    payload = json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()
    return _to_base64url(_VERSION + _tag(payload, of, brand, key) + payload)


def decode_cursor(
    text: str, *, brand: str, keys: Sequence[bytes], of: PagedList = PagedList.RECORDS
) -> Cursor:
    """Return the cursor that was encoded as this text, of this list, for this brand and with one of
    these keys.

    Raises CursorError for any other text; the time that takes reveals nothing of the signature."""
    if len(text) > CURSOR_MAX:
        raise CursorError("too long")

    try:
        packed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise CursorError("not base64url") from None

    # Decoding skips foreign characters and spare bits: only the one spelling we write is ours.
    if _to_base64url(packed) != text or packed[:1] != _VERSION:
        raise CursorError("not of a known form")

    tag, payload = packed[1 : 1 + _TAG_BYTES], packed[1 + _TAG_BYTES :]

    # Every key is tried, and none is left out early, so the time tells nothing.
    if not sum(compare_digest(tag, _tag(payload, of, brand, key)) for key in keys):
        raise CursorError("not signed by this gateway for this brand")

    # Only now parsed: the signature says that we wrote it.
    filters, direction, created_at, gateway_reference = json.loads(payload)
    return Cursor(filters, Direction(direction), Position(created_at, gateway_reference))


def _to_base64url(packed: bytes) -> str:
    return urlsafe_b64encode(packed).rstrip(b"=").decode("ascii")


def _tag(payload: bytes, of: PagedList, brand: str, key: bytes) -> bytes:
    # The zero byte separates the two, as no brand's name holds one.
    brands_key = hmac_digest(key, f"{of.value} cursor 1\0{brand}".encode(), sha256)
    return hmac_digest(brands_key, payload, sha256)
