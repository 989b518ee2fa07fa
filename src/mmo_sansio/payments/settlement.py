"""Applies a provider's success to a payment, decides which results may be applied (clauses S1, S2,
S5), and lets one receipt of a provider settle one thing only (clause S4)."""

from __future__ import annotations

from attrs import evolve

from mmo_sansio.messages.changes import Change, DepositClaimChanged, SuspenseReason
from mmo_sansio.messages.inputs import (
    ProviderFailed,
    ProviderHinted,
    ProviderSucceeded,
    ResolveManually,
)
from mmo_sansio.payments.decision import Decision, complete, end, ignore
from mmo_sansio.payments.ledger import DepositKey, Ledger
from mmo_sansio.payments.states import is_legal
from mmo_sansio.payments.suspense import record_in_suspense, suspense_entry
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.model import DepositClaim, ProviderData, Source, Stage, Transaction


def succeed(ledger: Ledger, input_: ProviderSucceeded, *, now: Moment) -> Decision:
    """Record that the money moved: set finalAmount and fee, and call the merchant back (S2).

    A success with another amount than was requested also leaves an entry in the suspense book, for
    a person to see."""
    before = ledger.transaction(input_.gateway_reference)
    if (fault := why_not_applied(before, input_)) is not None:
        return reject_result(before, input_, fault, now=now)
    assert before is not None
    final = input_.final or before.order.requested
    if final.currency != before.order.requested.currency:
        return reject_result(before, input_, SuspenseReason.WRONG_CURRENCY, now=now)
    after = end(
        before,
        input_,
        Stage.SUCCEEDED,
        input_.source,
        now=now,
        provider_reference=input_.provider_reference or before.progress.provider_reference,
        provider_data=evolve(
            require_provider_data(before), fee=input_.fee, party_data=input_.party_data
        ),
        final=final,
    )
    changes = receipt_changes(ledger, input_, after, now=now)
    if final != before.order.requested:
        is_less = final.minor < before.order.requested.minor
        reason = SuspenseReason.SETTLED_LESS if is_less else SuspenseReason.SETTLED_MORE
        changes = (*changes, suspense_entry(evolve(input_, final=final), reason, before, now=now))
    return complete(before, after, *changes)


def require_provider_data(before: Transaction) -> ProviderData:
    """Return what the provider has reported of a submitted payment."""
    assert before.progress.provider_data is not None  # What was never submitted has no result.
    return before.progress.provider_data


def why_not_applied(
    before: Transaction | None, input_: ProviderSucceeded | ProviderFailed
) -> SuspenseReason | None:
    """Return why this result may not be applied; None when it may."""
    if before is None:
        return SuspenseReason.UNKNOWN_TRANSACTION
    if before.order.provider != input_.provider:
        return SuspenseReason.WRONG_PROVIDER
    if before.progress.stage.is_terminal:
        return _late_result_reason(before, input_)
    if not is_legal(before.progress.stage, input_) or before.progress.provider_data is None:
        return SuspenseReason.UNKNOWN_TRANSACTION  # Nothing of ours was sent to this provider.
    return None


def _late_result_reason(
    before: Transaction, input_: ProviderSucceeded | ProviderFailed
) -> SuspenseReason:
    if before.progress.completion_source is Source.EXPIRY:
        return SuspenseReason.LATE_RESULT
    return (
        SuspenseReason.REPEATED_RESULT
        if _matches_record(before, input_)
        else SuspenseReason.CONFLICTING_RESULT
    )


def _matches_record(before: Transaction, input_: ProviderSucceeded | ProviderFailed) -> bool:
    """Tell whether a second result agrees with the one on record."""
    if isinstance(input_, ProviderFailed):
        return before.progress.error_code is input_.error_code
    references = {input_.provider_reference, before.progress.provider_reference} - {None}
    final = input_.final or before.order.requested
    return before.progress.final == final and len(references) <= 1


def reject_result(
    before: Transaction | None,
    input_: ProviderSucceeded | ProviderFailed,
    reason: SuspenseReason,
    *,
    now: Moment,
) -> Decision:
    """Put a result that may not be applied into the suspense book, unless it only confirms what we
    know."""
    if reason is SuspenseReason.REPEATED_RESULT and input_.source is Source.POLL:
        return ignore("An answer that we asked for agrees with what is on record.", before)
    return record_in_suspense(input_, reason, before, now=now)


def receipt_key(input_: ProviderSucceeded | ProviderHinted | ResolveManually) -> DepositKey | None:
    """Return the provider and the receipt with which this ends a payment, or may later; None where
    there is none."""
    match input_:
        case ProviderSucceeded():
            receipt = input_.provider_reference if input_.settles_receipt else None
        case ResolveManually():
            receipt = input_.provider_reference if input_.error_code is None else None
        case ProviderHinted(evidence=known):
            receipt = known.receipt if known is not None and known.settles else None
    return (input_.provider, receipt) if receipt else None


def receipt_owner(ledger: Ledger, key: DepositKey, payment: str) -> str | None:
    """Return in words what else than this payment has the receipt; None where nothing has."""
    claim, deposit = ledger.claim(*key), ledger.deposit(*key)
    if deposit is not None:
        return f"the deposit {deposit}"
    if claim is None or claim.payment == payment:
        return None
    return (
        "a deposit that belongs to no payment yet"
        if claim.payment is None
        else f"the payment {claim.payment}"
    )


def receipt_changes(
    ledger: Ledger, input_: ProviderSucceeded, paid: Transaction, *, now: Moment
) -> tuple[Change, ...]:
    """Return the changes by which the receipt of a payment's own success settles that payment only.

    Where something else has the receipt, a person has to look at both.
    """
    key = receipt_key(input_)
    if key is not None and receipt_owner(ledger, key, paid.reference) is not None:
        return (suspense_entry(input_, SuspenseReason.CONFLICTING_DEPOSIT, paid, now=now),)
    return claim_receipt(ledger, key, paid, now=now)


def claim_receipt(
    ledger: Ledger, key: DepositKey | None, paid: Transaction, *, now: Moment
) -> tuple[Change, ...]:
    """Return the change that lets a receipt without another owner settle this payment only. An open
    claim that names the payment stays: it is explained when it wakes."""
    return (
        ()
        if key is None or ledger.claim(*key) is not None
        else (settle_receipt(key[1], paid, now=now),)
    )


def settle_receipt(receipt: str, paid: Transaction, *, now: Moment) -> DepositClaimChanged:
    """Return the settled claim of the receipt, new to the gateway, with which this payment or
    deposit was paid."""
    order, progress = paid.order, paid.progress
    settled = DepositClaim(
        provider=order.provider,
        receipt=receipt,
        provider_title=order.provider_title,
        gateway_reference=order.gateway_reference,
        account="",
        bill_reference="",
        amount=progress.final or order.requested,
        party=order.party,
        payment=order.gateway_reference,
        brand=order.brand,
        received_at=now.time,
        expires_at=now.time,
        wake_at=None,
        is_confirmed=True,
    )
    return claim_change(None, settled)


def claim_change(stored: DepositClaim | None, after: DepositClaim | None) -> DepositClaimChanged:
    """Return the change of a claim, with its version counted on."""
    version = 1 if stored is None else stored.version + 1
    return DepositClaimChanged(stored, None if after is None else evolve(after, version=version))
