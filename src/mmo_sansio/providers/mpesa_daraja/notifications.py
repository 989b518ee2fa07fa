"""Reads Daraja's callbacks, and writes the responses that Daraja expects.

A callback without our signature in its address is not read. A result causes a poll, and says what
is known where that is not answered; a confirmation causes a question about the deposit, where the
account has an API operator for that. Reports are the answers to our own questions.

The content of a callback that proves nothing by itself is stored for the poll that it causes. The
answer to the poll confirms it, but has less detail: a query of a push returns no receipt, and one
of a pay-out no reason."""

from __future__ import annotations

import json
import re
from typing import Final, assert_never

from attrs import asdict, evolve, frozen

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
from mmo_sansio.providers.mpesa_daraja import codes, results, reversals
from mmo_sansio.providers.mpesa_daraja.account import MpesaAccount
from mmo_sansio.providers.mpesa_daraja.account_check import read_finding
from mmo_sansio.providers.mpesa_daraja.callback_url import (
    CallbackContext,
    MpesaCallbackKind,
    parse_callback_url,
    party_digest,
)
from mmo_sansio.providers.mpesa_daraja.wire import format_msisdn, to_json
from mmo_sansio.values.clock import HOUR
from mmo_sansio.values.model import DepositAnswerOutcome, DepositTrust, Evidence, Source

# The account that pay-outs are paid from (documented, Business To Customer).
UTILITY_ACCOUNT: Final = "Utility Account"
# Answers to a validation, with codes for each reason (documented, Customer To Business).
_DEPOSIT_ACCEPTED: Final = {"ResultCode": "0", "ResultDesc": "Accepted"}
_ACKNOWLEDGED: Final = {"ResultCode": 0, "ResultDesc": "Success"}
_UNKNOWN_ACCOUNT: Final = {"ResultCode": "C2B00012", "ResultDesc": "Rejected"}
_WRONG_AMOUNT: Final = {"ResultCode": "C2B00013", "ResultDesc": "Rejected"}
_WRONG_SHORTCODE: Final = {"ResultCode": "C2B00015", "ResultDesc": "Rejected"}
_OTHER_ERROR: Final = {"ResultCode": "C2B00016", "ResultDesc": "Rejected"}
# A shortcode or a telephone number; a masked number, `2547 ***** 126`, has fewer digits.
_PARTY_NUMBER: Final = re.compile(r"[0-9]{5,12}(?![0-9])", re.ASCII)


def parse_notification(
    provider: str, account: MpesaAccount, request: HttpRequest
) -> ProviderNotification:
    """Return the content of a callback; a body that is forged or unreadable is returned
    unchanged."""
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
            report = _receipt_report(provider, account, address, result)
        else:
            report = _status_report(provider, address, result)
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
        is_ours=account.is_paid_at(party_number(result, "CreditPartyName")),
        amount=result.amount,
        reason=reason,
        payer=format_msisdn(party_number(result, "DebitPartyName")) or "",
    )


def _result_report(
    provider: str, account: MpesaAccount, address: CallbackContext, result: results.MpesaResult
) -> inputs.ProviderHinted:
    """Return the hint that a result is. Only M-Pesa was given its address, so a success with amount
    and receipt is evidence of one, and a refusal that names no transaction evidence of none."""
    is_money_out = address.kind in (MpesaCallbackKind.RESULT, MpesaCallbackKind.TAX_RESULT)

    # 1. A refusal: of our account, or with a receipt that stands for none. A prompt is asked about
    # in either case, as its question tells the result.
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
    is_receipt = results.RECEIPT.fullmatch(receipt) is not None and not receipt.endswith(
        results.DUMMY_RECEIPT_ENDING
    )
    if result.code == codes.SUCCESS and is_receipt and amount is not None:
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


def _receipt_report(
    provider: str, account: MpesaAccount, callback: CallbackContext, result: results.MpesaResult
) -> inputs.ProviderAnswer:
    """Return the answer to a question by the reported receipt. It confirms the report when it is
    about this payment: a receipt of the same amount may be another one's."""
    state = result.parameters.get("TransactionStatus", "").lower()
    is_answered = result.code in codes.NOT_FOUND_CODES or (
        result.code == codes.SUCCESS and state != ""
    )

    # 1. Confirmed. What was paid to us settles its receipt, which no deposit may use again.
    if state == codes.TRANSACTION_COMPLETED and _is_about(account, callback, result):
        is_deposit = account.is_paid_at(party_number(result, "CreditPartyName"))
        succeeded = _succeeded(provider, callback, result, callback.receipt)
        return evolve(succeeded, settles_receipt=is_deposit)

    # 2. The failed transaction that a result has named, found as failed.
    failed_with = callback.reported_code
    if failed_with and state in codes.TRANSACTION_FAILURES and _is_about(account, callback, result):
        error_code = codes.find_error_mapping(failed_with).payout
        return inputs.ProviderFailed(
            callback.reference,
            provider,
            Source.POLL,
            error_code,
            native_code=failed_with,
            native_message=state,
        )

    # 3. Neither: the receipt is denied only if the question itself was answered.
    return inputs.ProviderUnreachable(
        callback.reference,
        provider,
        f"Daraja answered the question about receipt {callback.receipt} with {result.code} "
        f"{state}: {result.message}.",
        denies_receipt=is_answered,
    )


