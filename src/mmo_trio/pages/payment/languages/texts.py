"""Defines the table of texts that every language of the payment page fills in."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from mmo_sansio.values.error_codes import ErrorCode, PayerStep


@frozen
class NumberFormat:
    """Says how numbers and amounts are written."""

    thousands_separator: str
    """Separator of thousands."""
    decimal_separator: str
    is_currency_first: bool
    """Whether the currency stands before the number."""
    digits: str = "0123456789"
    """The ten digits, from zero."""


@frozen
class PageTexts:
    """Holds the texts of one language; parts in braces are filled in."""

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
    """With `{digits}`: the text of a masked number for screen readers."""
    instructions: str
    """Explains the effect of the button."""
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
    unclear: str
    """For a payment of which nobody knows whether money has moved."""
    steps: str
    """Names the list of the three steps, for screen readers."""
    step_confirm: str
    step_pin: str
    step_done: str
    no_message: str
    """Says what helps when the phone shows nothing."""
    receipt: str
    next_paid: str
    other_device: str
    """The heading over the QR code of the page."""
    scan: str
    back: str
    unknown_title: str
    unknown: str
    busy_title: str
    busy: str
    reasons: Mapping[ErrorCode, str]
    """The reasons of failed payments."""
    next_steps: Mapping[PayerStep, str]
    """What to do after a failed payment."""
