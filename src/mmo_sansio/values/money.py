"""Defines money: exact amounts in a currency's minor units, from the request to the response (clauses G6, M1)."""

from __future__ import annotations

import re
from decimal import Decimal

from attrs import frozen

from mmo_sansio.values.currencies import decimals_of

AMOUNT_MAX = Decimal(10) ** 15
"""The largest accepted amount (M1): far above any payment, and far below the limit of any store."""

NUMBER_CHARACTERS_MAX = 40
"""The longest number that is read (G7); longer text costs time to convert and has no meaning."""

_EXPONENT_MAX = 99
_NUMBER = re.compile(r"(-?[0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?", re.ASCII)


class AmountError(ValueError):
    """Raised for text or a value that is not an acceptable amount; the message says what is acceptable."""


@frozen
class Money:
    """Money is an amount of a currency, counted in its minor units."""

    minor: int
    """Whole minor units: cents for KES, whole shillings for UGX, thousandths for KWD."""
    currency: str
    """ISO 4217 alphabetic code."""

    def __str__(self) -> str:
        return f"{self.text} {self.currency}"

    @property
    def text(self) -> str:
        """Return the amount with exactly the currency's number of decimals and never an exponent: `150.00`."""
        decimals = decimals_of(self.currency)
        if decimals == 0:
            return str(self.minor)
        sign = "-" if self.minor < 0 else ""
        digits = str(abs(self.minor)).rjust(decimals + 1, "0")
        return f"{sign}{digits[:-decimals]}.{digits[-decimals:]}"


def parse_number(text: str) -> Decimal:
    """Return the exact value of a JSON number. Raises AmountError when it has more than 40 characters or an exponent of
    more than two digits, so that no text costs more than its length to read (G7)."""
    if len(text) > NUMBER_CHARACTERS_MAX:
        raise AmountError(f"must be a number of at most {NUMBER_CHARACTERS_MAX} characters")
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise AmountError("must be a decimal number such as 150.00")
    if abs(int(match[3] or 0)) > _EXPONENT_MAX:
        raise AmountError("must be a number between 0 and 10^15")
    return Decimal(text)


def check_amount(value: Decimal) -> Decimal:
    """Return the value itself when it is above 0 and at most 10^15 (M1); raises AmountError otherwise."""
    if value <= 0:
        raise AmountError("must be greater than 0")
    if value > AMOUNT_MAX:
        raise AmountError("must be at most 1000000000000000 (10^15)")
    return value


def to_money(value: Decimal, currency: str) -> Money:
    """Return the value in minor units. Raises AmountError when it has more decimals than the currency (M1, by value:
    `100.500` KES is accepted, `100.5` UGX is not) and KeyError for an unknown currency."""
    decimals = decimals_of(currency)
    numerator, denominator = value.as_integer_ratio()
    minor, rest = divmod(numerator * 10**decimals, denominator)
    if rest:
        raise AmountError(
            f"must have at most {decimals} decimals in {currency}"
            if decimals
            else f"must be a whole number in {currency}"
        )
    return Money(minor, currency)


def percentage_of(amount: Money, percent: int) -> Money:
    """Return that percentage of the amount, rounded half up, and at least one minor unit: the sandbox's fee."""
    return Money(max(1, (amount.minor * percent * 2 + 100) // 200), amount.currency)
