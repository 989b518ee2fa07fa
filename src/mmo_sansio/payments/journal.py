"""Writes the journal: one entry for every decision that changed something, the payment's timeline and audit trail."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, assert_never

from mmo_sansio.messages import inputs
from mmo_sansio.messages.changes import (
    CallbackRecorded,
    Change,
    DepositClaimChanged,
    JournalEntry,
    QrRecorded,
    ReferenceConsumed,
    SuspenseRecorded,
    TransactionAdvanced,
    TransactionCreated,
)
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.model import Stage

_to_json: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode


def journal_entry(input_: inputs.Input, changes: Iterable[Change], *, now: Moment) -> JournalEntry:
    """Return the journal entry of this decision. It contains no key, token or party."""
    reference = brand = before = after = None
    detail = _detail(input_)
    for change in changes:
        match change:
            case TransactionCreated(made):
                reference, brand, after = made.reference, made.order.brand, made.progress.stage
            case TransactionAdvanced(old, new):
                reference, brand = new.reference, new.order.brand
                before, after = old.progress.stage, new.progress.stage
                if isinstance(input_, inputs.TransactionWoke) and new.progress.stage is Stage.SUCCEEDED:
                    detail["providerReference"] = new.progress.provider_reference
            case CallbackRecorded() | QrRecorded():
                reference, brand = change.gateway_reference, change.brand
            case DepositClaimChanged():
                claim = change.after or change.before
                if claim is not None and claim.payment is not None:
                    reference, brand = reference or claim.payment, brand or claim.brand
            case ReferenceConsumed() if change.is_lost:
                brand = change.brand
            case SuspenseRecorded():
                reference, brand = change.gateway_reference, change.brand
                detail["suspense"] = change.reason
            case _:
                pass
    return JournalEntry(
        at=now.utc,
        input_name=type(input_).__name__,
        actor=_actor(input_),
        gateway_reference=reference,
        brand=brand,
        stage_before=before,
        stage_after=after,
        detail=_to_text(input_, detail),
    )


def _to_text(input_: inputs.Input, detail: dict[str, object]) -> str:
    """Return the detail as JSON. Those of creations are few: one for each method and operation of a brand."""
    if isinstance(input_, inputs.CreatePayment):
        return _creation_text(*detail.items())
    return _to_json(detail)


@lru_cache(maxsize=256)
def _creation_text(*detail: tuple[str, object]) -> str:
    return _to_json(dict(detail))


def _actor(input_: inputs.Input) -> str:
    match input_:
        case inputs.CreatePayment():
            return "merchant"
        case inputs.ConfirmPage():
            return "payer"
        case (
            inputs.ResolveManually()
            | inputs.StopPayment()
            | inputs.CorrectTimes()
            | inputs.MarkRestored()
            | inputs.RecordLostUse()
        ):
            return f"user:{input_.user}"
        case inputs.TransactionWoke() | inputs.DepositClaimWoke():
            return "clock"
        case inputs.BeginSubmission() | inputs.CallbackConcluded() | inputs.QrConcluded() | inputs.EndedPollConcluded():
            return "gateway"
        case (
            inputs.ProviderAccepted()
            | inputs.ProviderSucceeded()
            | inputs.ProviderFailed()
            | inputs.ProviderUnreachable()
            | inputs.ProviderNeverReceived()
            | inputs.ProviderCannotTell()
            | inputs.ProviderHinted()
            | inputs.DepositNotified()
            | inputs.DepositAnswered()
            | inputs.UnmatchedNotified()
        ):
            return f"provider:{input_.provider}"
        case _:
            assert_never(input_)


def _detail(input_: inputs.Input) -> dict[str, object]:
    match input_:
        case inputs.CreatePayment():
            return {"method": input_.draft.method, "operation": input_.draft.operation}
        case inputs.ResolveManually():
            return {"reason": input_.reason, "evidence": input_.evidence or None, "errorCode": input_.error_code}
        case inputs.ProviderAccepted():
            return {"source": input_.source, "providerReference": input_.provider_reference}
        case inputs.ProviderSucceeded():
            return {
                "source": input_.source,
                "providerReference": input_.provider_reference,
                "finalAmount": str(input_.final) if input_.final else None,
            }
        case inputs.ProviderFailed():
            return {
                "source": input_.source,
                "errorCode": input_.error_code,
                "nativeCode": input_.native_code,
                "nativeMessage": input_.native_message,
            }
        case inputs.ProviderUnreachable():
            return {"reason": input_.reason}
        case inputs.DepositNotified():
            return {"providerReference": input_.provider_reference, "amount": str(input_.amount)}
        case inputs.DepositClaimWoke():
            return {"providerReference": input_.receipt}
        case inputs.DepositAnswered():
            return {
                "providerReference": input_.receipt,
                "outcome": input_.outcome,
                "amount": str(input_.amount) if input_.amount else None,
                "detail": input_.detail or None,
            }
        case inputs.CallbackConcluded() | inputs.QrConcluded():
            return {
                "outcome": input_.attempt.outcome,
                "status": input_.attempt.status,
                "durationMs": input_.attempt.duration_ms,
                "detail": input_.attempt.detail,
            }
        case inputs.BeginSubmission():
            return {} if input_.withheld is None else {"withheld": input_.withheld}
        case (
            inputs.ConfirmPage()
            | inputs.CorrectTimes()
            | inputs.TransactionWoke()
            | inputs.StopPayment()
            | inputs.MarkRestored()
            | inputs.ProviderNeverReceived()
            | inputs.ProviderCannotTell()
            | inputs.UnmatchedNotified()
            | inputs.EndedPollConcluded()
        ):
            return {}
        case inputs.RecordLostUse():
            return {"gatewayReference": input_.gateway_reference}
        case inputs.ProviderHinted():
            known = input_.evidence
            reported = {"nativeCode": input_.native_code, "providerReference": None if known is None else known.receipt}
            return {name: value for name, value in reported.items() if value is not None}
        case _:
            assert_never(input_)
