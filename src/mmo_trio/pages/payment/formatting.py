"""Amounts, times and numbers in the payer's own way of writing them."""

from __future__ import annotations

from mmo_sansio.values.clock import HOUR, MINUTE, Span
from mmo_sansio.values.money import Money
from mmo_trio.pages.payment.languages.texts import NumberFormat, PageTexts

NO_BREAK_SPACE = "\u00a0"
VISIBLE_PREFIX_DIGITS = 3
VISIBLE_SUFFIX_DIGITS = 3
MASK_CHARACTER = "•"
MINUTES_MAX = 120
"""From here on time is told in hours."""


def format_amount(amount: Money, number_format: NumberFormat) -> str:
    """`KES 1,500.00`, `1 500,00 KES`, `١٬٥٠٠٫٠٠ KES`: all decimals of the currency, never broken at a line's end."""
    whole, _, decimals = amount.text.partition(".")
    groups = [whole[max(0, end - 3) : end] for end in range(len(whole), 0, -3)]
    number = number_format.thousands_separator.join(reversed(groups))
    number = _localize_digits(number, number_format) + (
        number_format.decimal_separator + _localize_digits(decimals, number_format)
        if decimals
        else ""
    )
    parts = (
        (amount.currency, number) if number_format.is_currency_first else (number, amount.currency)
    )
    return NO_BREAK_SPACE.join(parts)


def format_time_left(left: Span, texts: PageTexts) -> str:
    """How much time is left, rounded up: `29 min`, `71 h`."""
    minutes = max(0, -(-left // MINUTE))
    if minutes <= MINUTES_MAX:
        return texts.minutes.format(count=_localize_digits(str(minutes), texts.numbers))
    return texts.hours.format(count=_localize_digits(str(-(-left // HOUR)), texts.numbers))


def mask_msisdn(msisdn: str) -> str:
    """Enough of a number to know one's own by, and not enough for anybody else (W3)."""
    digits = msisdn.removeprefix("+")
    hidden = len(digits) - VISIBLE_PREFIX_DIGITS - VISIBLE_SUFFIX_DIGITS
    if hidden < VISIBLE_SUFFIX_DIGITS:
        return MASK_CHARACTER * max(0, len(digits) - 1) + digits[-1:]
    return f"{digits[:VISIBLE_PREFIX_DIGITS]} {MASK_CHARACTER * hidden} {digits[-VISIBLE_SUFFIX_DIGITS:]}"


def spoken_suffix(msisdn: str) -> str:
    """The digits at the end of a masked number, a space after each, as a voice shall read them."""
    return " ".join(mask_msisdn(msisdn).rpartition(MASK_CHARACTER)[2].strip())


def _localize_digits(number: str, number_format: NumberFormat) -> str:
    return number.translate(
        {ord("0") + value: digit for value, digit in enumerate(number_format.digits)}
    )