def _is_about(
    account: MpesaAccount, callback: CallbackContext, result: results.MpesaResult
) -> bool:
    # Without receipt or amount nothing shows what it is about.
    if (
        result.code != codes.SUCCESS
        or result.parameters.get("ReceiptNo") != callback.receipt
        or result.amount is None
    ):
        return False

    conversation = result.parameters.get("OriginatorConversationID", "")
    if conversation in (callback.conversation, callback.reference):
        return True

    # A prompt's conversation is not ours: it is known by its receipt, its payer and our account.
    payer = party_number(result, "DebitPartyName")
    payee = party_number(result, "CreditPartyName")
    if account.is_paid_at(payee):
        return callback.party == party_digest(account.signing_key, f"from {payer}")

    # A pay-out has an id of ours. Another pay-out to the same number has another one.
    is_to_payee = callback.party == party_digest(account.signing_key, f"to {payee}")
    return not conversation and payer == account.initiator.shortcode and is_to_payee


def party_number(result: results.MpesaResult, name: str) -> str:
    """Return the number at the beginning of a party's name, `174379 - TEST SHOP`; empty when there
    is none."""
    found = _PARTY_NUMBER.match(result.parameters.get(name, ""))
    if found is None:
        return ""
    return found[0]


def _status_report(
    provider: str, callback: CallbackContext, result: results.MpesaResult
) -> inputs.ProviderAnswer:
    reference = callback.reference
    # 1. Nobody finds it, or nobody lets us ask: what a result has refused is over.
    if (
        callback.refusal_is_final
        and result.code in codes.NOT_FOUND_CODES | codes.ACCOUNT_REFUSED_CODES
    ):
        code = callback.reported_code
        error_code = codes.find_error_mapping(code).payout
        return inputs.ProviderFailed(reference, provider, Source.POLL, error_code, native_code=code)

    # 2. Never received: for this submission, and only long enough after it.
    if result.code in codes.NOT_FOUND_CODES and callback.not_found_is_final:
        return inputs.ProviderNeverReceived(reference, provider, callback.version)

    # 3. No state: asked again, soon where a result has already named a failure.
    state = result.parameters.get("TransactionStatus", "").lower()
    if result.code != codes.SUCCESS or not state:
        poll_after = HOUR
        if callback.reported_code:
            poll_after = codes.REFUSAL_FINAL_AFTER

        return inputs.ProviderUnreachable(
            reference,
            provider,
            f"Daraja answered the poll with {result.code}: {result.message}.",
            poll_after=poll_after,
        )

    # 4. A final state. The reason of a failure stood in the result only.
    if state == codes.TRANSACTION_COMPLETED:
        return _succeeded(provider, callback, result, result.parameters.get("ReceiptNo") or None)

    if state in codes.TRANSACTION_FAILURES:
        code = callback.reported_code
        error_code = codes.TRANSACTION_FAILURES[state]
        if code not in ("", codes.SUCCESS):
            error_code = codes.find_error_mapping(code).payout

        return inputs.ProviderFailed(
            reference,
            provider,
            Source.POLL,
            error_code,
            native_code=code or state,
            native_message=state,
        )

    # 5. Any other word, `Authorized` say: it goes on.
    return inputs.ProviderAccepted(reference, provider, Source.POLL)


def _succeeded(
    provider: str, callback: CallbackContext, result: results.MpesaResult, receipt: str | None
) -> inputs.ProviderSucceeded:
    # `254705000000 - JANE DOE`: whom M-Pesa has paid, as it is registered.
    party_data = None
    name = result.parameters.get("CreditPartyName")
    if name:
        party_data = json.dumps({"creditPartyName": name}, ensure_ascii=False)

    return inputs.ProviderSucceeded(
        callback.reference,
        provider,
        Source.POLL,
        receipt,
        final=result.amount,
        fee=result.fee,
        party_data=party_data,
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


# The members of a stored hint that are read.
_NAMES: Final = ("id", "code", "receipt", "refused")


@frozen
class MpesaHint:
    """Holds the content of a callback."""

    id: str = ""
    """Daraja's id of the payment: a CheckoutRequestID or an OriginatorConversationID."""
    code: str = ""
    receipt: str = ""
    message: str = ""
    refused: str = ""
    """The code again, where it says that there is no transaction."""

    @property
    def names_failed_transaction(self) -> bool:
        """Tell whether it reports the failure of a transaction that has an id of M-Pesa's."""
        is_id = results.RECEIPT.fullmatch(self.receipt) is not None
        is_dummy = self.receipt.endswith(results.DUMMY_RECEIPT_ENDING)
        return self.code not in ("", codes.SUCCESS) and is_id and not is_dummy

    def to_text(self) -> str:
        """Return the hint as JSON, which people can also read."""
        return json.dumps(asdict(self))


def parse_hint(text: str | None) -> MpesaHint:
    """Return the latest valid value of each member in the lines of a payment's hint."""
    latest: dict[str, str] = {}
    # Each callback has added a line; a later one may say less than the one before it.
    for line in (text or "").splitlines():
        try:
            members = json.loads(line)
            latest |= {name: str(members[name]) for name in _NAMES if members.get(name)}
        except (ValueError, AttributeError, RecursionError):
            continue

    # A word of a stranger's must not become a native code.
    for name in ("code", "refused"):
        if not codes.is_code(latest.get(name, "0")):
            latest.pop(name)

    return MpesaHint(**latest)
