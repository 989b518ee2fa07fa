"""Judges M-Pesa's answers to our own questions about a payment: by its reported receipt, or by the
id of its submission."""

from __future__ import annotations

import json

from attrs import evolve

from mmo_sansio.messages import inputs
from mmo_sansio.providers.mpesa_daraja import codes
from mmo_sansio.providers.mpesa_daraja.account import MpesaAccount
from mmo_sansio.providers.mpesa_daraja.callback_url import CallbackContext, party_digest
from mmo_sansio.providers.mpesa_daraja.results import MpesaResult, party_number
from mmo_sansio.values.clock import HOUR
from mmo_sansio.values.model import Source


def receipt_report(
    provider: str, account: MpesaAccount, callback: CallbackContext, result: MpesaResult
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


def _is_about(account: MpesaAccount, callback: CallbackContext, result: MpesaResult) -> bool:
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


def status_report(
    provider: str, callback: CallbackContext, result: MpesaResult
) -> inputs.ProviderAnswer:
    """Return the answer to a question by the id of the submission."""
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
    provider: str, callback: CallbackContext, result: MpesaResult, receipt: str | None
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
