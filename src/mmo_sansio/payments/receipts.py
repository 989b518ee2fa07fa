"""Lets one receipt of a provider settle one thing only (clause S4)."""

from __future__ import annotations

from attrs import evolve

from mmo_sansio.messages.changes import Change, DepositClaimChanged, SuspenseReason
from mmo_sansio.messages.inputs import ProviderHinted, ProviderSucceeded, ResolveManually
from mmo_sansio.payments.ledger import DepositKey, Ledger
from mmo_sansio.payments.suspense import suspense_entry
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.deposit_claim import DepositClaim
from mmo_sansio.values.model import Transaction


def claim_change(stored: DepositClaim | None, after: DepositClaim | None) -> DepositClaimChanged:
    """Return the change of a claim, with its version counted on."""
    version = 1 if stored is None else stored.version + 1
    return DepositClaimChanged(stored, None if after is None else evolve(after, version=version))


def receipt_key(input_: ProviderSucceeded | ProviderHinted | ResolveManually) -> DepositKey | None:
    """Return the provider and the receipt with which this ends a payment, or may later; None where there is none."""
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
    return "a deposit that belongs to no payment yet" if claim.payment is None else f"the payment {claim.payment}"


def receipt_changes(ledger: Ledger, input_: ProviderSucceeded, paid: Transaction, *, now: Moment) -> tuple[Change, ...]:
    """Return the changes by which the receipt of a payment's own success settles that payment only.

    Where something else has the receipt, a person has to look at both.
    """
    key = receipt_key(input_)
    if key is not None and receipt_owner(ledger, key, paid.reference) is not None:
        return (suspense_entry(input_, SuspenseReason.CONFLICTING_DEPOSIT, paid, now=now),)
    return claim_receipt(ledger, key, paid, now=now)


def claim_receipt(ledger: Ledger, key: DepositKey | None, paid: Transaction, *, now: Moment) -> tuple[Change, ...]:
    """Return the change that lets a receipt without another owner settle this payment only. An open claim that names
    the payment stays: it is explained when it wakes."""
    return () if key is None or ledger.claim(*key) is not None else (settle_receipt(key[1], paid, now=now),)


def settle_receipt(receipt: str, paid: Transaction, *, now: Moment) -> DepositClaimChanged:
    """Return the settled claim of the receipt, new to the gateway, with which this payment or deposit was paid."""
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
