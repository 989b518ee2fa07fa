"""Counts what a brand uses of its limits: its pending payments, and the amounts of a day by method
and type.

A payment adds to a counter when it is accepted under a limit, and its order says what it added. Its
end takes back the pending payment, and its failure the amount: a day's sum is what was accepted and
has not failed. Without limits nothing is counted. Days begin at 00:00 UTC by the gateway's own
time, which never jumps."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from mmo_sansio.messages.changes import UsageChanged
from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.payments.ledger import Ledger, UsageKey
from mmo_sansio.values import problems
from mmo_sansio.values.clock import DAY, Moment
from mmo_sansio.values.model import Method, Stage, Transaction, Type, UsageShare
from mmo_sansio.values.money import Money
from mmo_sansio.values.problems import Problem

# Name of the counter of a brand's pending payments.
PENDING_COUNTER = "pending"


def daily_counter(method: Method, type: Type, currency: str) -> str:
    """Return the name of the counter of a method's amounts of a day."""
    return f"{type.value} {method.key} {method.country} {currency}"


def usage_keys(input_: CreatePayment) -> frozenset[UsageKey]:
    """Return the counters that limit this request; none for a brand without limits."""
    brand, draft = input_.brand, input_.draft
    counters: list[str] = []
    if brand.limits.pending_payments is not None:
        counters.append(PENDING_COUNTER)

    # By the key alone: the country is checked later, and reading a counter too many does no harm.
    for method in brand.methods:
        limits = None
        if method.key == draft.method:
            limits = method.limits.get(draft.currency)

        if limits is not None and draft.operation.type in limits.daily:
            counters.append(daily_counter(method, draft.operation.type, draft.currency))

    return frozenset((brand.id, counter) for counter in counters)


def reserve_usage(
    ledger: Ledger, input_: CreatePayment, method: Method, amount: Money, *, now: Moment
) -> tuple[UsageChanged, ...] | Problem:
    """Return what this payment adds to its brand's counters, or the problem that a limit is
    reached."""
    brand, type = input_.brand, input_.draft.operation.type
    added: list[UsageChanged] = []
    # The counter in the store decides when it commits: `pending_max` travels with the change.
    if (pending_max := brand.limits.pending_payments) is not None:
        if ledger.used_on(brand.id, PENDING_COUNTER, 0) + 1 > pending_max:
            return problems.PENDING_LIMIT.problem(
                f"{pending_max} payments are pending, which is the limit. Send the request again "
                f"when some have ended."
            )
        added.append(UsageChanged(brand.id, UsageShare(PENDING_COUNTER, 0, 1), pending_max))

    if (daily_max := method.limits[amount.currency].daily.get(type)) is not None:
        # Own time never jumps, so no amount is counted for a day twice or for none.
        counter, day = daily_counter(method, type, amount.currency), now.time // DAY
        if ledger.used_on(brand.id, counter, day) + amount.minor > daily_max.minor:
            return problems.DAILY_LIMIT.problem(
                f"With this amount of {amount} the day's {type} payments by '{method.key}' would "
                f"exceed {daily_max}."
                " A new day begins at 00:00 UTC."
            )

        added.append(
            UsageChanged(brand.id, UsageShare(counter, day, amount.minor), daily_max.minor)
        )

    return tuple(added)


def released_usage(after: Transaction) -> Iterator[UsageChanged]:
    """Yield what the end of this payment takes back: its place among the pending, and the amount if
    it failed."""
    for share in after.order.usage:
        # A payment that succeeded keeps its part of the day's sum.
        if share.counter == PENDING_COUNTER or after.progress.stage is Stage.FAILED:
            yield UsageChanged(after.order.brand, evolve(share, amount=-share.amount))
