"""Records offline deposits: money that a provider reports as received becomes a transaction, once (clause S4)."""

from __future__ import annotations

from mmo_sansio.messages.changes import DepositRecorded, SuspenseReason, TransactionCreated
from mmo_sansio.messages.inputs import DepositNotified, UnmatchedNotified
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments.decision import Decision, ignore
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.payments.suspense import record_in_suspense
from mmo_sansio.values.clock import Moment, elapsed
from mmo_sansio.values.model import Brand, Flow, Method, Order, Progress, ProviderData, Source, Stage, Transaction, Type


def record_deposit(ledger: Ledger, input_: DepositNotified, *, now: Moment) -> Decision:
    """Record the deposit; ignore a repeated one, and put one that matches no brand into the suspense book."""
    if not input_.succeeded:
        return ignore("A failed deposit makes no transaction.")
    known = ledger.deposit(input_.provider, input_.provider_reference)
    if known is not None:
        return _repeated_deposit(ledger.transaction(known), input_, now=now)
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


def record_unmatched(input_: UnmatchedNotified, *, now: Moment) -> Decision:
    """Put a notification that names nothing of ours into the suspense book."""
    return record_in_suspense(input_, SuspenseReason.UNREADABLE, None, now=now)


def _repeated_deposit(before: Transaction | None, input_: DepositNotified, *, now: Moment) -> Decision:
    same = before is not None and (before.order.requested, before.order.party) == (input_.amount, input_.party)
    if same:
        return ignore("The deposit is on record.", before)
    return record_in_suspense(input_, SuspenseReason.CONFLICTING_DEPOSIT, before, now=now)


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
        party=input_.party,
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
        completion_source=Source.WEBHOOK,
    )
    return Transaction(order, progress)
