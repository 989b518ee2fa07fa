"""Offline deposits: money that a provider says has arrived becomes a transaction, once (clause S4)."""

from __future__ import annotations

from mmo_sansio.messages.changes import DepositRecorded, SuspenseReason, TransactionCreated
from mmo_sansio.messages.inputs import DepositNotified, UnmatchedNotified
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.messages.replies import Noted
from mmo_sansio.payments.decision import Decision, ignored
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.payments.suspense import suspended
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import (
    Brand,
    Flow,
    Method,
    Order,
    Progress,
    ProviderData,
    Source,
    Stage,
    Transaction,
    Type,
)


def deposit(ledger: Ledger, given: DepositNotified, *, now: Instant) -> Decision:
    """Record the deposit, or recognise it, or keep it for a person when it matches nothing of ours."""
    if not given.succeeded:
        return ignored("A failed deposit makes no transaction.")
    known = ledger.deposit(given.provider, given.provider_reference)
    if known is not None:
        return _told_again(ledger.transaction(known), given, now=now)
    if given.brand is None:
        return suspended(given, SuspenseReason.UNMATCHED_DEPOSIT, None, now=now)
    candidates = [
        each
        for each in given.brand.methods
        if each.key == given.method and each.provider == given.provider
    ]
    if not candidates:
        return suspended(given, SuspenseReason.UNMATCHED_DEPOSIT, None, now=now)
    method = next((each for each in candidates if given.amount.currency in each.limits), None)
    if method is None:
        return suspended(given, SuspenseReason.UNSUPPORTED_CURRENCY, None, now=now)
    transaction = _received(given, given.brand, method, now=now)
    called = transaction.order.result_url is not None
    return Decision(
        Noted(transaction),
        (
            DepositRecorded(given.provider, given.provider_reference, transaction.reference),
            TransactionCreated(transaction),
        ),
        (DeliverCallback(transaction.reference),) if called else (),
    )


def keep_unmatched(given: UnmatchedNotified, *, now: Instant) -> Decision:
    """Keep what names nothing of ours."""
    return suspended(given, SuspenseReason.UNREADABLE, None, now=now)


def _told_again(was: Transaction | None, given: DepositNotified, *, now: Instant) -> Decision:
    same = was is not None and (was.order.requested, was.order.party) == (given.amount, given.party)
    if same:
        return ignored("The deposit is on record.", was)
    return suspended(given, SuspenseReason.CONFLICTING_DEPOSIT, was, now=now)


def _received(given: DepositNotified, brand: Brand, method: Method, *, now: Instant) -> Transaction:
    """Money already received: a success at birth, whatever the limits say."""
    order = Order(
        gateway_reference=given.gateway_reference,
        brand=brand.id,
        type=Type.PAYIN,
        flow=Flow.PUSH,
        method=method.key,
        country=method.country,
        provider=given.provider,
        provider_title=given.provider_title,
        requested=given.amount,
        party=given.party,
        merchant_reference=None,
        reconciliation_reference=None,
        labels=None,
        result_url=brand.push_result_url,
        created_at=now,
        expires_at=now,
    )
    progress = Progress(
        stage=Stage.SUCCEEDED,
        version=1,
        wake_at=None,
        provider_reference=given.provider_reference,
        provider_data=ProviderData(given.provider, given.provider_title),
        final=given.amount,
        completed_at=now,
        completion_source=Source.WEBHOOK,
    )
    return Transaction(order, progress)
