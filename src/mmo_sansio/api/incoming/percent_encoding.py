"""Percent-encoding, decoded strictly: a stray `%` or bytes that are not UTF-8 are faults (RFC 3986 section 2.1, L3)."""

from __future__ import annotations

import re
from typing import Final

_TRIPLET: Final = re.compile(rb"%([0-9A-Fa-f]{2})?")


def percent_decode(text: bytes) -> str:
    """The text that was percent-encoded once. Raises ValueError for a bad escape and for invalid UTF-8."""
    if b"%" in text:
        text = _TRIPLET.sub(_octet, text)
    return text.decode()


def _octet(found: re.Match[bytes]) -> bytes:
    if found[1] is None:
        raise ValueError("a '%' is not followed by two hexadecimal digits")
    return bytes.fromhex(found[1].decode())
