"""Holds the conversations about refunds, by which Disbursement gives money of a request to pay
back, whole or in parts.

A refund has an X-Reference-Id of its own, which MTN accepts once, so that a repetition is MTN's
duplicate. Its answers are classified as those of other submissions are; no page names a code that
is for refunds only."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.reversals import ReversalReport
from mmo_sansio.providers.common.interface import (
    ExchangeFailed,
    ReversalConversation,
    ReversalReports,
)
from mmo_sansio.providers.common.operations import ReversalOperation
from mmo_sansio.providers.common.wire import plain_amount, to_json
from mmo_sansio.providers.mtn_momo import codes, wire
from mmo_sansio.providers.mtn_momo.account import MtnAccount
from mmo_sansio.values.clock import HOUR, MINUTE, SECOND, Instant, Span
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import Type

# Nobody has to approve a refund, so its result comes soon or late.
REFUND: Final = ReversalOperation(
    is_idempotent=True,
    can_be_polled=True,
    not_found_is_final_after=MINUTE,
    poll_intervals=(*(Span(seconds * SECOND) for seconds in (10, 20, 30, 60, 300, 900)), HOUR),
    can_be_partial=True,
)

# Why MTN does not give the money back, by the codes that have another meaning there than for a
# pay-out.
REFUSALS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "TRANSACTION_NOT_FOUND": "MTN knows no such payment that was paid.",
        "NOT_ALLOWED": (
            "MTN does not allow it: the product may lack refunds, or the payment be refunded "
            "or too old."
        ),
    }
)


def submit(
    account: MtnAccount, about: ReversalReports, *, id: str, refunded_id: str
) -> ReversalConversation:
    """Ask for the refund under its own X-Reference-Id; `refunded_id` is that of the request to
    pay."""
    reversal = about.reversal
    known_as = about.reversal.id
    product = account.disbursement
    if product is None:
        return about.failed(
            "The account has no keys for Disbursement any more, which pays refunds."
        )

    # The id is the same for each repetition, and MTN takes it once.
    headers = (
        (b"x-reference-id", id.encode()),
        *account.headers(product),
        *account.callback_header(known_as),
        (b"content-type", b"application/json"),
    )
    document = {
        "amount": plain_amount(reversal.amount),
        "currency": reversal.amount.currency,
        "externalId": known_as,
        "payerMessage": "Refund",
        "payeeNote": known_as,
        "referenceIdToRefund": refunded_id,
    }
    try:
        answer = yield HttpRequest("POST", _target(account), headers, to_json(document))
    except ExchangeFailed as failure:
        return about.unanswered(failure)

    return _read_submission_response(about, answer)


def poll(
    account: MtnAccount, about: ReversalReports, *, id: str, now: Instant
) -> ReversalConversation:
    """Ask for the state of the refund with this X-Reference-Id."""
    product = account.disbursement
    if product is None:
        return about.unreachable("The account has no keys for Disbursement any more.")

    try:
        answer = yield HttpRequest(
            "GET", _target(account) + b"/" + id.encode(), account.headers(product)
        )
    except ExchangeFailed as failure:
        return about.unreachable(failure.reason)

    # Only MTN's own code counts: any other 404 may be a proxy's.
    if answer.status == 404 and wire.parse_error_body(answer.body).code == codes.RESOURCE_NOT_FOUND:
        sent_at = about.reversal.sent_at
        # What MTN has once accepted is never sent again.
        is_final = sent_at is not None and REFUND.is_not_found_final(sent_at, now=now)
        if is_final and not about.reversal.is_accepted:
            return about.never_received()

        return about.unreachable("MTN does not find the refund.")

    if answer.status != 200:
        return about.unreachable(f"MTN answered {answer.status} to a question about a refund.")

    try:
        return _parse_refund(about, answer.body)
    except ValueError as error:
        return about.unreachable(f"MTN's answer about a refund can't be read: {error}.")


def _read_submission_response(about: ReversalReports, response: HttpResponse) -> ReversalReport:
    reason = wire.parse_error_body(response.body)
    status = response.status

    # 1. MTN has it. 2. Nothing was taken, and the same refund may be sent again.
    if status in (202, 409) or reason.code == codes.ALREADY_EXISTS:
        return about.accepted()
    if status == 429 or codes.refuses_account(status, reason.code):
        return about.never_received()

    # 3. Refused: by a code that is final, or by any 4xx but a timeout.
    is_told = reason.code in {*codes.REASONS, *REFUSALS} - codes.INCONCLUSIVE_REASONS
    if (status >= 500 and is_told) or (400 <= status < 500 and status != 408):
        return _refused(about, reason, f"HTTP {status}")

    return about.unreachable(
        f"MTN answered {status} {reason.code or ''}".rstrip() + " to a refund."
    )


def _parse_refund(about: ReversalReports, body: bytes) -> ReversalReport:
    """Return the report from a refund in a response. Raises ValueError for an invalid one."""
    document = wire.parse_json(body)
    if wire.text_member(document, "externalId") not in (None, about.reversal.id):
        raise ValueError("it is about another payment")

    receipt = wire.text_member(document, "financialTransactionId")
    status = wire.text_member(document, "status")
    if status == "SUCCESSFUL":
        return about.succeeded(receipt, wire.parse_amount(document, about.reversal.amount.currency))
    if status in codes.PENDING_STATUSES:
        return about.accepted()
    if status != "FAILED":
        raise ValueError("its status is none that is known")

    # FAILED with `ONGOING`, say: it goes on (assumed, as of payments).
    reason = wire.parse_reason(document)
    if reason.code in codes.PENDING_REASONS:
        return about.accepted()

    return _refused(about, reason, "FAILED", receipt)


def _refused(
    about: ReversalReports, reason: wire.MtnReason, shown: str, receipt: str | None = None
) -> ReversalReport:
    # The refund is paid from our account, as a pay-out is: it is our funds that lack.
    code = codes.to_error_code(reason.code, reason.message, Type.PAYOUT)
    words = REFUSALS.get(reason.code or "", EXPLANATIONS[code].meaning)
    return about.failed(
        f"{words} {reason.message or ''}".rstrip(),
        reason.code or shown,
        receipt,
        lacks_float=code is ErrorCode.MERCHANT_INSUFFICIENT_FUNDS,
    )


def _target(account: MtnAccount) -> bytes:
    return f"{account.base_url}/disbursement/v1_0/refund".encode()
