"""Writes parsed JSON again, with each number as it stood."""

from __future__ import annotations

import json
from typing import Any

from mmo_sansio.values.strict_json import JsonNumber


def json_text(value: Any) -> str:
    """Return the text of a value whose numbers are JsonNumber: money is never a binary float
    (G6)."""
    match value:
        case JsonNumber(text):
            # By its text: 100.00 stays 100.00, and a long number keeps its digits.
            return text
        case dict():
            members = (f"{json_text(name)}:{json_text(member)}" for name, member in value.items())
            return "{" + ",".join(members) + "}"
        case list():
            return "[" + ",".join(map(json_text, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)
