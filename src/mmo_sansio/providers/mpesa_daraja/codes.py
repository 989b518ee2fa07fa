"""Translates Daraja's codes, as data: results of payments, rejected requests, transaction states.

An unknown code proves nothing, unless it is the result of a prompt that is over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from attrs import frozen

from mmo_sansio.values.clock import MINUTE, Span
from mmo_sansio.values.error_codes import ErrorCode

E = ErrorCode

# The result code of a completed payment, and of an accepted request.
SUCCESS = "0"

# Result codes of a push that has no result yet.
PAYIN_PENDING_CODES = frozenset({"4999"})

# Result codes of a poll for a transaction that Daraja does not know: `2032` was seen by others, the
# portal names `SFC_IC0003` (Transaction Status).
NOT_FOUND_CODES = frozenset({"2032", "SFC_IC0003"})

# Result codes of a request that Daraja refused because of our shortcode, its API operator, or the
# operator's password or role: no transaction exists.
ACCOUNT_REFUSED_CODES = frozenset({"11", "20", "21", "2001", "2006", "2028", "8006"})

# How long after the beginning of a submission its refusal ends it, when the question about it is
# refused or finds nothing: earlier the question could miss the transaction.
REFUSAL_FINAL_AFTER: Final = Span(2 * MINUTE)

# What may be shown as a native code: anything else is the operator's words.
_CODE: Final = re.compile(r"[A-Za-z0-9_.]{1,30}", re.ASCII)


def is_code(text: str) -> bool:
    return _CODE.fullmatch(text) is not None


@frozen
class MpesaErrorMapping:
    """Holds the reason of a failed payment for each direction of the money."""

    payin: ErrorCode = E.TRANSACTION_DECLINED
    payout: ErrorCode = E.TRANSACTION_DECLINED


# The meaning of each result code; the operator's page in the docs describes each. Unless a line
# says otherwise it is documented (developer.safaricom.co.ke, 2025-12): M-Pesa Express for pay-ins,
# Business To Customer for money out.
RESULT_CODES: Mapping[str, MpesaErrorMapping] = MappingProxyType(
    {
        "1": MpesaErrorMapping(E.USER_INSUFFICIENT_FUNDS, E.MERCHANT_INSUFFICIENT_FUNDS),
        "2": MpesaErrorMapping(E.AMOUNT_OUT_OF_RANGE, E.AMOUNT_OUT_OF_RANGE),
        "3": MpesaErrorMapping(E.AMOUNT_OUT_OF_RANGE, E.AMOUNT_OUT_OF_RANGE),
        "4": MpesaErrorMapping(E.USER_LIMIT_EXCEEDED, E.USER_LIMIT_EXCEEDED),
        "8": MpesaErrorMapping(E.TRANSACTION_DECLINED, E.USER_LIMIT_EXCEEDED),
        "11": MpesaErrorMapping(E.MERCHANT_MISCONFIGURED, E.MERCHANT_MISCONFIGURED),
        # Reported: "duplicate detected" in two programs' lists of codes; no page has it.
        "15": MpesaErrorMapping(E.DUPLICATE_REQUEST, E.DUPLICATE_REQUEST),
        # Documented for prompts only; for money out "internal failure" is reported.
        "17": MpesaErrorMapping(E.DUPLICATE_REQUEST, E.PROVIDER_UNAVAILABLE),
        # Reported: "unresolved initiator", in the same two lists.
        "20": MpesaErrorMapping(E.MERCHANT_MISCONFIGURED, E.MERCHANT_MISCONFIGURED),
        "21": MpesaErrorMapping(E.MERCHANT_MISCONFIGURED, E.MERCHANT_MISCONFIGURED),
        # Reported: "traffic blocking condition", in the same two lists.
        "26": MpesaErrorMapping(E.PROVIDER_UNAVAILABLE, E.PROVIDER_UNAVAILABLE),
        # Documented as a message of 500.001.1001 only; reported as a code by two programs.
        "1001": MpesaErrorMapping(payin=E.USER_BUSY),
        "1019": MpesaErrorMapping(E.USER_TIMEOUT, E.PROVIDER_TIMEOUT),
        "1025": MpesaErrorMapping(E.PROVIDER_UNAVAILABLE, E.PROVIDER_UNAVAILABLE),
        # Observed, not documented: 1031 by two shops (2021), 1036 by two (2018 and 2019).
        "1031": MpesaErrorMapping(payin=E.USER_CANCELLED),
        "1032": MpesaErrorMapping(payin=E.USER_CANCELLED),
        "1036": MpesaErrorMapping(payin=E.USER_TIMEOUT),
        "1037": MpesaErrorMapping(payin=E.USER_TIMEOUT),
        "2001": MpesaErrorMapping(E.USER_WRONG_PIN, E.MERCHANT_MISCONFIGURED),
        "2006": MpesaErrorMapping(E.MERCHANT_MISCONFIGURED, E.MERCHANT_MISCONFIGURED),
        "2028": MpesaErrorMapping(E.MERCHANT_MISCONFIGURED, E.MERCHANT_MISCONFIGURED),
        "2040": MpesaErrorMapping(payout=E.USER_NOT_FOUND),
        "8006": MpesaErrorMapping(E.USER_ACCOUNT_BLOCKED, E.MERCHANT_MISCONFIGURED),
        # Reported: "prompt not sent", by two programs.
        "9999": MpesaErrorMapping(E.PROVIDER_UNAVAILABLE, E.PROVIDER_UNAVAILABLE),
        # For prompts a wrong TransactionType or PartyB; for money out a number without M-Pesa.
        "SFC_IC0003": MpesaErrorMapping(E.MERCHANT_MISCONFIGURED, E.USER_NOT_FOUND),
    }
)


def find_error_mapping(code: str) -> MpesaErrorMapping:
    """Return the meaning of a result code other than 0."""
    return RESULT_CODES.get(code, MpesaErrorMapping())


# How long after its submission a payer can certainly not answer a prompt any more: it is open for
# about a minute.
PROMPT_LIFETIME = Span(3 * MINUTE)


def failure_of_prompt(code: str, *, age: Span) -> ErrorCode | None:
    """Return why a prompt of this age has failed whose query answers with a code other than 0; None
    while it is not certain that it has.

    Only a known code says so by itself: the payer may still enter the PIN after an unknown one.
    Once the prompt is over, an unknown number does as well; other texts never do."""
    if code in RESULT_CODES:
        return RESULT_CODES[code].payin

    is_over = age >= PROMPT_LIFETIME and code not in PAYIN_PENDING_CODES
    if is_over and is_error_number(code):
        return E.TRANSACTION_DECLINED

    return None


def is_error_number(code: str) -> bool:
    """Tell whether a code is a number other than 0, each of which Daraja documents as an error. A
    text such as `SFC_IC0003` means different things in different products."""
    return code.isascii() and code.isdigit() and code != SUCCESS


class MpesaSubmissionState(Enum):
    """Lists the states of a submission after an error response that is no failure."""

    UNKNOWN = "unknown"
    """Daraja may have received it: poll, do not repeat."""
    ACCEPTED = "taken"
    """Daraja has received it, and has not decided yet."""
    NOT_ACCEPTED = "not taken"
    """Daraja rejected it before processing, and it may be sent again."""
    ACCOUNT_REFUSED = "account refused"
    """Daraja, or a firewall in front of it, refuses what is the same in each request, such as the
    passkey or the shortcode: no payment can be sent until that is mended."""


@frozen
class MpesaErrorRule:
    """Describes one error response of Daraja and its meaning."""

    code: str
    """Its `errorCode`."""
    message_contains: str
    """A part of its `errorMessage`, in lower case and without spaces; empty: anything."""
    meaning: ErrorCode | MpesaSubmissionState


# The fields of a submission that follow from the account: Daraja would refuse each payment for
# them. Squeezed as the message is, whose spelling is not documented.
OWN_FIELDS: Final = (
    "shortcode",
    "initiator",
    "securitycredential",
    "callbackurl",
    "resulturl",
    "queuetimeouturl",
    "password",
    "timestamp",
    "transactiontype",
    "commandid",
)

# The first match counts. Rejections because of the access token or of rate limits move no money.
# Codes and messages are documented on the pages of the products, unless a line says otherwise.
ERROR_RULES: tuple[MpesaErrorRule, ...] = (
    MpesaErrorRule("400.002.02", "phonenumber", E.USER_NOT_FOUND),
    MpesaErrorRule("400.002.02", "partyb", E.USER_NOT_FOUND),
    MpesaErrorRule("400.002.02", "amount", E.AMOUNT_OUT_OF_RANGE),
    *(
        MpesaErrorRule("400.002.02", field, MpesaSubmissionState.ACCOUNT_REFUSED)
        for field in OWN_FIELDS
    ),
    # The access token, on three pages with three codes.
    MpesaErrorRule("400.003.01", "", MpesaSubmissionState.NOT_ACCEPTED),
    MpesaErrorRule("401.002.01", "", MpesaSubmissionState.NOT_ACCEPTED),
    # Observed by integrators, of registrations (mpesa-node-library#56); assumed of prompts.
    MpesaErrorRule("401.003.01", "noapiproductmatch", E.MERCHANT_MISCONFIGURED),
    MpesaErrorRule("404.001.03", "", MpesaSubmissionState.NOT_ACCEPTED),
    # One code with many meanings (M-Pesa Express); "being processed" is reported.
    MpesaErrorRule("500.001.1001", "beingprocessed", MpesaSubmissionState.ACCEPTED),
    MpesaErrorRule("500.001.1001", "locksubscriber", E.USER_BUSY),
    MpesaErrorRule("500.001.1001", "doesnotexist", MpesaSubmissionState.ACCOUNT_REFUSED),
    MpesaErrorRule("500.001.1001", "wrongcredentials", MpesaSubmissionState.ACCOUNT_REFUSED),
    # The first submission has arrived; "System internal error." has this code too, and no rule.
    MpesaErrorRule("500.002.1001", "duplicate", MpesaSubmissionState.ACCEPTED),
    # Too many requests: "spike arrest" and "quota violation".
    MpesaErrorRule("500.003.02", "", MpesaSubmissionState.NOT_ACCEPTED),
    MpesaErrorRule("500.003.03", "", MpesaSubmissionState.NOT_ACCEPTED),
)

# The `errorCode`s of an access token that is no longer valid, whatever the HTTP status.
TOKEN_ERROR_CODES = frozenset({"400.003.01", "401.002.01", "404.001.03"})


def lacks_product(code: str, message: str) -> bool:
    """Tell whether an error response says that the app does not have the product that it has asked
    for: "Invalid API call as no apiproduct match found". The access token is accepted."""
    return code == "401.003.01" and "noapiproductmatch" in _squeezed(message)


def _squeezed(message: str) -> str:
    return "".join(message.lower().split())


def interpret_error(
    status: int, code: str, message: str, *, is_resubmission: bool = False
) -> ErrorCode | MpesaSubmissionState:
    """Return the meaning of an error response for the payment that it rejects.

    An unlisted 4xx to a resubmission proves nothing: the rejection may be due to the earlier
    submission, if that has arrived after all."""
    # Daraja's messages differ in capitals and spaces between versions.
    squeezed = _squeezed(message)
    for rule in ERROR_RULES:
        if rule.code == code and rule.message_contains in squeezed:
            return rule.meaning

    # What has no rule is judged by its status.
    match status:
        case 401 | 429:
            return MpesaSubmissionState.NOT_ACCEPTED
        # A firewall in front of Daraja: it would turn the next payment away as well.
        case 403:
            return MpesaSubmissionState.ACCOUNT_REFUSED
        # A timeout at Daraja: it may have passed the request on (S6).
        case 408:
            return MpesaSubmissionState.UNKNOWN
        # A request that is at fault, and was never seen before: nothing was taken.
        case _ if 400 <= status < 500 and not is_resubmission:
            return E.MERCHANT_MISCONFIGURED
        case _:
            return MpesaSubmissionState.UNKNOWN


# Final states of a transaction, in lower case, without any money moved. Assumed: the documents show
# `Completed` only.
TRANSACTION_FAILURES: Mapping[str, ErrorCode] = MappingProxyType(
    {
        "cancelled": E.TRANSACTION_DECLINED,
        "declined": E.TRANSACTION_DECLINED,
        "failed": E.TRANSACTION_DECLINED,
        "expired": E.PROVIDER_TIMEOUT,
    }
)

# The state of a transaction whose money has moved. All other states are not final.
TRANSACTION_COMPLETED = "completed"
