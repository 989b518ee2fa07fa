"""Makes entries of a book from what the gateway tells of payments: transaction objects, and the
objects of payments of which money was asked back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, Final, TypeAlias

from mmo_sansio.accounting.month_books import Account, BookEntry, EntryKind
from mmo_sansio.values.clock import parse_timestamp
from mmo_sansio.values.model import Status, Type
from mmo_sansio.values.money import Money, to_money

# The types of payment by which money comes in; by all others it goes out.
MONEY_IN: Final = frozenset({Type.PAYIN.value})

# A parsed object, with Decimal for each number.
Members: TypeAlias = Mapping[str, Any]

# Returns the members of an object that the gateway has written. Raises ValueError.
parse_members: Final = partial(json.loads, parse_float=Decimal, parse_int=Decimal)


def payment_entries(
    brand: str, payment: Members, *, is_simulated: bool = False
) -> Iterator[BookEntry]:
    """Yield what is booked of a payment: nothing while it is pending, or where it failed and had no
    fee. A fee in another currency than the amount is booked apart. `is_simulated`: no money moved
    by it. Raises ValueError, KeyError or TypeError for what is no transaction object."""
    # What is pending has moved nothing that is certain.
    if payment["completedAt"] is None:
        return

    # A payment that failed has moved no amount, and may still have had a fee.
    moved = None
    if payment["status"] == Status.SUCCESS:
        amount = _money(payment["finalAmount"] or payment["requestedAmount"])
        moved = Money(_signed(payment, amount), amount.currency)

    fee = _optional_money((payment["providerData"] or {}).get("fee"))
    fee_minor = None
    if fee is not None:
        fee_minor = -fee.minor

    entry = partial(
        _entry,
        brand,
        payment,
        EntryKind.PAYMENT,
        at=payment["completedAt"],
        receipt=payment["providerReference"],
        is_simulated=is_simulated,
    )

    # A fee in the amount's currency is part of its entry; any other is an entry of its own.
    if moved is not None and fee is not None and fee.currency == moved.currency:
        yield entry(money=moved, fee_minor=fee_minor)
        return

    if moved is not None:
        yield entry(money=moved)
    if fee is not None:
        yield entry(money=Money(0, fee.currency), fee_minor=fee_minor)


def reversal_entries(
    brand: str, payment: Members, *, is_simulated: bool = False
) -> Iterator[BookEntry]:
    """Yield what is booked of the reversals of a payment: the money that has gone back. Before the
    first of a payment that had failed, what had come all the same is booked at the same time.
    Raises as `payment_entries` does."""
    moved = [reversal for reversal in payment["reversals"] if reversal["status"] == Status.SUCCESS]
    late = _optional_money(payment["lateAmount"])
    # Without this entry the book would have money that went back and never came.
    if moved and late is not None:
        yield _entry(
            brand,
            payment,
            EntryKind.LATE,
            at=min(reversal["endedAt"] for reversal in moved),
            money=Money(_signed(payment, late), late.currency),
            receipt=payment["providerReference"],
            is_simulated=is_simulated,
        )

    for reversal in moved:
        amount = _money(reversal["amount"])
        yield _entry(
            brand,
            payment,
            EntryKind.REVERSAL,
            at=reversal["endedAt"],
            money=Money(-_signed(payment, amount), amount.currency),
            receipt=reversal["providerReference"],
            reversal=reversal["id"],
            is_simulated=is_simulated,
        )


def _entry(
    brand: str,
    payment: Members,
    kind: EntryKind,
    *,
    at: str,
    money: Money,
    receipt: str | None,
    is_simulated: bool,
    fee_minor: int | None = None,
    reversal: str | None = None,
) -> BookEntry:
    return BookEntry(
        booked_at=parse_timestamp(at),
        kind=kind,
        account=Account(brand, payment["method"], money.currency, is_simulated),
        type=payment["type"],
        country=payment["country"],
        minor=money.minor,
        fee_minor=fee_minor,
        gateway_reference=payment["gatewayReference"],
        merchant_reference=payment["merchantReference"],
        reconciliation_reference=payment["reconciliationReference"],
        reversal=reversal,
        receipt=receipt,
    )


def _signed(payment: Members, amount: Money) -> int:
    # What goes out is negative, so that an account's entries add up to what it has.
    if payment["type"] in MONEY_IN:
        return amount.minor
    return -amount.minor


def _money(members: Members) -> Money:
    return to_money(Decimal(members["value"]), members["currency"])


def _optional_money(members: Members | None) -> Money | None:
    if members is None:
        return None
    return _money(members)
