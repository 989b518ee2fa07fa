"""What Daraja's codes mean, as data: results of payments, refusals of requests, states of transactions.

A code that no table knows is a final failure without a known reason when it comes as a result, and says nothing at all
when a request was answered with it by a server's fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from attrs import frozen

from mmo_sansio.values.error_codes import ErrorCode

E = ErrorCode

SUCCESS = "0"
"""The result code of a payment that was made, and of a request that was taken."""

PAYIN_PENDING_CODES = frozenset({"4999"})
"""Result codes of a push that has no result yet."""

NOT_FOUND_CODES = frozenset({"SFC_IC0003"})
"""Result codes of a question about a transaction that Daraja doesn't know."""


@frozen
class MpesaErrorMapping:
    """Why a payment failed, by which way the money should have gone."""

    payin: ErrorCode = E.TRANSACTION_DECLINED
    payout: ErrorCode = E.TRANSACTION_DECLINED


RESULT_CODES: Mapping[str, MpesaErrorMapping] = MappingProxyType(
    {
        "1": MpesaErrorMapping(E.USER_INSUFFICIENT_FUNDS, E.MERCHANT_INSUFFICIENT_FUNDS),
        "2": MpesaErrorMapping(E.AMOUNT_OUT_OF_RANGE, E.AMOUNT_OUT_OF_RANGE),
        "3": MpesaErrorMapping(E.AMOUNT_OUT_OF_RANGE, E.AMOUNT_OUT_OF_RANGE),
        "4": MpesaErrorMapping(E.USER_LIMIT_EXCEEDED, E.USER_LIMIT_EXCEEDED),
        "8": MpesaErrorMapping(E.TRANSACTION_DECLINED, E.USER_LIMIT_EXCEEDED),
        "11": MpesaErrorMapping(E.MERCHANT_MISCONFIGURED, E.MERCHANT_MISCONFIGURED),
        "15": MpesaErrorMapping(E.DUPLICATE_REQUEST, E.DUPLICATE_REQUEST),
        "17": MpesaErrorMapping(E.DUPLICATE_REQUEST, E.PROVIDER_UNAVAILABLE),
        "20": MpesaErrorMapping(E.MERCHANT_MISCONFIGURED, E.MERCHANT_MISCONFIGURED),
        "21": MpesaErrorMapping(E.MERCHANT_MISCONFIGURED, E.MERCHANT_MISCONFIGURED),
        "26": MpesaErrorMapping(E.PROVIDER_UNAVAILABLE, E.PROVIDER_UNAVAILABLE),
        "1001": MpesaErrorMapping(payin=E.USER_BUSY),
        "1019": MpesaErrorMapping(E.TRANSACTION_EXPIRED, E.TRANSACTION_EXPIRED),
        "1025": MpesaErrorMapping(E.PROVIDER_UNAVAILABLE, E.PROVIDER_UNAVAILABLE),
        "1032": MpesaErrorMapping(payin=E.USER_CANCELLED),
        "1037": MpesaErrorMapping(payin=E.USER_TIMEOUT),
        "2001": MpesaErrorMapping(E.USER_WRONG_PIN, E.MERCHANT_MISCONFIGURED),
        "2006": MpesaErrorMapping(E.MERCHANT_MISCONFIGURED, E.MERCHANT_MISCONFIGURED),
        "2028": MpesaErrorMapping(E.MERCHANT_MISCONFIGURED, E.MERCHANT_MISCONFIGURED),
        "2040": MpesaErrorMapping(payout=E.USER_NOT_FOUND),
        "8006": MpesaErrorMapping(E.USER_ACCOUNT_BLOCKED, E.MERCHANT_MISCONFIGURED),
        "9999": MpesaErrorMapping(E.PROVIDER_UNAVAILABLE, E.PROVIDER_UNAVAILABLE),
        "SFC_IC0003": MpesaErrorMapping(E.MERCHANT_MISCONFIGURED, E.USER_NOT_FOUND),
    }
)
"""By result code; see the operator's page in the docs for where each was seen."""


