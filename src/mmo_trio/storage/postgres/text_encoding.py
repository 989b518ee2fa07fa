"""Text that PostgreSQL can't store: U+0000 and lone surrogates. No stored row has such text as its key."""

from __future__ import annotations

import re

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def is_storable(text: str) -> bool:
    """Return whether PostgreSQL can store this text."""
    return _UNSTORABLE.search(text) is None


def escape_text(text: str) -> str:
    """Return the text with unstorable characters escaped as in JSON; providers' text may contain anything."""
    return _UNSTORABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def escape_optional_text(text: str | None) -> str | None:
    """Return the same for text that may be absent."""
    return None if text is None else escape_text(text)
