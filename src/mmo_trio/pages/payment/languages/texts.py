"""Defines the table of texts that every language of the payment page fills in, and how it writes
amounts and times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from attrs import frozen

from mmo_sansio.values.clock import HOUR, MINUTE, Instant, Span, to_datetime
from mmo_sansio.values.error_codes import ErrorCode, PayerStep
from mmo_sansio.values.number_format import NumberFormat, format_count, format_digits
from mmo_trio.system.display_text import MASK_CHARACTER, mask_own_number

# The longest time that is shown in minutes; above it, in hours.
MINUTES_MAX = 120


class PluralCategory(StrEnum):
    """Names the forms that a noun has beside a number (Unicode CLDR, Language Plural Rules)."""

    ZERO = "zero"
    ONE = "one"
    TWO = "two"
    FEW = "few"
    MANY = "many"
    OTHER = "other"


# Chooses the form beside a whole number, from 0.
PluralRule = Callable[[int], PluralCategory]


def one_or_other(count: int) -> PluralCategory:
    """Follow CLDR's rule of English, Swahili and European Portuguese."""
    if count == 1:
        return PluralCategory.ONE
    return PluralCategory.OTHER


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
    with_provider: str
    number: str
    ending_in: str
    """With `{digits}`: the text of a masked number for screen readers."""
    instructions: str
    """Explains the effect of the button, with `{provider}` and `{number}`."""
    pay: str
    """The button, with `{amount}`."""
    time_left: str
    """With `{time}`."""
    plural: PluralRule
    minutes: Mapping[PluralCategory, str]
    """The forms that differ from OTHER, and OTHER; with `{count}` where the number is written."""
    hours: Mapping[PluralCategory, str]
    sending: str
    waiting: str
    slow: str
    """For a payment that has waited longer than most."""
    waited: str
    """With `{time}`: how long it has waited."""
    no_connection: str
    pin_warning: str
    check_status: str
    paid: str
    """The heading of an ending, as the next two."""
    not_paid: str
    unclear: str
    """For a payment of which nobody knows whether money has moved."""
    not_taken: str
    """Says below the heading that no money has moved, where that is known."""
    amount: str
    order: str
    """Names what is paid for."""
    date: str
    reference: str
    date_time: str
    """With `{day}`, `{month}`, `{year}` and `{time}`."""
    months: Sequence[str]
    """The names of the twelve months, as they stand in a date."""
    call: str
    """The link to the telephone of the shop, with `{number}`."""
    ask_shop: str
    """The link to the shop's own page for questions."""
    run_by: str
    """Says whose page it is, with `{gateway}` and `{brand}`."""
    instructions_elsewhere: str
    """With `{provider}`, as all texts below up to the code's: explains the button where the payer
    confirms at a page of the provider, or with a code of it; with `{number}`, too."""
    asking: str
    """For a payment about which the provider is asked, as nobody confirms it on the phone."""
    elsewhere: str
    """For a payment that its payer confirms at a page of the provider."""
    go: str
    """The link to that page."""
    leads_to: str
    """With `{host}`: says which address the link opens."""
    enter_code: str
    ask_for_code: str
    """Says how to get a code, where the provider does not say it itself."""
    code_label: str
    """That of the field for the code."""
    code_unusable: str
    """For what can be no code."""
    steps: str
    """Names the list of the three steps, for screen readers."""
    step_confirm: str
    step_pin: str
    step_done: str
    no_message: str
    """Says what helps when the phone shows nothing, with `{number}`."""
    dial: str
    """Says what shows payments that wait, with `{code}`."""
    receipt: str
    next_paid: str
    other_device: str
    """The heading over the QR code of the page."""
    scan: str
    back: str
    unknown_title: str
    unknown: str
    missing_title: str
    """For an address that no page has."""
    missing: str
    fault_title: str
    """For any other request that cannot be answered."""
    fault: str
    busy_title: str
    busy: str
    reasons: Mapping[ErrorCode, str]
    """The reasons of failed payments."""
    next_steps: Mapping[PayerStep, str]
    """What to do after a failed payment."""


def format_time_left(left: Span, texts: PageTexts) -> str:
    """Format the time that is left, rounded up: `29 min`, `71 h`."""
    return _format_time(max(0, -(-left // MINUTE)), -(-left // HOUR), texts)


def format_time_waited(waited: Span, texts: PageTexts) -> str:
    """Format how long something has waited, rounded down: `1 min`, `3 h`."""
    return _format_time(waited // MINUTE, waited // HOUR, texts)


def _format_time(minutes: int, hours: int, texts: PageTexts) -> str:
    count, forms = (minutes, texts.minutes) if minutes <= MINUTES_MAX else (hours, texts.hours)
    form = forms.get(texts.plural(count), forms[PluralCategory.OTHER])
    return form.format(count=format_count(count, texts.numbers))


def format_date(moment: Instant, texts: PageTexts) -> str:
    """Format a moment to the minute, by UTC: `28 Nov 2026, 22:51 UTC`."""
    utc = to_datetime(moment)
    text = texts.date_time.format(
        day=utc.day, month=texts.months[utc.month - 1], year=utc.year, time=f"{utc:%H:%M} UTC"
    )
    return format_digits(text, texts.numbers)


def spoken_suffix(msisdn: str) -> str:
    """Return the visible last digits of a masked number, separated for a screen reader's voice."""
    return " ".join(mask_own_number(msisdn).rpartition(MASK_CHARACTER)[2].strip())
