"""Writes transaction objects as CSV cells; every number is exactly as in JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from mmo_sansio.api.outgoing import MONEY_MEMBERS, PARTY_MEMBERS, PROVIDER_DATA_MEMBERS, TRANSACTION_MEMBERS

_NESTED_MEMBERS = {
    "party": PARTY_MEMBERS,
    "requestedAmount": MONEY_MEMBERS,
    "finalAmount": MONEY_MEMBERS,
    "providerData": PROVIDER_DATA_MEMBERS,
    "providerData.fee": MONEY_MEMBERS,
}
"""Members whose own members have a column each; labels and partyData have free content."""


def _column_paths(prefix: str, members: Sequence[str]) -> Iterator[str]:
    for name in members:
        path = f"{prefix}{name}"
        if path in _NESTED_MEMBERS:
            yield from _column_paths(f"{path}.", _NESTED_MEMBERS[path])
        else:
            yield path


COLUMNS: tuple[str, ...] = ("brand", *_column_paths("", TRANSACTION_MEMBERS))
"""The columns of a row: the members of the transaction object by dotted path, after the brand."""


@frozen
class CsvNumber:
    """A JSON number as text: money is never a binary float (G6)."""

    text: str


def row_cells(brand: str, transaction_json: bytes) -> list[str]:
    """Return the cells of a transaction object; null is empty, labels and partyData are JSON."""
    members = json.loads(transaction_json, parse_float=CsvNumber, parse_int=CsvNumber)
    found = dict(_flatten("", members))
    return [brand, *(found.get(column, "") for column in COLUMNS[1:])]


def _flatten(path: str, members: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in members.items():
        here = f"{path}{name}"
        if isinstance(value, dict) and here in _NESTED_MEMBERS:
            yield from _flatten(f"{here}.", value)
        elif value is not None:
            yield here, value if isinstance(value, str) else _json_text(value)


def _json_text(value: Any) -> str:
    match value:
        case CsvNumber(text):
            return text
        case dict():
            return "{" + ",".join(f"{_json_text(k)}:{_json_text(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_json_text, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)
