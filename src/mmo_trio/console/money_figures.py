"""Figures of money: what was taken and paid out in each currency, and why payments failed. Sums of
different currencies are never added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import Type
from mmo_sansio.values.money import Money, decimals_of, sum_by_currency
from mmo_sansio.values.number_format import format_amount
from mmo_trio.console.views import format_words
from mmo_trio.design.chart_drawing import DrawnChart, Series, draw_bars
from mmo_trio.storage.interface.admin_types import PaymentSum

# Currencies that have tiles and a chart of their own, those of the most payments.
CURRENCIES_MAX = 3

REASONS_MAX = 5


@frozen
class CurrencyTotal:
    """Says what was taken and paid out in one currency."""

    currency: str
    taken: Money
    taken_count: int
    paid_out: Money
    paid_out_count: int

    @property
    def count(self) -> int:
        return self.taken_count + self.paid_out_count


def currency_totals(sums: Iterable[PaymentSum]) -> Sequence[CurrencyTotal]:
    """Return the totals of the currencies in which payments succeeded, that of the most first."""
    minor, count = Counter[tuple[str, bool]](), Counter[tuple[str, bool]]()
    for counted in sums:
        if counted.error_code is None:
            key = counted.currency, counted.type is Type.PAYOUT
            minor[key] += counted.minor
            count[key] += counted.count

    totals = [
        CurrencyTotal(
            currency,
            Money(minor[currency, False], currency),
            count[currency, False],
            Money(minor[currency, True], currency),
            count[currency, True],
        )
        for currency in {currency for currency, _ in count}
    ]
    return sorted(totals, key=lambda total: (-total.count, total.currency))


def draw_money(
    currency: str,
    sums: Iterable[PaymentSum],
    steps: Sequence[str],
    labels: Sequence[str],
    step_name: str,
) -> DrawnChart:
    """Return a chart of the money of one currency by steps, each an `hour` or a `day`: taken
    upwards, paid out downwards."""
    taken, paid_out = Counter[str](), Counter[str]()
    for counted in sums:
        if counted.error_code is None and counted.currency == currency:
            if counted.type is Type.PAYOUT:
                paid_out[counted.key] += counted.minor
            else:
                taken[counted.key] += counted.minor

    unit = 10 ** decimals_of(currency)
    series = [Series("taken", [taken[step] / unit for step in steps], "c2")]
    if paid_out:
        series.append(Series("paid out", [-paid_out[step] / unit for step in steps], "c1"))

    title = f"{currency} by the {step_name}"
    return draw_bars(f"money-{currency}", title, labels, series, format_compact)


def format_compact(number: float) -> str:
    """Format a number for an axis, without its sign: `450`, `1.2 k`, `35 M`."""
    size = abs(number)
    for power, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= power:
            return f"{size / power:.3g} {letter}"
    return f"{size:.3g}"


@frozen
class FailureReason:
    """Says how many payments failed for one reason."""

    code: ErrorCode
    actor: str
    """Who can change that: `payer`, `merchant`, `operator` or `gateway`."""
    count: int
    share: float
    """Of the most frequent reason's count, in per cent: the length of its bar."""


_OPERATORS = frozenset((ErrorCode.PROVIDER_UNAVAILABLE, ErrorCode.PROVIDER_TIMEOUT))

ACTORS: Sequence[str] = ("payer", "operator", "merchant", "gateway")


def actor_of(code: ErrorCode) -> str:
    """Return on whose side a payment failed."""
    if code in _OPERATORS:
        return "operator"
    return {"staff": "gateway"}.get(EXPLANATIONS[code].who_acts, EXPLANATIONS[code].who_acts)


def failure_counts(sums: Iterable[PaymentSum]) -> Mapping[ErrorCode, int]:
    """Return how many payments failed for each reason."""
    counts = Counter[ErrorCode]()
    for counted in sums:
        if counted.error_code is not None:
            counts[counted.error_code] += counted.count
    return counts


def failure_reasons(counts: Mapping[ErrorCode, int]) -> Sequence[FailureReason]:
    """Return the most frequent reasons, the most frequent first."""
    frequent = sorted(counts.items(), key=lambda found: (-found[1], found[0]))[:REASONS_MAX]
    return [
        FailureReason(code, actor_of(code), count, round(100 * count / frequent[0][1], 1))
        for code, count in frequent
    ]


def main_reason(counts: Mapping[ErrorCode, int]) -> str:
    """Return why most payments failed, `provider unavailable: 32 of 40 failures`; empty for
    none."""
    if not counts:
        return ""
    code, count = min(counts.items(), key=lambda found: (-found[1], found[0]))
    return f"{format_words(code)}: {count:,} of {sum(counts.values()):,} failures"


def main_reasons(sums: Iterable[PaymentSum]) -> Mapping[str, str]:
    """Return why most payments failed, by the key of the sums."""
    by_key: dict[str, list[PaymentSum]] = {}
    for counted in sums:
        by_key.setdefault(counted.key, []).append(counted)
    return {key: main_reason(failure_counts(found)) for key, found in by_key.items()}


def failures_by_actor(counts: Mapping[ErrorCode, int]) -> Sequence[tuple[str, int]]:
    """Return on whose side how many payments failed."""
    by_actor = Counter[str]()
    for code, count in counts.items():
        by_actor[actor_of(code)] += count
    return [(actor, by_actor[actor]) for actor in ACTORS if by_actor[actor]]


def format_sums(amounts: Iterable[Money]) -> str:
    """Return the sum of each currency, `KES 91,450.00 and UGX 180,000`; empty for no amounts."""
    texts = [format_amount(total) for total in sum_by_currency(amounts)]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
