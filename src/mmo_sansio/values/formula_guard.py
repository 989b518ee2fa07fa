"""Guards the cells of a table that a spreadsheet program could run as a formula, and takes the
guard away again: what is read is always what was written."""

from __future__ import annotations

import re
from typing import Final

# What begins a formula, with the signs of full, small or raised width, which mean the same to some
# programs.
SIGNS: Final = r"=+\-@\u207a\u207c\u208a\u208c\u2212\ufe62-\ufe66\ufe6b\uff0b\uff0d\uff1d\uff20"

# The start, and what is behind the characters that many programs take for the end of a cell.
_CELL_BEGINS: Final = r"(^|[;\t\r\n])([^\S\t\r\n]*+)"

_FORMULA: Final = re.compile(rf"{_CELL_BEGINS}(?='*+[{SIGNS}]|'++[0-9])")

# Also a number behind an apostrophe, by which people make a spreadsheet program keep a text.
_GUARDED: Final = re.compile(rf"{_CELL_BEGINS}'(?='*+[{SIGNS}0-9])")


def guard_cell(text: str) -> str:
    """Return the text with `'` before each sign that may begin a formula."""
    return _FORMULA.sub(r"\1\2'", text)


def unguard_cell(text: str) -> str:
    """Return the text that `guard_cell` was given; of a number that a person has written as a text,
    `'0712`, the number."""
    return _GUARDED.sub(r"\1\2", text)