def find_error_mapping(code: str) -> MpesaErrorMapping:
    """What a result code other than 0 means."""
    return RESULT_CODES.get(code, MpesaErrorMapping())


class MpesaSubmissionState(Enum):
    """What a refusal says of the payment, where it is no failure."""

    UNKNOWN = "unknown"
    """Daraja may have it or not: ask, don't repeat."""
    ACCEPTED = "taken"
    """Daraja has it, and has not decided yet."""
    NOT_ACCEPTED = "not taken"
    """It was refused before anybody looked at it, and may be sent again."""


@frozen
class MpesaErrorRule:
    """An answer of Daraja that is no success, as far as it is known by."""

    code: str
    """Its `errorCode`."""
    message_contains: str
    """What its `errorMessage` holds, in lower case and without spaces; empty: anything."""
    meaning: ErrorCode | MpesaSubmissionState


ERROR_RULES: tuple[MpesaErrorRule, ...] = (
    MpesaErrorRule("400.002.02", "phonenumber", E.USER_NOT_FOUND),
    MpesaErrorRule("400.002.02", "partyb", E.USER_NOT_FOUND),
    MpesaErrorRule("400.002.02", "amount", E.AMOUNT_OUT_OF_RANGE),
    MpesaErrorRule("400.003.01", "", MpesaSubmissionState.NOT_ACCEPTED),
    MpesaErrorRule("401.002.01", "", MpesaSubmissionState.NOT_ACCEPTED),
    MpesaErrorRule("404.001.03", "", MpesaSubmissionState.NOT_ACCEPTED),
    MpesaErrorRule("500.001.1001", "beingprocessed", MpesaSubmissionState.ACCEPTED),
    MpesaErrorRule("500.001.1001", "locksubscriber", E.USER_BUSY),
    MpesaErrorRule("500.001.1001", "doesnotexist", E.MERCHANT_MISCONFIGURED),
    MpesaErrorRule("500.001.1001", "wrongcredentials", E.MERCHANT_MISCONFIGURED),
    MpesaErrorRule("500.002.1001", "duplicate", MpesaSubmissionState.ACCEPTED),
    MpesaErrorRule("500.003.02", "", MpesaSubmissionState.NOT_ACCEPTED),
    MpesaErrorRule("500.003.03", "", MpesaSubmissionState.NOT_ACCEPTED),
)
"""The first that fits counts. The access token's refusals move nothing, as do those of the operator's own limits."""

TOKEN_ERROR_CODES = frozenset({"400.003.01", "401.002.01", "404.001.03"})
"""An `errorCode` among these says that the access token isn't valid any more, whatever the HTTP status."""


def interpret_error(status: int, code: str, message: str) -> ErrorCode | MpesaSubmissionState:
    """What an answer other than a success says of the payment that it refuses."""
    squeezed = "".join(message.lower().split())
    for each in ERROR_RULES:
        if each.code == code and each.message_contains in squeezed:
            return each.meaning
    match status:
        case 401 | 429:
            return MpesaSubmissionState.NOT_ACCEPTED
        case 408:
            return MpesaSubmissionState.UNKNOWN
        case _ if 400 <= status < 500:
            return E.MERCHANT_MISCONFIGURED
        case _:
            return MpesaSubmissionState.UNKNOWN


TRANSACTION_FAILURES: Mapping[str, ErrorCode] = MappingProxyType(
    {
        "cancelled": E.TRANSACTION_DECLINED,
        "declined": E.TRANSACTION_DECLINED,
        "failed": E.TRANSACTION_DECLINED,
        "expired": E.TRANSACTION_EXPIRED,
    }
)
"""States of a transaction, in lower case, in which no money moved and none will."""

TRANSACTION_COMPLETED = "completed"
"""The state of one whose money moved. Any state that is in neither is not final."""
