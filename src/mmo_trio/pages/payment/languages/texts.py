"""What a payer reads, as one table that every language fills in."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from mmo_sansio.values.error_codes import ErrorCode


@frozen
class NumberFormat:
    """How numbers and amounts are written."""

    thousands_separator: str
    """Between thousands."""
    decimal_separator: str
    is_currency_first: bool
    """Whether the currency stands before the number."""
    digits: str = "0123456789"
    """The ten digits, from nought."""


@frozen
class PageTexts:
    """One language. What stands in braces is filled in."""

    code: str
    """ISO 639-1; the value of `lang`."""
    direction: str
    """`ltr` or `rtl`."""
    name: str
    """The language in its own words."""
    numbers: NumberFormat
    language: str
    title: str
    """With `{amount}` and `{brand}`."""
    to: str
    with_provider: str
    number: str
    ending_in: str
    """With `{digits}`: what is heard instead of a masked number."""
    instructions: str
    """What will happen once the button is pressed."""
    pay: str
    """The button, with `{amount}`."""
    time_left: str
    """With `{time}`."""
    minutes: str
    """With `{count}`."""
    hours: str
    closed: str
    sending: str
    waiting: str
    pin_warning: str
    check_status: str
    paid: str
    not_paid: str
    back: str
    unknown_title: str
    unknown: str
    busy_title: str
    busy: str
    reasons: Mapping[ErrorCode, str]
    """Why a payment failed."""
