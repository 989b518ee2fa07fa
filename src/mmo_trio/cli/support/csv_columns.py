"""Transaction objects as the cells of a row, every number exactly as it is written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from mmo_sansio.api.outgoing.transaction_json import (
    MONEY_MEMBERS,
    PARTY_MEMBERS,
    PROVIDER_DATA_MEMBERS,
    TRANSACTION_MEMBERS,
)

_NESTED = {
    "party": PARTY_MEMBERS,
    "requestedAmount": MONEY_MEMBERS,
    "finalAmount": MONEY_MEMBERS,
    "providerData": PROVIDER_DATA_MEMBERS,
    "providerData.fee": MONEY_MEMBERS,
}
"""The members whose own members have a column each; labels and partyData hold whatever others wrote."""


def _paths(prefix: str, members: Sequence[str]) -> Iterator[str]:
    for name in members:
        path = f"{prefix}{name}"
        if path in _NESTED:
            yield from _paths(f"{path}.", _NESTED[path])
        else:
            yield path


COLUMNS: tuple[str, ...] = ("brand", *_paths("", TRANSACTION_MEMBERS))
"""The columns of a row: the members of the transaction object by dotted path, after the brand."""


@frozen
class Number:
    """A JSON number as it is written: no binary float ever stands for money (G6)."""

    text: str


def cells(brand: str, written: bytes) -> list[str]:
    """The row of a transaction object. Null is an empty cell, labels and partyData are JSON text."""
    members = json.loads(written, parse_float=Number, parse_int=Number)
    found = dict(_flat("", members))
    return [brand, *(found.get(column, "") for column in COLUMNS[1:])]


def _flat(path: str, members: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in members.items():
        here = f"{path}{name}"
        if isinstance(value, dict) and here in _NESTED:
            yield from _flat(f"{here}.", value)
        elif value is not None:
            yield here, value if isinstance(value, str) else _text(value)


def _text(value: Any) -> str:
    match value:
        case Number(text):
            return text
        case dict():
            return "{" + ",".join(f"{_text(k)}:{_text(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_text, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)
