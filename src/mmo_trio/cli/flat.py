"""Transaction objects as the cells of a row, every number exactly as it is written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

PARTY = ("id", "msisdn", "firstName", "lastName", "email")
MONEY = ("value", "currency")
PROVIDER = ("name", "title", "fee.value", "fee.currency", "partyData", "errorCode", "errorMessage")

COLUMNS: tuple[str, ...] = (
    "brand",
    "status",
    "type",
    "flow",
    "gatewayReference",
    "merchantReference",
    "reconciliationReference",
    "providerReference",
    *(f"party.{each}" for each in PARTY),
    "method",
    "country",
    *(f"requestedAmount.{each}" for each in MONEY),
    *(f"finalAmount.{each}" for each in MONEY),
    "labels",
    "createdAt",
    "completedAt",
    "completionSource",
    "errorCode",
    "errorMessage",
    *(f"providerData.{each}" for each in PROVIDER),
)
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
        if isinstance(value, dict) and name not in ("labels", "partyData"):
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
