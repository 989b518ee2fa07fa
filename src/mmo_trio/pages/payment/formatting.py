"""Amounts, times and numbers in the payer's own way of writing them."""

from __future__ import annotations

from mmo_sansio.values.clock import HOUR, MINUTE, Span
from mmo_sansio.values.money import Money
from mmo_trio.pages.payment.languages.texts import NumberForm, Texts

NO_BREAK = "\u00a0"
SHOWN_AT_START = 3
SHOWN_AT_END = 3
MASK = "•"
MINUTES_MOST = 120
"""From here on time is told in hours."""


def amount_written(amount: Money, form: NumberForm) -> str:
    """`KES 1,500.00`, `1 500,00 KES`, `١٬٥٠٠٫٠٠ KES`: all decimals of the currency, never broken at a line's end."""
    whole, _, decimals = amount.text.partition(".")
    groups = [whole[max(0, end - 3) : end] for end in range(len(whole), 0, -3)]
    number = form.grouping.join(reversed(groups))
    number = _in_digits(number, form) + (
        form.decimal + _in_digits(decimals, form) if decimals else ""
    )
    parts = (amount.currency, number) if form.is_code_first else (number, amount.currency)
    return NO_BREAK.join(parts)


def time_written(left: Span, texts: Texts) -> str:
    """How much time is left, rounded up: `29 min`, `71 h`."""
    minutes = max(0, -(-left // MINUTE))
    if minutes <= MINUTES_MOST:
        return texts.minutes.format(count=_in_digits(str(minutes), texts.numbers))
    return texts.hours.format(count=_in_digits(str(-(-left // HOUR)), texts.numbers))


def masked(msisdn: str) -> str:
    """Enough of a number to know one's own by, and not enough for anybody else (W3)."""
    digits = msisdn.removeprefix("+")
    hidden = len(digits) - SHOWN_AT_START - SHOWN_AT_END
    if hidden < SHOWN_AT_END:
        return MASK * max(0, len(digits) - 1) + digits[-1:]
    return f"{digits[:SHOWN_AT_START]} {MASK * hidden} {digits[-SHOWN_AT_END:]}"


def shown_end(msisdn: str) -> str:
    """The digits at the end of a masked number, a space after each, as a voice shall read them."""
    return " ".join(masked(msisdn).rpartition(MASK)[2].strip())


def _in_digits(number: str, form: NumberForm) -> str:
    return number.translate({ord("0") + value: digit for value, digit in enumerate(form.digits)})
