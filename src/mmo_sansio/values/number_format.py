"""Formats numbers and amounts for people: on pages, on the terminal and in messages. Programs get
`Money.text`, which is exact and has no separators."""

from __future__ import annotations

import re

from attrs import frozen

from mmo_sansio.values.money import CURRENCIES, Money, decimals_of


@frozen
class NumberFormat:
    """Says how numbers and amounts are written."""

    thousands_separator: str
    """Separator of thousands; none at which a line may break."""
    decimal_separator: str
    is_currency_first: bool
    """Whether the currency stands before the number."""
    digits: str = "0123456789"
    """The ten digits, from zero."""


# What staff and merchants read is English; payers' languages have formats of their own.
ENGLISH_NUMBERS = NumberFormat(
    thousands_separator=",", decimal_separator=".", is_currency_first=True
)

# At most 18 digits, as no amount has more; not within another number, a word or a list.
_AMOUNT = re.compile(
    rf"(?<![\w.,])(-?[0-9]{{1,18}})(?:\.([0-9]{{2,4}}))? ({'|'.join(CURRENCIES)})\b", re.ASCII
)


def format_count(count: int, numbers: NumberFormat = ENGLISH_NUMBERS) -> str:
    """Format a whole number: `4,081`, `٤٬٠٨١`."""
    return format_digits(f"{count:,}".replace(",", numbers.thousands_separator), numbers)


def format_number(amount: Money, numbers: NumberFormat = ENGLISH_NUMBERS) -> str:
    """Format the number of an amount with all decimals of its currency: `1,500.00`, `١٬٥٠٠٫٠٠`."""
    whole, _, decimals = amount.text.partition(".")
    number = format_count(abs(int(whole)), numbers)
    if decimals:
        number += numbers.decimal_separator + format_digits(decimals, numbers)

    # The sign stands before the number, not before the currency.
    if amount.minor < 0:
        return f"-{number}"

    return number


def format_amount(amount: Money, numbers: NumberFormat = ENGLISH_NUMBERS) -> str:
    """Format an amount with all decimals of its currency: `KES 1,500.00`, `1 500,00 KES`, `١٬٥٠٠٫٠٠
    KES`.

    A line may break between currency and number, and nowhere else.
    """
    number = format_number(amount, numbers)
    if numbers.is_currency_first:
        return f"{amount.currency} {number}"

    return f"{number} {amount.currency}"


def format_digits(text: str, numbers: NumberFormat) -> str:
    """Return the text with its digits as this format writes them."""
    return text.translate({ord("0") + value: digit for value, digit in enumerate(numbers.digits)})


def format_amounts_in(text: str) -> str:
    """Return an English text in which each exact amount, `1500.00 KES`, is formatted: `KES
    1,500.00`. What has other decimals than its currency is no amount and stays."""

    def formatted(found: re.Match[str]) -> str:
        whole, decimals, currency = found[1], found[2] or "", found[3]
        # `10.5 KES` may be anything: a version, a rate, a typing error.
        if len(decimals) != decimals_of(currency):
            return found[0]
        return format_amount(Money(int(whole + decimals), currency))

    return _AMOUNT.sub(formatted, text)
