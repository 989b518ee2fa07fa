"""Makes the entries of the suspense book: reports of a provider that could not be applied (clauses
S4, S5)."""

from __future__ import annotations

import json
from typing import TypeAlias

from mmo_sansio.messages import inputs, reversals
from mmo_sansio.messages.changes import SuspenseReason, SuspenseRecorded
from mmo_sansio.messages.replies import Ignored
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.personal_data import MASKED_PARTY, MASKED_TEXT, NOT_KEPT
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.model import DepositClaim, Evidence, Party, Source, Transaction
from mmo_sansio.values.money import Money
from mmo_sansio.values.reversals import reversed_payment

ProviderResult: TypeAlias = (
    inputs.ProviderAccepted
    | inputs.ProviderSucceeded
    | inputs.ProviderFailed
    | reversals.ReversalSucceeded
    | reversals.ReversalFailed
)

# What can end in the suspense book.
SuspenseSource: TypeAlias = (
    ProviderResult
    | inputs.ProviderHinted
    | inputs.DepositNotified
    | DepositClaim
    | inputs.UnmatchedNotified
)


def record_in_suspense(
    input_: SuspenseSource, reason: SuspenseReason, transaction: Transaction | None, *, now: Moment
) -> Decision:
    """Return a decision that only adds the report to the suspense book."""
    noted = suspense_entry(input_, reason, transaction, now=now)
    return Decision(Ignored(f"Kept in the suspense book: {reason}.", transaction), (noted,))


def suspense_entry(
    input_: SuspenseSource, reason: SuspenseReason, transaction: Transaction | None, *, now: Moment
) -> SuspenseRecorded:
    """Return the entry of a report in the suspense book, for a decision that changes more than
    that."""
    # A payment on record says whose it is; a report without one is taken at its word.
    reference, brand = _reference(input_), _brand(input_)
    if transaction is not None:
        reference, brand = transaction.reference, transaction.order.brand

    return SuspenseRecorded(
        at=now.utc,
        reason=reason,
        provider=input_.provider,
        content=json.dumps(_content(input_), ensure_ascii=False),
        gateway_reference=reference,
        brand=brand,
    )


def _content(input_: SuspenseSource) -> dict[str, str | bool | None]:
    match input_:
        case inputs.ProviderAccepted():
            return _result("accepted", input_)
        case inputs.ProviderSucceeded():
            return _result("success", input_) | {
                "amount": _text(input_.final),
                "fee": _text(input_.fee),
            }
        case inputs.ProviderFailed():
            native = {"nativeCode": input_.native_code, "nativeMessage": input_.native_message}
            return _result("failed", input_) | {"errorCode": input_.error_code, **native}
        case inputs.DepositNotified():
            return {
                "result": "deposit",
                "providerReference": input_.provider_reference,
                "amount": str(input_.amount),
                "method": input_.method,
                "partyId": input_.party.id,
                "msisdn": _number(input_.party),
            }
        case DepositClaim():
            # Staff must tell a reference that was removed from one that the payer typed.
            bill = input_.bill_reference
            return {
                "result": "deposit",
                "providerReference": input_.receipt,
                "amount": str(input_.amount),
                "account": input_.account,
                "billReference": NOT_KEPT if bill == MASKED_TEXT else bill,
                "msisdn": _number(input_.party),
                "confirmed": input_.is_confirmed,
            }
        case inputs.ProviderHinted(evidence=Evidence() as evidence):
            return {
                "result": "success",
                "source": Source.WEBHOOK,
                "providerReference": evidence.receipt,
                "amount": _text(evidence.amount),
                "nativeCode": evidence.code,
                "confirmed": False,
            }
        case inputs.ProviderHinted(says_paid=True):
            return {
                "result": "success",
                "source": Source.WEBHOOK,
                "providerReference": None,
                "amount": None,
                "confirmed": False,
                "told": input_.content,
            }
        case inputs.ProviderHinted():
            return {"result": "hint", "told": input_.content}
        case inputs.UnmatchedNotified():
            return {"result": "unmatched", "told": input_.content}
        case reversals.ReversalSucceeded():
            return _result("reversed", input_) | {
                "reversal": input_.reversal,
                "amount": _text(input_.amount),
            }
        case reversals.ReversalFailed():
            native = {"nativeCode": input_.native_code, "nativeMessage": input_.reason}
            return _result("not_reversed", input_) | {"reversal": input_.reversal, **native}


def _result(name: str, input_: ProviderResult) -> dict[str, str | bool | None]:
    return {"result": name, "source": input_.source, "providerReference": input_.provider_reference}


def _number(party: Party) -> str:
    # The number that stands for a removed one is nobody's: it would be called or paid.
    if party == MASKED_PARTY:
        return NOT_KEPT
    return party.msisdn


def _text(amount: Money | None) -> str | None:
    if amount is None:
        return None
    return str(amount)


def _reference(input_: SuspenseSource) -> str | None:
    # The reference in a notified deposit is only reserved: no payment has it.
    if isinstance(input_, inputs.DepositNotified | inputs.UnmatchedNotified):
        return None
    if isinstance(input_, reversals.ReversalSucceeded | reversals.ReversalFailed):
        return reversed_payment(input_.reversal)
    if isinstance(input_, DepositClaim):
        return input_.payment
    return input_.gateway_reference


def _brand(input_: SuspenseSource) -> str | None:
    if isinstance(input_, DepositClaim):
        return input_.brand
    if isinstance(input_, inputs.DepositNotified) and input_.brand:
        return input_.brand.id
    return None
