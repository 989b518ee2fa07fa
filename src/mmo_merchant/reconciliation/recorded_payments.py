"""Reads what the records of the gateway say of a payment, from its transaction object, and of its
reversals."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from attrs import frozen

from mmo_merchant.reconciliation.held_records import RecordedPayment
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, parse_timestamp
from mmo_sansio.values.model import Status, Transaction, Type
from mmo_sansio.values.money import Money, to_money
from mmo_sansio.values.reversals import Reversal, ReversalState


class RecordError(ValueError):
    """The text is no transaction object; the message is a sentence."""


@frozen
class Period:
    """The time in which payments ended; it includes its beginning."""

    begin: Instant = clock.FIRST_INSTANT
    end: Instant = clock.LAST_INSTANT

    def has(self, ended_at: Instant | None) -> bool:
        """Tell whether a payment that ended at this time belongs to it."""
        return ended_at is not None and self.begin <= ended_at < self.end


EVER: Final = Period()

# Amounts stay exact decimals, as the gateway wrote them (G6).
_DECODER: Final = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal)

# Different amounts that are kept, of which a month has few.
_MONEY_MAX: Final = 100_000


def recorded_payment(text: bytes, period: Period = EVER) -> RecordedPayment:
    """Return what a transaction object says, with the remark `simulated` that an export of the
    gateway adds. Raises RecordError."""
    try:
        members = _DECODER.decode(text.decode())
        provider = members["providerData"] or {}
        ended_at = members["completedAt"] and parse_timestamp(members["completedAt"])
        fee = None
        if provider.get("fee") is not None:
            fee = _money(provider["fee"])

        return RecordedPayment(
            gateway_reference=members["gatewayReference"],
            merchant_reference=members["merchantReference"],
            receipt=members["providerReference"],
            type=Type(members["type"]),
            status=Status(members["status"]),
            # What was paid may be another amount than was asked for (S2).
            amount=_money(members["finalAmount"] or members["requestedAmount"]),
            provider=_shared(provider.get("name", "")),
            fee=fee,
            is_expected=period.has(ended_at),
            msisdn=members["party"]["msisdn"].removeprefix("+"),
            ended_at=ended_at,
            is_simulated=members.get("simulated", False) is True,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise RecordError(
            f"This line is no transaction object ({error!r}): {text[:80]!r}."
        ) from None


@lru_cache(maxsize=1_000)
def _shared(provider: str) -> str:
    """Return one text for all records of a provider."""
    return provider


def recorded_reversal(
    reversal: Reversal, payment: Transaction, period: Period = EVER
) -> RecordedPayment:
    """Return what the records say of money of a payment that goes back, as a payment in the other
    direction."""
    # Money goes back in the other direction: to the payer of a pay-in, and from a payee.
    type_ = Type.PAYIN
    if payment.order.type is Type.PAYIN:
        type_ = Type.PAYOUT

    # A reversal that "has moved after all" has succeeded, whatever the operator said first.
    status = Status.PENDING
    if reversal.state.has_moved:
        status = Status.SUCCESS
    elif reversal.state is ReversalState.FAILED:
        status = Status.FAILED

    return RecordedPayment(
        gateway_reference=reversal.id,
        merchant_reference=payment.order.merchant_reference,
        receipt=reversal.provider_reference,
        type=type_,
        status=status,
        amount=reversal.amount,
        provider=reversal.provider,
        is_expected=period.has(reversal.ended_at),
        reverses=(payment.reference, reversal.receipt or payment.progress.provider_reference),
        msisdn=payment.order.party.msisdn.removeprefix("+"),
        ended_at=reversal.ended_at,
        is_simulated=payment.order.is_simulated,
    )


def _money(members: Any) -> Money:
    return _known_money(Decimal(members["value"]), members["currency"])


@lru_cache(_MONEY_MAX)
def _known_money(value: Decimal, currency: str) -> Money:
    """Return the same object for the same amount, of which a month has few: that spares memory."""
    return to_money(value, currency)
