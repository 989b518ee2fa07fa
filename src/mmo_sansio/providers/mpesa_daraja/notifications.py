"""What Daraja's callbacks say, and what it wants to hear.

Nothing that comes without our seal in its address is read. A result makes us ask; only the answer to our own question,
and the confirmation of a deposit, about which nobody can be asked, are reports.
"""

from __future__ import annotations

import json
from typing import Final, assert_never

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import (
    ProviderAccepted,
    ProviderFailed,
    ProviderHinted,
    ProviderNeverReceived,
    ProviderReport,
    ProviderSucceeded,
    ProviderUnreachable,
    UnmatchedNotified,
)
from mmo_sansio.providers.common.interface import (
    DepositReport,
    DepositValidation,
    ProviderNotification,
)
from mmo_sansio.providers.mpesa_daraja.account import MpesaAccount
from mmo_sansio.providers.mpesa_daraja.callback_url import (
    CallbackContext,
    MpesaCallbackKind,
    parse_callback_url,
)
from mmo_sansio.providers.mpesa_daraja.codes import (
    NOT_FOUND_CODES,
    SUCCESS,
    TRANSACTION_COMPLETED,
    TRANSACTION_FAILURES,
    find_error_mapping,
)
from mmo_sansio.providers.mpesa_daraja.hints import MpesaHint
from mmo_sansio.providers.mpesa_daraja.results import (
    MpesaResult,
    parse_deposit,
    parse_push_result,
    parse_result,
)
from mmo_sansio.providers.mpesa_daraja.wire import JSON_HEADERS, to_json
from mmo_sansio.values.clock import HOUR
from mmo_sansio.values.model import Source
from mmo_sansio.values.money import Money

CALLBACK_CHARACTERS_MAX: Final = 2_000
"""How much is kept of a callback that fits nothing."""

_DEPOSIT_ACCEPTED: Final = {"ResultCode": "0", "ResultDesc": "Accepted"}
_ACKNOWLEDGED: Final = {"ResultCode": 0, "ResultDesc": "Success"}
_UNKNOWN_ACCOUNT: Final = {"ResultCode": "C2B00012", "ResultDesc": "Rejected"}
_WRONG_AMOUNT: Final = {"ResultCode": "C2B00013", "ResultDesc": "Rejected"}
_WRONG_SHORTCODE: Final = {"ResultCode": "C2B00015", "ResultDesc": "Rejected"}
_OTHER_ERROR: Final = {"ResultCode": "C2B00016", "ResultDesc": "Rejected"}


def parse_notification(
    provider: str, account: MpesaAccount, request: HttpRequest
) -> ProviderNotification:
    """What a callback says; anything that isn't from Daraja or makes no sense is kept as it came."""
    address = parse_callback_url(request.target, account.signing_key)
    if address is None:
        return _unmatched(provider, request)
    try:
        match address.kind:
            case MpesaCallbackKind.PUSH:
                return _push_hint(provider, address, request)
            case MpesaCallbackKind.RESULT:
                return _result_hint(provider, address, request)
            case MpesaCallbackKind.QUEUE_TIMEOUT:
                return ProviderHinted(address.reference, provider)
            case MpesaCallbackKind.POLL_RESULT:
                told = parse_result(request.body)
                fits = _amount_matches(told.amount, address)
                return (
                    _status_report(provider, address, told)
                    if fits
                    else _unmatched(provider, request)
                )
            case MpesaCallbackKind.CONFIRMATION:
                return _parse_deposit_report(provider, request)
            case MpesaCallbackKind.VALIDATION:
                return DepositValidation(_parse_deposit_report(provider, request))
            case _:
                assert_never(address.kind)
    except ValueError:
        return _unmatched(provider, request)


def notification_response(
    account: MpesaAccount, request: HttpRequest, *, accepted: bool
) -> HttpResponse:
    """200 with what the kind of callback wants to hear; 503 for one that isn't durable yet, which may be sent again."""
    address = parse_callback_url(request.target, account.signing_key)
    if address is not None and address.kind is MpesaCallbackKind.VALIDATION:
        return _json(200, _validation_result(account, request, accepted=accepted))
    return _json(200, _ACKNOWLEDGED) if accepted else HttpResponse(503)


def _validation_result(
    account: MpesaAccount, request: HttpRequest, *, accepted: bool
) -> dict[str, str]:
    try:
        asked = parse_deposit(request.body)
    except ValueError:
        return _OTHER_ERROR
    if asked.shortcode not in (account.shortcode, account.till):
        return _WRONG_SHORTCODE
    if asked.amount.minor % 100:
        return _WRONG_AMOUNT
    return _DEPOSIT_ACCEPTED if accepted else _UNKNOWN_ACCOUNT


def _push_hint(
    provider: str, callback: CallbackContext, request: HttpRequest
) -> ProviderNotification:
    told = parse_push_result(request.body)
    if not _amount_matches(told.amount, callback):
        return _unmatched(provider, request)
    hint = MpesaHint(told.checkout_request_id, told.code, told.receipt, told.message)
    return ProviderHinted(callback.reference, provider, hint.to_text())


def _result_hint(
    provider: str, callback: CallbackContext, request: HttpRequest
) -> ProviderNotification:
    told = parse_result(request.body)
    if not _amount_matches(told.amount, callback):
        return _unmatched(provider, request)
    hint = MpesaHint(told.originator_conversation_id, told.code, told.transaction_id, told.message)
    return ProviderHinted(callback.reference, provider, hint.to_text())


def _status_report(provider: str, callback: CallbackContext, result: MpesaResult) -> ProviderReport:
    """What became of a pay-out or tax payout, as we have asked."""
    reference = callback.reference
    if result.code in NOT_FOUND_CODES and callback.not_found_is_final:
        return ProviderNeverReceived(reference, provider, 0, callback.submitted_at)
    state = result.parameters.get("TransactionStatus", "").lower()
    if result.code != SUCCESS or not state:
        why = f"Daraja answered the question with {result.code}: {result.message}."
        return ProviderUnreachable(reference, provider, why, poll_after=HOUR)
    if state == TRANSACTION_COMPLETED:
        receipt = result.parameters.get("ReceiptNo") or None
        who = result.parameters.get("CreditPartyName")
        party = json.dumps({"creditPartyName": who}, ensure_ascii=False) if who else None
        return ProviderSucceeded(
            reference, provider, Source.POLL, receipt, final=result.amount, party_data=party
        )
    if state in TRANSACTION_FAILURES:
        code, means = callback.reported_code, TRANSACTION_FAILURES[state]
        if code not in ("", SUCCESS):
            means = find_error_mapping(code).payout
        return ProviderFailed(
            reference, provider, Source.POLL, means, native_code=code or state, native_message=state
        )
    return ProviderAccepted(reference, provider, Source.POLL)


def _parse_deposit_report(provider: str, request: HttpRequest) -> DepositReport:
    told = parse_deposit(request.body)
    return DepositReport(
        provider, told.transaction_id, told.shortcode, told.bill_reference, told.amount, told.party
    )


def _amount_matches(amount: Money | None, callback: CallbackContext) -> bool:
    """Whether a result is about as much as we have asked for."""
    return amount is None or amount.minor == callback.minor


def _unmatched(provider: str, request: HttpRequest) -> UnmatchedNotified:
    told = request.body.decode("utf-8", "replace").replace("\0", "�")
    return UnmatchedNotified(provider, told[:CALLBACK_CHARACTERS_MAX])


def _json(status: int, document: dict[str, object] | dict[str, str]) -> HttpResponse:
    return HttpResponse(status, JSON_HEADERS, to_json(document))
