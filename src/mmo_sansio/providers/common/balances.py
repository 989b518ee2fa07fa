"""Defines the balances of our accounts with providers, and computes how long a float lasts: the
money with an operator from which pay-outs are paid."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from decimal import ROUND_FLOOR, Decimal
from itertools import groupby, pairwise
from typing import Final, Protocol, TypeAlias, runtime_checkable

from attrs import frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import HOUR, MINUTE, Instant, Moment, Span, elapsed
from mmo_sansio.values.money import AMOUNT_MAX, Money, decimals_of, parse_number, to_money

# Thousands in groups of three, as Airtel Money writes its balances ("37,600.00"). A decimal comma
# fits too where three digits follow it, which no currency of these operators has.
_GROUPED: Final = re.compile(r"-?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?", re.ASCII)

# The last hours, at whose rate a float is spent in a forecast.
FORECAST_WINDOW: Span = Span(6 * HOUR)

# What was spent since a first balance that is newer than this counts as spent in this time: one
# large pay-out is no rate.
FORECAST_PERIOD_MIN: Span = Span(30 * MINUTE)

# By how much a low float must exceed its thresholds until it is low no more, so that it does not
# cross them again and again.
RECOVERY_FACTOR = 1.25


@frozen
class AccountBalance:
    """Says how much was in an account of ours."""

    provider: str
    account: str
    """The provider's name of the account, such as `disbursement`."""
    amount: Money
    # Answers have no time of their own: ours is the only one.
    at: Instant
    """When it was asked for, by the gateway's own time."""
    is_float: bool
    """Whether pay-outs are paid from it."""

    @property
    def key(self) -> tuple[str, str]:
        """Provider and account."""
        return self.provider, self.account


@frozen
class BalanceReport:
    """A provider reports balances; of an account that it does not offer it reports none."""

    balances: Sequence[AccountBalance] = ()


BalanceInquiry: TypeAlias = Generator[HttpRequest, HttpResponse, BalanceReport]
"""A conversation about balances; those that arrive as a notification are not in its report."""


@runtime_checkable
class ReportsBalances(Protocol):
    """Represents a provider that can be asked for the balances of our accounts."""

    def ask_balances(self, *, now: Moment) -> BalanceInquiry:
        """Ask for the balances. Like each question it moves no money; an account without an answer
        is left out."""


def parse_balance(value: object, currency: object) -> Money:
    """Return the balance in a number's text, which may be negative and may separate thousands by
    commas; what is less than a minor unit is left out. Raises ValueError, also for a comma before
    decimals, without which a float would seem a hundred times as large."""
    if not isinstance(value, str) or not isinstance(currency, str):
        raise ValueError("a balance is the text of a number, with a currency")

    text = value.strip()
    if "," in text and not _GROUPED.fullmatch(text):
        raise ValueError("its commas separate no thousands")

    number = parse_number(text.replace(",", ""))
    if abs(number) > AMOUNT_MAX:
        raise ValueError("a balance is at most 10^15")

    try:
        # Rounded down: a float that seems larger than it is would be warned of too late.
        unit = Decimal(1).scaleb(-decimals_of(currency))
        return to_money(number.quantize(unit, ROUND_FLOOR), currency)
    except KeyError:
        raise ValueError("its currency does not exist") from None


@frozen
class FloatWatch:
    """Says how the floats with a provider are watched, and from when on one is low."""

    # Often enough to warn hours ahead, seldom enough for operators that count questions.
    interval: Span = Span(5 * MINUTE)
    """Between two questions; 0: none is asked."""
    minimums: Sequence[Money] = ()
    """A float with less is low; at most one for each currency."""
    hours: int = 6
    """One that lasts for less is low; 0: that does not count."""


@frozen
class FloatForecast:
    """Says how long an account lasts."""

    latest: AccountBalance
    hours_left: float | None
    """Hours until it is empty at the rate of the last hours; None: nothing was spent."""

    def is_low(self, watch: FloatWatch, *, was_low: bool) -> bool:
        """Tell whether it is below a threshold, or was and is not yet well above it. Only a float
        can be low."""
        # Once low, it has to exceed a threshold by a quarter.
        factor = RECOVERY_FACTOR if was_low else 1.0
        amount = self.latest.amount
        hours = self.hours_left

        # Minimums in other currencies say nothing about this account.
        lacks_money = any(
            amount.minor < minimum.minor * factor
            for minimum in watch.minimums
            if minimum.currency == amount.currency
        )
        ends_soon = hours is not None and hours < watch.hours * factor
        return self.latest.is_float and (lacks_money or ends_soon)


def forecast_floats(history: Sequence[AccountBalance]) -> Sequence[FloatForecast]:
    """Return the forecast of each account in this history, which is that of the last hours.

    What has come in meanwhile is not set off against what was spent: money that is put in once is
    no rate."""
    ordered = sorted(history, key=lambda balance: (*balance.key, balance.at))
    return tuple(
        _forecast(tuple(balances))
        for _, balances in groupby(ordered, key=lambda balance: balance.key)
    )


def _forecast(balances: Sequence[AccountBalance]) -> FloatForecast:
    latest = balances[-1]

    # Only what went down: what came in between two answers hides what was spent there.
    spent = sum(
        max(0, before.amount.minor - after.amount.minor)
        for before, after in pairwise(balances)
        if before.amount.currency == after.amount.currency
    )

    # Nobody spends at the rate of one pay-out in a minute for hours.
    period = max(elapsed(balances[0].at, latest.at), FORECAST_PERIOD_MIN)
    left = None
    if spent:
        left = max(0, latest.amount.minor) * period / (spent * HOUR)

    return FloatForecast(latest, left)
