"""Holds the conversations about reversals, by which M-Pesa gives back what was paid to the
shortcode, once and whole.

A reversal takes no id of ours; M-Pesa answers with its own, by which Transaction Status is asked.
Its result comes to an address that only M-Pesa was given, and ends it: M-Pesa reverses a receipt
once, so that even who knows that address could move no money twice. Nothing can ask about a
reversal whose answer and result were both lost."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mmo_sansio.messages import reversals
from mmo_sansio.providers.common.interface import (
    ExchangeFailed,
    ReversalConversation,
    ReversalReports,
)
from mmo_sansio.providers.common.operations import ReversalOperation
from mmo_sansio.providers.mpesa_daraja import codes, requests
from mmo_sansio.providers.mpesa_daraja.account import MpesaAccount
from mmo_sansio.providers.mpesa_daraja.callback_url import CallbackContext
from mmo_sansio.providers.mpesa_daraja.results import RECEIPT, MpesaResult
from mmo_sansio.providers.mpesa_daraja.wire import (
    code_member,
    parse_json,
    text_member,
    whole_shillings,
)
from mmo_sansio.values.clock import HOUR, SECOND, Span
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Source, Transaction

REVERSAL: Final = ReversalOperation(
    is_idempotent=False,
    can_be_polled=True,
    not_found_is_final_after=None,
    poll_intervals=tuple(Span(n * SECOND) for n in (30, 60, 120, 300, 900, 3600)),
)

# Two codes, one meaning for whoever reads it.
_STATE_NOT_ALLOWED: Final = "The shortcode is not active."

# Told apart from the other refusals: money that is put in mends it.
_LACKS_FUNDS: Final = "1"

# Why M-Pesa does not give the money back, by the code of the result: all that its page on reversals
# has.
REFUSALS: Final[Mapping[str, str]] = MappingProxyType(
    {
        _LACKS_FUNDS: "The shortcode does not hold enough money.",
        "11": _STATE_NOT_ALLOWED,
        "21": "The API operator lacks the role Org Reversals Initiator.",
        "2001": "The password of the API operator is wrong, or older than 90 days.",
        "2006": _STATE_NOT_ALLOWED,
        "2028": "The shortcode may not reverse payments.",
        "8006": "The API operator is locked.",
        "R000001": "The payment was reversed before, for example in M-Pesa's portal.",
        "R000002": "M-Pesa knows no such payment, or not of this amount.",
    }
)


def submit(
    account: MpesaAccount, about: ReversalReports, transaction: Transaction
) -> ReversalConversation:
    """Ask for the reversal by the payment's receipt. What M-Pesa cannot take fails before anything
    is sent."""
    receipt = transaction.progress.provider_reference or ""
    shillings = whole_shillings(about.reversal.amount)
    if not account.reverser.name:
        return about.failed("The account has no API operator of the shortcode that was paid.")

    # A prompt's own id stands where its receipt is not known.
    if RECEIPT.fullmatch(receipt) is None or receipt.startswith("ws_CO_"):
        return about.failed(
            "M-Pesa's receipt of the payment, by which it is reversed, is not known."
        )

    if shillings is None:
        return about.failed("M-Pesa reverses whole Kenyan shillings.")

    try:
        answer = yield requests.reversal(
            account, about.reversal, receipt=receipt, shillings=shillings
        )
    except ExchangeFailed as failure:
        return about.unanswered(failure)

    try:
        document = parse_json(answer.body)
        if answer.status == 200 and code_member(document, "ResponseCode") == codes.SUCCESS:
            return about.accepted(text_member(document, "OriginatorConversationID") or None)

        code = text_member(document, "errorCode")
        message = text_member(document, "errorMessage")
    except ValueError:
        code = ""
        message = ""

    means = codes.interpret_error(answer.status, code, message)
    if isinstance(means, ErrorCode):
        return about.failed(
            f"Daraja has refused it. {message}".rstrip(), code or f"HTTP {answer.status}"
        )

    # Nothing was taken: the same reversal may be sent again.
    if means in (
        codes.MpesaSubmissionState.NOT_ACCEPTED,
        codes.MpesaSubmissionState.ACCOUNT_REFUSED,
    ):
        return about.never_received()

    # Anything else may have arrived, and then only its result can tell.
    return about.unreachable(f"Daraja answered {answer.status} {code} to a reversal.")


def poll(account: MpesaAccount, about: ReversalReports) -> ReversalConversation:
    """Ask for the state of a reversal, which arrives by a callback."""
    conversation = about.reversal.provider_reference
    if conversation is None or not account.reverser.name:
        return about.cannot_tell()

    try:
        answer = yield requests.reversal_query(account, about.reversal, conversation)
        code = code_member(parse_json(answer.body), "ResponseCode")
    except ExchangeFailed as failure:
        return about.unreachable(failure.reason)
    except ValueError as fault:
        return about.unreachable(f"Daraja's answer can't be read: {fault}.")

    if answer.status != 200 or code != codes.SUCCESS:
        return about.unreachable(f"Daraja answered {answer.status} to a question about a reversal.")

    # What it says arrives as a callback.
    return about.accepted()


def read_result(
    provider: str, address: CallbackContext, result: MpesaResult
) -> reversals.ReversalReport:
    """Return the report from the result of a reversal. Raises ValueError for one of another payment
    or amount. An unknown code, and a success that leaves one of them or the receipt out, prove
    nothing: M-Pesa is asked."""
    if result.code == codes.SUCCESS:
        # Only the address names what was asked for: a result may leave both out.
        amount = result.amount
        original = result.parameters.get("OriginalTransactionID") or None
        is_other_amount = amount is not None and amount.minor != address.minor
        if is_other_amount or original not in (None, address.receipt):
            raise ValueError("it is about another payment or amount")

        if amount is not None and original is not None and RECEIPT.fullmatch(result.receipt):
            return reversals.ReversalSucceeded(
                address.reference,
                provider,
                Source.WEBHOOK,
                result.receipt,
                amount,
                version=address.answered_version,
            )
    # A refusal that names a receipt is none: something was moved.
    elif result.code in REFUSALS and not result.receipt:
        return reversals.ReversalFailed(
            address.reference,
            provider,
            Source.WEBHOOK,
            REFUSALS[result.code],
            result.code,
            lacks_float=result.code == _LACKS_FUNDS,
            version=address.answered_version,
        )

    return outcome_unknown(provider, address, result.id or None)


def outcome_unknown(
    provider: str, address: CallbackContext, provider_reference: str | None = None
) -> reversals.ReversalReport:
    """Return the report from which a question follows: M-Pesa has the reversal, as only it was
    given the address, and its outcome is not known."""
    return reversals.ReversalAccepted(
        address.reference,
        provider,
        Source.WEBHOOK,
        provider_reference,
        poll_after=SECOND,
        version=address.answered_version,
    )


def read_state(
    provider: str, address: CallbackContext, result: MpesaResult
) -> reversals.ReversalReport:
    """Return the report from the answer to a question. Raises ValueError for one about another
    transaction."""
    reference = address.reference
    parameters = result.parameters
    amount = result.amount
    version = address.answered_version
    state = parameters.get("TransactionStatus", "").lower()

    if result.code != codes.SUCCESS or not state:
        shown = "another code"
        if codes.is_code(result.code):
            shown = result.code
        reason = f"Daraja answered the question about the reversal with {shown}: {result.message}."
        return reversals.ReversalUnreachable(
            reference, provider, reason, poll_after=HOUR, version=version
        )

    # The question named it: an answer about another transaction proves nothing about this one.
    if parameters.get("OriginatorConversationID") != address.conversation:
        raise ValueError("it is about another conversation")
    if amount is not None and amount.minor != address.minor:
        raise ValueError("it is about another amount")

    if state == codes.TRANSACTION_COMPLETED:
        receipt = parameters.get("ReceiptNo") or None
        return reversals.ReversalSucceeded(
            reference, provider, Source.POLL, receipt, amount, version=version
        )

    if state in codes.TRANSACTION_FAILURES:
        return reversals.ReversalFailed(
            reference,
            provider,
            Source.POLL,
            f"M-Pesa says that it is {state}.",
            state,
            version=version,
        )

    return reversals.ReversalAccepted(reference, provider, Source.POLL, version=version)
