"""Reads Daraja's callbacks, and writes the responses that Daraja expects.

A callback without our signature in its address is not read. A result causes a poll, and says what
is known where that is not answered; a confirmation causes a question about the deposit, where the
account has an API operator for that. The answers to our own questions come as callbacks, too.

The content of a callback that proves nothing by itself is stored for the poll that it causes. The
answer to the poll confirms it, but has less detail: a query of a push returns no receipt, and one
of a pay-out no reason."""

from __future__ import annotations

from typing import Final, assert_never

from attrs import evolve

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages import inputs
from mmo_sansio.providers.common.balances import AccountBalance, BalanceReport, parse_balance
from mmo_sansio.providers.common.interface import (
    DepositAnswer,
    DepositReport,
    DepositValidation,
    ProviderNotification,
)
from mmo_sansio.providers.common.wire import JSON_HEADERS, stored_text
from mmo_sansio.providers.mpesa_daraja import answers, codes, results, reversals
from mmo_sansio.providers.mpesa_daraja.account import MpesaAccount
from mmo_sansio.providers.mpesa_daraja.account_check import read_finding
from mmo_sansio.providers.mpesa_daraja.callback_url import (
    CallbackContext,
    MpesaCallbackKind,
    parse_callback_url,
)
from mmo_sansio.providers.mpesa_daraja.hints import MpesaHint
from mmo_sansio.providers.mpesa_daraja.wire import format_msisdn, to_json
from mmo_sansio.values.model import DepositAnswerOutcome, DepositTrust, Evidence

# The account that pay-outs are paid from (documented, Business To Customer).
UTILITY_ACCOUNT: Final = "Utility Account"
# Answers to a validation, with codes for each reason (documented, Customer To Business).
_DEPOSIT_ACCEPTED: Final = {"ResultCode": "0", "ResultDesc": "Accepted"}
_ACKNOWLEDGED: Final = {"ResultCode": 0, "ResultDesc": "Success"}
_UNKNOWN_ACCOUNT: Final = {"ResultCode": "C2B00012", "ResultDesc": "Rejected"}
_WRONG_AMOUNT: Final = {"ResultCode": "C2B00013", "ResultDesc": "Rejected"}
_WRONG_SHORTCODE: Final = {"ResultCode": "C2B00015", "ResultDesc": "Rejected"}
_OTHER_ERROR: Final = {"ResultCode": "C2B00016", "ResultDesc": "Rejected"}


def parse_notification(
    provider: str, account: MpesaAccount, request: HttpRequest
) -> ProviderNotification:
    """Return the content of a callback. One that is forged, unreadable or of another payment is
    returned as UnmatchedNotified, with its body as it came."""
    # The address is all that shows where a callback comes from: Daraja signs nothing.
    address = parse_callback_url(request.target, account.signing_key)
    if address is None:
        return _unmatched(provider, request)

    try:
        match address.kind:
            case MpesaCallbackKind.PUSH:
                result = results.parse_push_result(request.body)
            case MpesaCallbackKind.DEPOSIT_RESULT:
                answer = deposit_answer(
                    provider, account, address.reference, results.parse_result(request.body)
                )
                # The answer to one question counts once, and not for a later one.
                return evolve(answer, asked_at=address.asked_at)
            case MpesaCallbackKind.BALANCE_RESULT:
                return _balance_report(provider, address, request)
            case MpesaCallbackKind.REVERSAL_RESULT:
                return reversals.read_result(provider, address, results.parse_result(request.body))
            case MpesaCallbackKind.REVERSAL_STATE:
                return reversals.read_state(provider, address, results.parse_result(request.body))
            case MpesaCallbackKind.REVERSAL_QUEUE_TIMEOUT:
                # A queue's timeout is no failure: M-Pesa may carry it out after all.
                return reversals.outcome_unknown(provider, address)
            case MpesaCallbackKind.CHECK_RESULT:
                return read_finding(provider, account, request) or _unmatched(provider, request)
            case (
                MpesaCallbackKind.RESULT
                | MpesaCallbackKind.TAX_RESULT
                | MpesaCallbackKind.POLL_RESULT
            ):
                result = results.parse_result(request.body)
            case MpesaCallbackKind.QUEUE_TIMEOUT:
                return inputs.ProviderHinted(
                    address.reference, provider, version=address.answered_version
                )
            case MpesaCallbackKind.CONFIRMATION:
                return _judged_deposit(account, results.parse_deposit(provider, request.body))
            case MpesaCallbackKind.VALIDATION:
                return DepositValidation(results.parse_deposit(provider, request.body))
            case _:
                assert_never(address.kind)
        amount = result.amount
    except ValueError:
        return _unmatched(provider, request)

    # Another amount is another payment's, whatever its address says.
    if amount is not None and amount.minor != address.minor:
        return _unmatched(provider, request)

    if address.kind is MpesaCallbackKind.POLL_RESULT:
        if address.receipt:
            report = answers.receipt_report(provider, account, address, result)
        else:
            report = answers.status_report(provider, address, result)
        return evolve(report, asked_at=address.asked_at, version=report.version or address.version)

    return _result_report(provider, account, address, result)


