"""Books the money of an offline deposit as a transaction, or for staff where it has no owner (clause S4)."""

from __future__ import annotations

import re
from typing import Final

from mmo_sansio.messages.changes import DepositRecorded, SuspenseReason, TransactionCreated
from mmo_sansio.messages.inputs import DepositNotified
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.suspense import record_in_suspense
from mmo_sansio.values.clock import Moment, elapsed
from mmo_sansio.values.deposit_claim import DepositTrust
from mmo_sansio.values.model import (
    Brand,
    Flow,
    Method,
    Order,
    Party,
    Progress,
    ProviderData,
    Source,
    Stage,
    Transaction,
    Type,
)

_TEXT_CHARACTERS_MAX: Final = 255
_CONTROL_CHARACTER: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def book_deposit(input_: DepositNotified, *, now: Moment) -> Decision:
    """Book a confirmed deposit that is new; one that matches no brand goes to the suspense book."""
    if input_.brand is None:
        return record_in_suspense(input_, SuspenseReason.UNMATCHED_DEPOSIT, None, now=now)
    candidates = [
        each for each in input_.brand.methods if each.key == input_.method and each.provider == input_.provider
    ]
    if not candidates:
        return record_in_suspense(input_, SuspenseReason.UNMATCHED_DEPOSIT, None, now=now)
    method = next((each for each in candidates if input_.amount.currency in each.limits), None)
    if method is None:
        return record_in_suspense(input_, SuspenseReason.UNSUPPORTED_CURRENCY, None, now=now)
    transaction = _deposit_transaction(input_, input_.brand, method, now=now)
    called = transaction.order.result_url is not None
    return Decision(
        Applied(transaction),
        (
            DepositRecorded(input_.provider, input_.provider_reference, transaction.reference),
            TransactionCreated(transaction),
        ),
        (DeliverCallback(transaction.reference),) if called else (),
    )


def deposit_party(told: Party, *, number: str) -> Party:
    """Return the payer of a deposit as it is booked, in the bounds of clause M5: texts of at most 255 characters, none
    of them a control character, and this number where the provider tells none."""
    msisdn = _bounded(told.msisdn) or number
    first_name, last_name = _bounded(told.first_name) or None, _bounded(told.last_name) or None
    return Party(_bounded(told.id) or msisdn, msisdn, first_name, last_name, told.email)


def _bounded(text: str | None) -> str:
    return _CONTROL_CHARACTER.sub(" ", text or "").strip()[:_TEXT_CHARACTERS_MAX].rstrip()


def _deposit_transaction(input_: DepositNotified, brand: Brand, method: Method, *, now: Moment) -> Transaction:
    """Return a transaction for money that has been received: a success from the beginning, whatever the limits say."""
    order = Order(
        gateway_reference=input_.gateway_reference,
        brand=brand.id,
        type=Type.PAYIN,
        flow=Flow.PUSH,
        method=method.key,
        country=method.country,
        provider=input_.provider,
        provider_title=input_.provider_title,
        requested=input_.amount,
        party=deposit_party(input_.party, number=method.tax_authority_account),
        merchant_reference=None,
        reconciliation_reference=None,
        labels=None,
        result_url=brand.push_result_url,
        created_at=now.utc,
        expires_at=now.time,
        utc_offset=elapsed(now.time, now.utc),
    )
    progress = Progress(
        stage=Stage.SUCCEEDED,
        version=1,
        wake_at=None,
        provider_reference=input_.provider_reference,
        provider_data=ProviderData(input_.provider, input_.provider_title),
        final=input_.amount,
        completed_at=now.utc,
        completion_source=Source.POLL if input_.trust is DepositTrust.LISTED else Source.WEBHOOK,
    )
    return Transaction(order, progress)
