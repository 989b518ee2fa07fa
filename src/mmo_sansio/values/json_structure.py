"""Limits the structure of JSON text before it is parsed: a parser makes an object for each value, so that many small
values cost a hundred times what the same length of plain text costs (G7)."""

from __future__ import annotations

import re
from typing import Final

NESTING_MAX: Final = 32
"""Levels of objects and arrays, the outermost included: no request needs more than three."""
VALUES_MAX: Final = 1_000
"""Members and elements of all objects and arrays together: no request needs more than thirty."""

_STRING_OR_STRUCTURE: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{\]},]', re.DOTALL)


def structure_error(body: bytes) -> str | None:
    """Return why JSON text has too much structure, to complete the sentence `It can't be read: …`; None when it has
    not. The text need not be valid JSON."""
    openings = body.count(b"{") + body.count(b"[")
    if openings <= NESTING_MAX and openings + body.count(b",") <= VALUES_MAX:
        return None  # Most texts have so few brackets and commas, even with those inside of strings.
    depth = values = 0
    for found in _STRING_OR_STRUCTURE.finditer(body):
        token = found[0]
        if token in (b"{", b"["):
            depth += 1
            values += 1
            if depth > NESTING_MAX:
                return f"it is nested deeper than {NESTING_MAX} levels"
        elif token == b",":
            values += 1
        elif token in (b"}", b"]"):
            depth -= 1
        if values > VALUES_MAX:
            return f"it has more than {VALUES_MAX} members and elements"
    return None
