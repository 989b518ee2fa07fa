"""Lets one receipt of a provider settle one thing only (clause S4)."""

from __future__ import annotations

from attrs import evolve

from mmo_sansio.messages.changes import Change, DepositClaimChanged, SuspenseReason
from mmo_sansio.messages.inputs import ProviderSucceeded
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.payments.suspense import suspense_entry
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.deposit_claim import DepositClaim
from mmo_sansio.values.model import Transaction


def claim_change(stored: DepositClaim | None, after: DepositClaim | None) -> DepositClaimChanged:
    """Return the change of a claim, with its version counted on."""
    version = 1 if stored is None else stored.version + 1
    return DepositClaimChanged(stored, None if after is None else evolve(after, version=version))


def receipt_changes(ledger: Ledger, input_: ProviderSucceeded, paid: Transaction, *, now: Moment) -> tuple[Change, ...]:
    """Return the changes by which the receipt of a payment's own success settles that payment only.

    Where the receipt has settled something else, a person has to look at both.
    """
    receipt = input_.provider_reference
    if not input_.settles_receipt or receipt is None:
        return ()
    claim, deposit = ledger.claim(input_.provider, receipt), ledger.deposit(input_.provider, receipt)
    if deposit is None and claim is None:
        order = paid.order
        settled = DepositClaim(
            provider=input_.provider,
            receipt=receipt,
            provider_title=order.provider_title,
            gateway_reference=order.gateway_reference,
            account="",
            bill_reference="",
            amount=paid.progress.final or order.requested,
            party=order.party,
            payment=order.gateway_reference,
            brand=order.brand,
            received_at=now.time,
            expires_at=now.time,
            wake_at=None,
            is_confirmed=True,
        )
        return (claim_change(None, settled),)
    if deposit is None and claim is not None and claim.payment == paid.reference:
        return ()  # It is explained when it wakes.
    return (suspense_entry(input_, SuspenseReason.CONFLICTING_DEPOSIT, paid, now=now),)
