"""Text that PostgreSQL can't hold: U+0000 and lone surrogates. What is looked up by such text isn't there."""

from __future__ import annotations

import re

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def is_storable(text: str) -> bool:
    """Whether PostgreSQL can hold this text at all."""
    return _UNSTORABLE.search(text) is None


def escape_text(text: str) -> str:
    """The text with what can't be held written as JSON would escape it; other people's words may hold anything."""
    return _UNSTORABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def escape_optional_text(text: str | None) -> str | None:
    """The same for what may be absent."""
    return None if text is None else escape_text(text)
