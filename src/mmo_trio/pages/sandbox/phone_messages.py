"""Writes the messages that an operator sends to a phone after its payments, with the balance that they leave."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from mmo_sansio.values.currencies import decimals_of
from mmo_sansio.values.model import Status, Transaction, Type
from mmo_sansio.values.money import Money

OPENING_BALANCE = 1_000_000
"""What every virtual phone has at first in each currency, in its main unit."""


@frozen
class PhoneMessage:
    """Describes one message; `balance` is what the account has after it."""

    reference: str
    """The provider's reference, or the gateway's where there is none."""
    is_success: bool
    is_payin: bool
    amount: Money
    shop: str
    """The id of the brand."""
    balance: Money


def phone_messages(ended: Iterable[Transaction]) -> list[PhoneMessage]:
    """Return the messages about these payments of one phone, the oldest first, in the order in which they ended."""
    balances: dict[str, int] = {}
    messages = []
    for each in sorted((one for one in ended if one.status is not Status.PENDING), key=_ended_at):
        amount, is_payin = each.progress.final or each.order.requested, each.order.type is Type.PAYIN
        opening = OPENING_BALANCE * 10 ** decimals_of(amount.currency)
        balance = balances.setdefault(amount.currency, opening)
        if each.status is Status.SUCCESS:
            balance += -amount.minor if is_payin else amount.minor
            balances[amount.currency] = balance
        messages.append(
            PhoneMessage(
                reference=each.progress.provider_reference or each.reference,
                is_success=each.status is Status.SUCCESS,
                is_payin=is_payin,
                amount=amount,
                shop=each.order.brand,
                balance=Money(balance, amount.currency),
            )
        )
    return messages


def _ended_at(transaction: Transaction) -> int:
    return transaction.progress.completed_at or 0
