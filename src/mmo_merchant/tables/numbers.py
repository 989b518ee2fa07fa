"""Reads numbers that people have written, in one notation or not at all.

`1.500` is fifteen hundred to some and one and a half to others. What a file means is declared, or
proved by a number in it that is one in a single notation, such as `1500,5`; and no amount has more
decimals than its currency. What two readings are left for is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from attrs import frozen

from mmo_merchant.tables.faults import CellFault
from mmo_sansio.values.money import NUMBER_CHARACTERS_MAX, decimals_of

# The significant digits that spreadsheet programs keep and show; further ones are noise.
SHEET_DIGITS: Final = 15

# A space, those that programs print between thousands, and the apostrophes of Switzerland.
_SPACES: Final = " \u00a0\u2009\u202f'\u2019"


class Notation(StrEnum):
    """Names what stands before the decimals."""

    POINT = "."
    COMMA = ","


def _expression(mark: str, other: str) -> re.Pattern[str]:
    """Return the expression of a notation: groups of three are all separated by the same
    character."""
    # Groups begin with one to three digits, not with 0: 012 345 is an account, and no number.
    # Possessive: no text makes the expression try again and again.
    groups = (
        rf"[1-9][0-9]{{0,2}}(?P<separator>[{_SPACES}{other}])[0-9]{{3}}"
        r"(?:(?P=separator)[0-9]{3})*+"
    )
    return re.compile(
        rf"(?P<sign>[+-]?)(?P<whole>{groups}|[0-9]++)(?:{re.escape(mark)}(?P<decimals>[0-9]++))?",
        re.ASCII,
    )


_EXPRESSIONS: Final = MappingProxyType(
    {Notation.POINT: _expression(".", ","), Notation.COMMA: _expression(",", r"\.")}
)
_OTHER: Final = MappingProxyType({Notation.POINT: Notation.COMMA, Notation.COMMA: Notation.POINT})
_NAMES: Final = MappingProxyType({Notation.POINT: "point", Notation.COMMA: "comma"})
_NOT_DIGITS: Final = re.compile(r"[^0-9]+", re.ASCII)


@frozen
class NumberFormat:
    """Says how the numbers of a file are written."""

    notation: Notation = Notation.POINT
    is_certain: bool = False
    """Whether it is declared, or proved by the file."""

    def read(self, cell: str | Decimal, currency: str) -> Decimal:
        """Return the value, with its sign. Raises CellFault, also for more decimals than the
        currency has, and KeyError for a currency that ISO 4217 does not have."""
        decimals = decimals_of(currency)
        if isinstance(cell, Decimal):
            return _check_typed(cell, currency, decimals)

        # 1. It must be a number in the file's notation, and no more exact than the currency.
        match = _match(cell, self.notation)
        if match is None:
            raise CellFault("is no number in the notation of the file", self._remedy(decimals))

        if len(match["decimals"] or "") > decimals:
            problem = f"has more decimals than {currency}, which has {decimals}"
            raise CellFault(problem, self._remedy(decimals))

        # 2. Where nothing has proved the notation, the other one must give the same value, or none.
        value = _value(match)
        if not self.is_certain and self._has_other_reading(cell, value, decimals):
            remedy = "Say what stands before decimals: --decimal . or --decimal ,"
            raise CellFault("can be read as two numbers", f"{remedy}.")

        return value

    def _has_other_reading(self, text: str, value: Decimal, decimals: int) -> bool:
        match = _match(text, _OTHER[self.notation])
        if match is None or len(match["decimals"] or "") > decimals:
            return False
        return _value(match) != value

    def _remedy(self, decimals: int) -> str:
        mark, other = self.notation.value, _OTHER[self.notation]
        example = "1234"
        if decimals:
            example = f"1234{mark}{'50'.ljust(decimals, '0')}"

        advice = f"Write digits, and a {_NAMES[self.notation]} only before decimals: {example}."
        return f"{advice} If decimals stand behind a {_NAMES[other]}, say so by --decimal {other}"


def declared_format(mark: str | None) -> NumberFormat | None:
    """Return the format that `--decimal` declares; None: it is to be proved."""
    if mark is None:
        return None
    return NumberFormat(Notation(mark), is_certain=True)


def find_format(cells: Iterable[str]) -> NumberFormat:
    """Return the format that the first cell proves that is a number in a single notation; a point
    before decimals, and no certainty, if none does."""
    for cell in cells:
        fitting = [notation for notation in Notation if _match(cell, notation) is not None]
        if len(fitting) == 1:
            return NumberFormat(fitting[0], is_certain=True)
    return NumberFormat()


def is_zero(cell: str | Decimal) -> bool:
    """Tell whether a cell has no amount, or zero in any notation."""
    if isinstance(cell, Decimal):
        return cell.is_zero()
    return not cell.strip("+-0.,")


def _match(text: str, notation: Notation) -> re.Match[str] | None:
    # Longer text is no amount (G7), and is not searched for one.
    if len(text) > NUMBER_CHARACTERS_MAX:
        return None
    return _EXPRESSIONS[notation].fullmatch(text)


def _value(match: re.Match[str]) -> Decimal:
    whole = _NOT_DIGITS.sub("", match["whole"])
    # Decimals that are not written are not added: some currencies have none.
    decimals = ""
    if match["decimals"]:
        decimals = f".{match['decimals']}"

    return Decimal(f"{match['sign']}{whole}{decimals}")


def _check_typed(value: Decimal, currency: str, decimals: int) -> Decimal:
    """Return the number of a sheet. Raises CellFault where more of it than the currency has is only
    hidden by its format."""
    # Never rounded: what a sheet shows as 100 may be 99.6.
    if value != round(value, decimals):
        problem = f"has more decimals than {currency}, which has {decimals}"
        raise CellFault(problem, "Round it in the sheet: what is shown may hide decimals.")
    return value
