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
from mmo_sansio.providers.common.interface import DepositAsked, DepositTold, Notified
from mmo_sansio.providers.mpesa_daraja.account import Account
from mmo_sansio.providers.mpesa_daraja.callback_url import Kind, ReturnAddress, address_read
from mmo_sansio.providers.mpesa_daraja.codes import (
    NOT_FOUND,
    SUCCESS,
    TRANSACTION_COMPLETED,
    TRANSACTION_FAILURES,
    meaning_of,
)
from mmo_sansio.providers.mpesa_daraja.hints import Hint
from mmo_sansio.providers.mpesa_daraja.results import Result, deposit, push_result, result
from mmo_sansio.providers.mpesa_daraja.wire import JSON_HEADERS, written
from mmo_sansio.values.clock import HOUR
from mmo_sansio.values.model import Source
from mmo_sansio.values.money import Money

TOLD_CHARACTERS_MAX: Final = 2_000
"""How much is kept of a callback that fits nothing."""

_WELCOME: Final = {"ResultCode": "0", "ResultDesc": "Accepted"}
_HEARD: Final = {"ResultCode": 0, "ResultDesc": "Success"}
_UNKNOWN_ACCOUNT: Final = {"ResultCode": "C2B00012", "ResultDesc": "Rejected"}
_WRONG_AMOUNT: Final = {"ResultCode": "C2B00013", "ResultDesc": "Rejected"}
_WRONG_SHORTCODE: Final = {"ResultCode": "C2B00015", "ResultDesc": "Rejected"}
_OTHER: Final = {"ResultCode": "C2B00016", "ResultDesc": "Rejected"}


def notified(provider: str, account: Account, request: HttpRequest) -> Notified:
    """What a callback says; anything that isn't from Daraja or makes no sense is kept as it came."""
    address = address_read(request.target, account.seal_key)
    if address is None:
        return _unmatched(provider, request)
    try:
        match address.kind:
            case Kind.PUSH:
                return _push_hint(provider, address, request)
            case Kind.RESULT:
                return _result_hint(provider, address, request)
            case Kind.QUEUE:
                return ProviderHinted(address.reference, provider)
            case Kind.ANSWER:
                told = result(request.body)
                fits = _fits(told.amount, address)
                return _answer(provider, address, told) if fits else _unmatched(provider, request)
            case Kind.CONFIRMATION:
                return _deposit(provider, request)
            case Kind.VALIDATION:
                return DepositAsked(_deposit(provider, request))
            case _:
                assert_never(address.kind)
    except ValueError:
        return _unmatched(provider, request)


def answer_to(account: Account, request: HttpRequest, *, accepted: bool) -> HttpResponse:
    """200 with what the kind of callback wants to hear; 503 for one that isn't durable yet, which may be sent again."""
    address = address_read(request.target, account.seal_key)
    if address is not None and address.kind is Kind.VALIDATION:
        return _json(200, _verdict(account, request, accepted=accepted))
    return _json(200, _HEARD) if accepted else HttpResponse(503)


def _verdict(account: Account, request: HttpRequest, *, accepted: bool) -> dict[str, str]:
    try:
        asked = deposit(request.body)
    except ValueError:
        return _OTHER
    if asked.shortcode not in (account.shortcode, account.till):
        return _WRONG_SHORTCODE
    if asked.amount.minor % 100:
        return _WRONG_AMOUNT
    return _WELCOME if accepted else _UNKNOWN_ACCOUNT


def _push_hint(provider: str, address: ReturnAddress, request: HttpRequest) -> Notified:
    told = push_result(request.body)
    if not _fits(told.amount, address):
        return _unmatched(provider, request)
    hint = Hint(told.checkout_request_id, told.code, told.receipt, told.message)
    return ProviderHinted(address.reference, provider, hint.written())


def _result_hint(provider: str, address: ReturnAddress, request: HttpRequest) -> Notified:
    told = result(request.body)
    if not _fits(told.amount, address):
        return _unmatched(provider, request)
    hint = Hint(told.originator_conversation_id, told.code, told.transaction_id, told.message)
    return ProviderHinted(address.reference, provider, hint.written())


def _answer(provider: str, address: ReturnAddress, told: Result) -> ProviderReport:
    """What became of a pay-out or tax payout, as we have asked."""
    reference = address.reference
    if told.code in NOT_FOUND and address.not_found_is_final:
        return ProviderNeverReceived(reference, provider, 0, address.submitted_at)
    state = told.parameters.get("TransactionStatus", "").lower()
    if told.code != SUCCESS or not state:
        why = f"Daraja answered the question with {told.code}: {told.message}."
        return ProviderUnreachable(reference, provider, why, ask_after=HOUR)
    if state == TRANSACTION_COMPLETED:
        receipt = told.parameters.get("ReceiptNo") or None
        who = told.parameters.get("CreditPartyName")
        party = json.dumps({"creditPartyName": who}, ensure_ascii=False) if who else None
        return ProviderSucceeded(
            reference, provider, Source.POLL, receipt, final=told.amount, party_data=party
        )
    if state in TRANSACTION_FAILURES:
        code, means = address.told_code, TRANSACTION_FAILURES[state]
        if code not in ("", SUCCESS):
            means = meaning_of(code).payout
        return ProviderFailed(
            reference, provider, Source.POLL, means, native_code=code or state, native_message=state
        )
    return ProviderAccepted(reference, provider, Source.POLL)


def _deposit(provider: str, request: HttpRequest) -> DepositTold:
    told = deposit(request.body)
    return DepositTold(
        provider, told.transaction_id, told.shortcode, told.bill_reference, told.amount, told.party
    )


def _fits(amount: Money | None, address: ReturnAddress) -> bool:
    """Whether a result is about as much as we have asked for."""
    return amount is None or amount.minor == address.minor


def _unmatched(provider: str, request: HttpRequest) -> UnmatchedNotified:
    told = request.body.decode("utf-8", "replace").replace("\0", "�")
    return UnmatchedNotified(provider, told[:TOLD_CHARACTERS_MAX])


def _json(status: int, document: dict[str, object] | dict[str, str]) -> HttpResponse:
    return HttpResponse(status, JSON_HEADERS, written(document))
