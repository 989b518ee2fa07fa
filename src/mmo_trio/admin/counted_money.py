"""Sums that staff read hold no simulated money beside real money.

Where no account moves money, as in a sandbox or a trial, simulated payments are all that there is,
and are summed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mmo_sansio.values.model import Transaction
from mmo_sansio.values.money import Money
from mmo_sansio.values.reversals import Reversal


def requested_amounts(payments: Iterable[Transaction], *, moves_no_money: bool) -> Sequence[Money]:
    """Return what was asked for by the payments whose money counts."""
    return [
        payment.order.requested
        for payment in payments
        if _counts(payment, moves_no_money=moves_no_money)
    ]


def reversal_amounts(
    reversals: Iterable[Reversal],
    payments: Mapping[str, Transaction],
    *,
    moves_no_money: bool,
) -> Sequence[Money]:
    """Return what is asked back by reversals of payments whose money counts; `payments` are theirs
    by reference, and without its payment a reversal is left out."""
    return [
        reversal.amount
        for reversal in reversals
        if (payment := payments.get(reversal.payment)) is not None
        and _counts(payment, moves_no_money=moves_no_money)
    ]


def _counts(payment: Transaction, *, moves_no_money: bool) -> bool:
    return moves_no_money or not payment.order.is_simulated
