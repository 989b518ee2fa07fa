"""Reads and writes the messages about refunds, by which pawaPay gives money of a deposit back,
whole or in parts.

A refund has an id of its own, so that a repetition is pawaPay's duplicate. Its callback does not
name the deposit, so the reversal's id is in its metadata, which pawaPay returns."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, assert_never

from mmo_provider_pawapay.codes import FAILURES, OTHER_FAILURE
from mmo_provider_pawapay.wire import (
    PENDING_STATUSES,
    RECEIPT_CHARACTERS_MAX,
    REFUND,
    FailureReason,
    Initiation,
    amount_text,
    named_id,
    operation_id,
    parse_amount,
    parse_failure,
    parse_initiation,
    parse_json,
)
from mmo_sansio import HOUR, MINUTE, SECOND, ErrorCode, Instant, Source
from mmo_sansio.providers import (
    DIRECT_PAYIN,
    WEB_PAYIN,
    HttpResponse,
    OperationKey,
    Reversal,
    ReversalFailed,
    ReversalOperation,
    ReversalReport,
    ReversalReports,
    ReversalSucceeded,
    Span,
    Type,
    object_member,
    text_member,
    to_json,
)

# Nobody has to approve a refund, so its result comes soon or late; the wait for it is assumed.
_OPERATION: Final = ReversalOperation(
    is_idempotent=True,
    can_be_polled=True,
    not_found_is_final_after=Span(15 * MINUTE),
    poll_intervals=(*(Span(seconds * SECOND) for seconds in (10, 20, 30, 60, 300, 900)), HOUR),
    can_be_partial=True,
)
OPERATIONS: Final[Mapping[OperationKey, ReversalOperation]] = MappingProxyType(
    dict.fromkeys((DIRECT_PAYIN, WEB_PAYIN), _OPERATION)
)

# Our own member in what pawaPay returns with a callback.
METADATA_FIELD: Final = "reversal"
_REVERSAL_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}-[1-9][0-9]{0,5}", re.ASCII)
# Keeps these ids apart from anything else that is made of a reversal's.
_NAMESPACE = b"mmo-gateway/pawapay/"


def refund_id(reversal: str) -> str:
    """Return the UUID of version 4 under which pawaPay knows a reversal, the same for each
    repetition: the digest of its id, as that has more than the 122 bits of a UUID."""
    return str(
        uuid.UUID(bytes=hashlib.sha256(_NAMESPACE + reversal.encode()).digest()[:16], version=4)
    )


def submission_body(reversal: Reversal) -> bytes:
    """Return the body of a request for a refund."""
    return to_json(
        {
            REFUND.id: refund_id(reversal.id),
            "depositId": operation_id(reversal.payment),
            "amount": amount_text(reversal.amount),
            "currency": reversal.amount.currency,
            "clientReferenceId": reversal.id,
            "metadata": [{METADATA_FIELD: reversal.id}],
        }
    )


def submission_report(about: ReversalReports, response: HttpResponse) -> ReversalReport:
    """Return the report from the answer to a request for a refund."""
    reversal = about.reversal
    unclear = f"pawaPay answered {response.status} to a refund."
    match parse_initiation(response, REFUND, refund_id(reversal.id)):
        case Initiation.ACCEPTED:
            return about.accepted()
        case Initiation.NEVER_RECEIVED:
            return about.never_received()
        case Initiation.UNCLEAR:
            return about.unreachable(unclear)
        case FailureReason() as reason:
            # It was sent before, and an earlier request may have arrived after all. A reason that
            # we do not know may then mean only that: pawaPay has the refund already.
            may_have_earlier = reversal.submissions - reversal.unsent > 1
            if may_have_earlier and reason.code not in FAILURES:
                return about.unreachable(unclear)

            return about.failed(_words(reason), reason.code, lacks_float=_lacks_float(reason))
        case never:
            assert_never(never)


def poll_report(about: ReversalReports, response: HttpResponse, *, now: Instant) -> ReversalReport:
    """Return the report from the answer to a question about a refund."""
    reversal = about.reversal
    if response.status != 200:
        return about.unreachable(
            f"pawaPay answered {response.status} to a question about a refund."
        )

    try:
        document = parse_json(response.body)
        if text_member(document, "status") == "NOT_FOUND":
            # What pawaPay had accepted is never sent again.
            is_final = reversal.sent_at is not None and _OPERATION.is_not_found_final(
                reversal.sent_at, now=now
            )
            if is_final and not reversal.is_accepted:
                return about.never_received()
            return about.unreachable("pawaPay does not find the refund.")

        # An answer that names another refund proves nothing about this one.
        data = object_member(document, "data")
        id = named_id(data, REFUND)
        if text_member(document, "status") != "FOUND" or id != refund_id(reversal.id):
            raise ValueError("it is about no refund, or another one")

        ended = _polled_result(reversal.id, about.provider, data)
        if ended is None and text_member(data, "status") not in PENDING_STATUSES:
            raise ValueError("its status is none that is known")
    except ValueError as error:
        return about.unreachable(f"pawaPay's answer about a refund can't be read: {error}.")

    if ended is None:
        return about.accepted()

    return ended


def _polled_result(
    reversal_id: str, provider: str, document: Mapping[str, Any]
) -> ReversalSucceeded | ReversalFailed | None:
    """Return the result of a refund in the answer to a poll; None: it has none yet. Raises
    ValueError for an invalid refund."""
    # A callback only causes a poll, so this is where each result comes from.
    receipt = text_member(document, "providerTransactionId")
    status = text_member(document, "status")
    receipt = receipt and receipt[:RECEIPT_CHARACTERS_MAX]
    if status == "COMPLETED":
        amount = parse_amount(document)
        return ReversalSucceeded(reversal_id, provider, Source.POLL, receipt, amount)

    if status == "FAILED":
        reason = parse_failure(document)
        return ReversalFailed(
            reversal_id,
            provider,
            Source.POLL,
            _words(reason),
            reason.code,
            receipt,
            lacks_float=_lacks_float(reason),
        )

    return None


def reversal_of(document: Mapping[str, Any], id: str) -> str | None:
    """Return the reversal that a callback names, whose id at pawaPay must be this one. Raises
    ValueError for metadata of another form."""
    # Anybody's metadata could name it: the id that we make of it has to be the callback's, too.
    reversal = text_member(object_member(document, "metadata"), METADATA_FIELD)
    is_ours = (
        reversal is not None and _REVERSAL_ID.fullmatch(reversal) and refund_id(reversal) == id
    )
    if is_ours:
        return reversal
    return None


def _lacks_float(reason: FailureReason) -> bool:
    # A refund is paid from our wallet, as a pay-out is.
    failure = FAILURES.get(reason.code or "", OTHER_FAILURE)
    return failure.error_code(Type.PAYOUT) is ErrorCode.MERCHANT_INSUFFICIENT_FUNDS


def _words(reason: FailureReason) -> str:
    known = FAILURES.get(reason.code or "", OTHER_FAILURE).reason or "pawaPay refuses the refund."
    return f"{known} {reason.message or ''}".rstrip()