def _balance_report(provider: str, address: CallbackContext, request: HttpRequest) -> BalanceReport:
    """Return the balance in an answer, `Utility Account|KES|100.00|...&Working Account|...`, whose
    first number is what is available. Pay-outs are paid from the utility account; an answer that
    can't be read says nothing, as the question is repeated."""
    try:
        text = results.parse_result(request.body).parameters.get("AccountBalance", "")
        rows = {
            name.strip(): values
            for name, *values in (member.split("|") for member in text.split("&"))
        }
        currency, available, *_ = rows[UTILITY_ACCOUNT]
        amount = parse_balance(available, currency)
    except (ValueError, KeyError):
        return BalanceReport()

    return BalanceReport(
        (AccountBalance(provider, UTILITY_ACCOUNT, amount, address.asked_at, is_float=True),)
    )


def _judged_deposit(account: MpesaAccount, deposit: DepositReport) -> DepositReport:
    """Return a confirmed deposit with how far it is trusted: Daraja signs nothing, and its address
    is one for all."""
    if not account.is_paid_at(deposit.account):
        return evolve(deposit, trust=DepositTrust.FOREIGN_ACCOUNT)
    if account.trusts_deposits:
        return evolve(deposit, trust=DepositTrust.CONFIRMED)
    return evolve(deposit, trust=DepositTrust.UNCONFIRMED)


def deposit_answer(
    provider: str, account: MpesaAccount, receipt: str, result: results.MpesaResult
) -> DepositAnswer:
    """Return the answer about the deposit with this receipt.

    The account that was paid is the credit party: a receipt of a pay-out of ours has another one,
    and is no deposit."""
    state = result.parameters.get("TransactionStatus", "").lower()

    reason = f"{result.code} {state}: {result.message}"
    outcome = DepositAnswerOutcome.UNKNOWN
    if result.code in codes.NOT_FOUND_CODES:
        outcome = DepositAnswerOutcome.NOT_FOUND
    elif result.code == codes.SUCCESS and result.parameters.get("ReceiptNo") == receipt:
        if state == codes.TRANSACTION_COMPLETED:
            outcome = DepositAnswerOutcome.COMPLETED
        # Money that went back was ours for a while: nothing may be credited for it.
        elif state in codes.TRANSACTION_FAILURES or state == "reversed":
            outcome = DepositAnswerOutcome.FAILED

    return DepositAnswer(
        provider,
        receipt,
        outcome,
        is_ours=account.is_paid_at(results.party_number(result, "CreditPartyName")),
        amount=result.amount,
        reason=reason,
        payer=format_msisdn(results.party_number(result, "DebitPartyName")) or "",
    )


def _result_report(
    provider: str, account: MpesaAccount, address: CallbackContext, result: results.MpesaResult
) -> inputs.ProviderHinted:
    """Return the hint that a result is. Only M-Pesa was given its address, so a success with amount
    and receipt is evidence of one, and a refusal that names no transaction evidence of none."""
    is_money_out = address.kind in (MpesaCallbackKind.RESULT, MpesaCallbackKind.TAX_RESULT)

    # 1. A refusal: of our account, or with a receipt that stands for none. Of a prompt it counts
    # for nothing, as the question about a prompt tells its result.
    names_no_transaction = result.code in codes.ACCOUNT_REFUSED_CODES or (
        result.code != codes.SUCCESS and result.has_dummy_receipt
    )
    refused = ""
    if is_money_out and names_no_transaction:
        refused = result.code

    # 2. A success: with a receipt and an amount it is evidence, and with less only a hint.
    receipt = result.receipt
    amount = result.amount
    evidence = None
    is_paid = result.code == codes.SUCCESS
    if is_paid and results.names_transaction(receipt) and amount is not None:
        evidence = Evidence(
            receipt, result.code, amount, settles=is_money_out or account.trusts_results
        )

    # 3. Either way Daraja is asked: only its answer ends a payment.
    native_code = None
    if codes.is_code(result.code):
        native_code = result.code

    hint = MpesaHint(result.id, result.code, receipt, result.message, refused)
    return inputs.ProviderHinted(
        address.reference,
        provider,
        hint.to_text(),
        native_code=native_code,
        evidence=evidence,
        version=address.answered_version,
        says_paid=result.code == codes.SUCCESS,
    )


def _unmatched(provider: str, request: HttpRequest) -> inputs.UnmatchedNotified:
    return inputs.UnmatchedNotified(provider, stored_text(request.body))


def notification_response(
    account: MpesaAccount, request: HttpRequest, *, accepted: bool
) -> HttpResponse:
    """Return 200 with the body that this kind of callback expects; 503 for a callback that is not
    durable yet, so that it is sent again."""
    address = parse_callback_url(request.target, account.signing_key)
    # A validation has to be answered in any case: silence lets M-Pesa decide by itself.
    if address is not None and address.kind is MpesaCallbackKind.VALIDATION:
        return _json(200, _validation_result(account, request, accepted=accepted))
    if accepted:
        return _json(200, _ACKNOWLEDGED)
    return HttpResponse(503)


def _validation_result(
    account: MpesaAccount, request: HttpRequest, *, accepted: bool
) -> dict[str, str]:
    try:
        deposit = results.parse_deposit("", request.body)
    except ValueError:
        return _OTHER_ERROR

    # The order of the codes: whose account, which amount, and then whether anybody owns it.
    if not account.is_paid_at(deposit.account):
        return _WRONG_SHORTCODE
    if deposit.amount.minor % 100:
        return _WRONG_AMOUNT
    if accepted:
        return _DEPOSIT_ACCEPTED

    return _UNKNOWN_ACCOUNT


def _json(status: int, document: dict[str, object] | dict[str, str]) -> HttpResponse:
    return HttpResponse(status, JSON_HEADERS, to_json(document))
