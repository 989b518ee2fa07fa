"""Amounts, times and numbers are formatted as the payer's language writes them."""

from __future__ import annotations

from mmo_sansio.values.clock import HOUR, MINUTE, Span
from mmo_sansio.values.money import Money
from mmo_trio.pages.payment.languages.texts import NumberFormat, PageTexts
from mmo_trio.system.display_text import MASK_CHARACTER, mask_own_number

NO_BREAK_SPACE = "\u00a0"
MINUTES_MAX = 120
"""The longest time left that is shown in minutes; above it, in hours."""


def format_amount(amount: Money, number_format: NumberFormat) -> str:
    """Format an amount with all decimals of its currency and no line break.

    Examples: `KES 1,500.00`, `1 500,00 KES`, `١٬٥٠٠٫٠٠ KES`.
    """
    whole, _, decimals = amount.text.partition(".")
    groups = [whole[max(0, end - 3) : end] for end in range(len(whole), 0, -3)]
    number = number_format.thousands_separator.join(reversed(groups))
    number = _localize_digits(number, number_format) + (
        number_format.decimal_separator + _localize_digits(decimals, number_format) if decimals else ""
    )
    parts = (amount.currency, number) if number_format.is_currency_first else (number, amount.currency)
    return NO_BREAK_SPACE.join(parts)


def format_time_left(left: Span, texts: PageTexts) -> str:
    """Format the time that is left, rounded up: `29 min`, `71 h`."""
    minutes = max(0, -(-left // MINUTE))
    if minutes <= MINUTES_MAX:
        return texts.minutes.format(count=_localize_digits(str(minutes), texts.numbers))
    return texts.hours.format(count=_localize_digits(str(-(-left // HOUR)), texts.numbers))


def spoken_suffix(msisdn: str) -> str:
    """Return the visible last digits of a masked number, separated for a screen reader's voice."""
    return " ".join(mask_own_number(msisdn).rpartition(MASK_CHARACTER)[2].strip())


def _localize_digits(number: str, number_format: NumberFormat) -> str:
    return number.translate({ord("0") + value: digit for value, digit in enumerate(number_format.digits)})
