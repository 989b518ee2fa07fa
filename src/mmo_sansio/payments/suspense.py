"""The suspense book's entries: what a provider told that could not be applied (clauses S4, S5)."""

from __future__ import annotations

import json

from mmo_sansio.messages.changes import SuspenseNoted, SuspenseReason
from mmo_sansio.messages.inputs import (
    DepositNotified,
    ProviderFailed,
    ProviderHinted,
    ProviderSucceeded,
    UnmatchedNotified,
)
from mmo_sansio.messages.replies import Ignored
from mmo_sansio.payments.decision import Decision
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Transaction

Told = ProviderSucceeded | ProviderFailed | ProviderHinted | DepositNotified | UnmatchedNotified
"""What can end up in the suspense book."""


def suspended(
    given: Told, reason: SuspenseReason, about: Transaction | None, *, now: Instant
) -> Decision:
    """Nothing changes but the suspense book, which keeps what was told."""
    noted = SuspenseNoted(
        at=now,
        reason=reason,
        provider=given.provider,
        told=json.dumps(_told(given), ensure_ascii=False),
        gateway_reference=about.reference if about else _reference(given),
        brand=about.order.brand if about else _brand(given),
    )
    return Decision(Ignored(f"Kept in the suspense book: {reason}.", about), (noted,))


def _told(given: Told) -> dict[str, str | bool | None]:
    match given:
        case ProviderSucceeded():
            return {
                "result": "success",
                "source": given.source,
                "providerReference": given.provider_reference,
                "amount": str(given.final) if given.final else None,
                "fee": str(given.fee) if given.fee else None,
            }
        case ProviderFailed():
            return {
                "result": "failed",
                "source": given.source,
                "providerReference": given.provider_reference,
                "errorCode": given.error_code,
                "nativeCode": given.native_code,
                "nativeMessage": given.native_message,
            }
        case DepositNotified():
            return {
                "result": "deposit",
                "providerReference": given.provider_reference,
                "amount": str(given.amount),
                "method": given.method,
                "partyId": given.party.id,
                "msisdn": given.party.msisdn,
            }
        case ProviderHinted():
            return {"result": "hint", "told": given.told}
        case UnmatchedNotified():
            return {"result": "unmatched", "told": given.told}


def _reference(given: Told) -> str | None:
    match given:
        case ProviderSucceeded() | ProviderFailed() | ProviderHinted():
            return given.gateway_reference
        case DepositNotified() | UnmatchedNotified():
            return None


def _brand(given: Told) -> str | None:
    return given.brand.id if isinstance(given, DepositNotified) and given.brand else None
