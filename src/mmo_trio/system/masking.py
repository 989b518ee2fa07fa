"""Personal data masked for people who may not see it."""

from __future__ import annotations

import re

MASK_CHARACTER = "•"

_DIGITS = re.compile(r"\+?[0-9]{6,}")
_EMAIL = re.compile(r"(?<![^\s@\"<>])[^\s@\"<>]++@[^\s@\"<>]++")
"""Looks for an address only where a word begins: from each character of a long word it would read all that follow."""


def mask_number(number: str, *, visible: int = 3) -> str:
    """Mask all but the last characters of a number: `•••••••••007`; mask a short one whole."""
    shown = number[-visible:] if len(number) > visible else ""
    return MASK_CHARACTER * (len(number) - len(shown)) + shown


def mask_own_number(msisdn: str) -> str:
    """Mask a number so that its owner recognizes it and nobody else does: `254 •••••• 007` (W3)."""
    digits = msisdn.removeprefix("+")
    if len(digits) < 9:
        return mask_number(digits, visible=1)
    return f"{digits[:3]} {MASK_CHARACTER * (len(digits) - 6)} {digits[-3:]}"


def mask_name(text: str) -> str:
    """Mask all but the first letter: `Z•••`."""
    return f"{text[:1]}•••" if text else ""


def mask_text(text: str) -> str:
    """Mask everything in free text that may be a phone number or an e-mail address."""
    return _DIGITS.sub(lambda found: mask_number(found[0]), _EMAIL.sub("•••@•••", text))


def mask_query(url: str) -> str:
    """Remove the query of a URL, in which a merchant may have put personal data."""
    path, mark, _ = url.partition("?")
    return f"{path}?…" if mark else path
