"""The journal: one line for every decision that changed something, the payment's timeline and audit trail."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, assert_never

from mmo_sansio.messages.changes import (
    CallbackRecorded,
    Change,
    Journaled,
    QrRecorded,
    SuspenseNoted,
    TransactionAdvanced,
    TransactionCreated,
)
from mmo_sansio.messages.inputs import (
    BeginSubmission,
    CallbackConcluded,
    ConfirmPage,
    CreatePayment,
    DepositNotified,
    Input,
    ProviderAccepted,
    ProviderCannotTell,
    ProviderFailed,
    ProviderHinted,
    ProviderNeverReceived,
    ProviderSucceeded,
    ProviderUnreachable,
    QrConcluded,
    ResolveManually,
    TransactionWoke,
    UnmatchedNotified,
)
from mmo_sansio.values.clock import Instant

_json: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode


def line(given: Input, changes: Iterable[Change], *, now: Instant) -> Journaled:
    """What this decision leaves in the journal. No key, token or party stands in it."""
    reference = brand = before = after = None
    detail = _detail(given)
    for change in changes:
        match change:
            case TransactionCreated(made):
                reference, brand, after = made.reference, made.order.brand, made.progress.stage
            case TransactionAdvanced(was, moved):
                reference, brand = was.reference, was.order.brand
                before, after = was.progress.stage, moved.progress.stage
            case CallbackRecorded() | QrRecorded():
                reference, brand = change.gateway_reference, change.brand
            case SuspenseNoted():
                reference, brand = change.gateway_reference, change.brand
                detail["suspense"] = change.reason
            case _:
                pass
    return Journaled(
        at=now,
        what=type(given).__name__,
        actor=_actor(given),
        gateway_reference=reference,
        brand=brand,
        stage_before=before,
        stage_after=after,
        detail=_json(detail),
    )


def _actor(given: Input) -> str:
    match given:
        case CreatePayment():
            return "merchant"
        case ConfirmPage():
            return "payer"
        case ResolveManually():
            return f"operator:{given.operator}"
        case TransactionWoke():
            return "clock"
        case BeginSubmission() | CallbackConcluded() | QrConcluded():
            return "gateway"
        case (
            ProviderAccepted()
            | ProviderSucceeded()
            | ProviderFailed()
            | ProviderUnreachable()
            | ProviderNeverReceived()
            | ProviderCannotTell()
            | ProviderHinted()
            | DepositNotified()
            | UnmatchedNotified()
        ):
            return f"provider:{given.provider}"
        case _:
            assert_never(given)


def _detail(given: Input) -> dict[str, object]:
    match given:
        case CreatePayment():
            return {"method": given.draft.method, "operation": given.draft.operation}
        case ResolveManually():
            return {
                "reason": given.reason,
                "evidence": given.evidence or None,
                "errorCode": given.error_code,
            }
        case ProviderAccepted():
            return {"source": given.source, "providerReference": given.provider_reference}
        case ProviderSucceeded():
            return {
                "source": given.source,
                "providerReference": given.provider_reference,
                "finalAmount": str(given.final) if given.final else None,
            }
        case ProviderFailed():
            return {
                "source": given.source,
                "errorCode": given.error_code,
                "nativeCode": given.native_code,
                "nativeMessage": given.native_message,
            }
        case ProviderUnreachable():
            return {"reason": given.reason}
        case DepositNotified():
            return {"providerReference": given.provider_reference, "amount": str(given.amount)}
        case CallbackConcluded() | QrConcluded():
            return {
                "outcome": given.attempt.outcome,
                "status": given.attempt.status,
                "durationMs": given.attempt.duration_ms,
                "detail": given.attempt.detail,
            }
        case (
            ConfirmPage()
            | TransactionWoke()
            | BeginSubmission()
            | ProviderNeverReceived()
            | ProviderCannotTell()
            | ProviderHinted()
            | UnmatchedNotified()
        ):
            return {}
        case _:
            assert_never(given)
