r"""Keeps a text from acting on the program that shows it: a terminal, a browser or a spreadsheet.

Every character is made visible that would change how the text around it is shown. A merchant's reference or an
operator's message may hold U+202E, which turns the rest of the line around, so that somebody reads another amount or
name than there is. Such characters are shown as `\u202e`, which is also their escape in JSON: the value of a JSON text
stays the same."""

from __future__ import annotations

import re
from typing import Final

_CONTROL_CHARACTERS: Final = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
_DIRECTIONS: Final = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""The characters that set a direction of writing (UAX 9 section 2)."""
_LINE_ENDS: Final = r"\u2028\u2029"
_TAGS: Final = r"\U000e0000-\U000e007f"
"""Characters without a glyph that can hide a text."""
_INVISIBLE: Final = re.compile(f"[{_CONTROL_CHARACTERS}{_DIRECTIONS}{_LINE_ENDS}{_TAGS}\ufeff]")
_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7f]")
_SIGNS: Final = r"=+\-@\u207a\u207c\u208a\u208c\u2212\ufe62-\ufe66\ufe6b\uff0b\uff0d\uff1d\uff20"
"""With those of full, small or raised width, which mean the same to some programs."""
_FORMULA: Final = re.compile(rf"(^|[;\t\r\n])([^\S\t\r\n]*+)(?=[{_SIGNS}])")
"""Where a formula may begin: at the start, and behind what many programs take for the end of a cell."""


def visible_text(text: str) -> str:
    """Return the text with such characters escaped; line feeds and tabs stay."""
    return text if text.isascii() and text.isprintable() else _INVISIBLE.sub(_escape, text)


def ascii_json(text: str) -> str:
    """Return JSON text with all characters beyond ASCII escaped, for an output that cannot show them."""
    return _BEYOND_ASCII.sub(_escape, text)


def guard_cell(text: str) -> str:
    """Return the text with `'` before each sign that may begin a formula."""
    return _FORMULA.sub(r"\1\2'", text)


def _escape(found: re.Match[str]) -> str:
    r"""Return the JSON escape of a character, of two halves beyond U+FFFF."""
    halves = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{halves[at] << 8 | halves[at + 1]:04x}" for at in range(0, len(halves), 2))
