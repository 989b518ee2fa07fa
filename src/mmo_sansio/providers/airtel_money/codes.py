"""What the operator's codes mean, as one table for each of its products and one for what stands before them.

A code alone seldom settles a payment: `standing` is what it says by itself, `error_code` what a payment failed of when
its own status says that it failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from attrs import frozen

from mmo_sansio.values.error_codes import ErrorCode


class Standing(StrEnum):
    """What a code says of a payment by itself."""

    DONE = "done"
    OPEN = "open"
    """Nothing final: ask."""
    REFUSED = "refused"
    """It was not and will not be carried out."""
    NEVER_TAKEN = "never taken"
    """No such payment is known there; final only after a safe wait."""


@frozen
class Code:
    """A row of a table."""

    native: str
    meaning: str
    standing: Standing
    error_code: ErrorCode | None
    """What a payment failed of; None where a failure with this code contradicts itself, and is asked about again."""
    message: str | None = None
    """The row is for messages with these words only; None: for any."""


_DONE, _OPEN, _REFUSED = Standing.DONE, Standing.OPEN, Standing.REFUSED
_MISCONFIGURED = ErrorCode.MERCHANT_MISCONFIGURED
_DECLINED = ErrorCode.TRANSACTION_DECLINED

COLLECTION: tuple[Code, ...] = (
    Code("DP00800001000", "ambiguous", _OPEN, None),
    Code("DP00800001001", "success", _DONE, _DECLINED),
    Code("DP00800001002", "incorrect PIN", _REFUSED, ErrorCode.USER_WRONG_PIN),
    Code("DP00800001003", "wallet limit exceeded", _REFUSED, ErrorCode.USER_LIMIT_EXCEEDED),
    Code("DP00800001004", "amount below minimum", _REFUSED, ErrorCode.AMOUNT_OUT_OF_RANGE),
    Code(
        "DP00800001005",
        "no such number",
        _REFUSED,
        ErrorCode.USER_NOT_FOUND,
        message="msisdn not found",
    ),
    Code("DP00800001005", "the PIN was not entered", _REFUSED, ErrorCode.USER_TIMEOUT),
    Code("DP00800001006", "in process", _OPEN, _DECLINED),
    Code("DP00800001007", "not enough balance", _REFUSED, ErrorCode.USER_INSUFFICIENT_FUNDS),
    Code("DP00800001008", "refused", _REFUSED, _DECLINED),
    Code("DP00800001009", "do not honour", _REFUSED, _DECLINED),
    Code("DP00800001010", "our till is barred or not registered", _REFUSED, _MISCONFIGURED),
    Code("DP00800001024", "timed out", _OPEN, ErrorCode.PROVIDER_TIMEOUT),
    Code("DP00800001025", "not found", _OPEN, ErrorCode.PROVIDER_TIMEOUT),
    Code("DP00800001026", "the signature does not match", _REFUSED, _MISCONFIGURED),
    Code("DP00800001029", "expired", _REFUSED, ErrorCode.TRANSACTION_EXPIRED),
)
"""Pay-ins. A second list in circulation says otherwise of 1007 and 1009; two independent ones agree with this."""

DISBURSEMENT: tuple[Code, ...] = (
    Code("DP00900001000", "ambiguous", _OPEN, None),
    Code("DP00900001001", "success", _DONE, None),
    Code("DP00900001003", "daily maximum reached", _REFUSED, ErrorCode.USER_LIMIT_EXCEEDED),
    Code("DP00900001004", "amount out of range", _REFUSED, ErrorCode.AMOUNT_OUT_OF_RANGE),
    Code("DP00900001005", "failed", _REFUSED, _DECLINED),
    Code("DP00900001006", "in process", _OPEN, _DECLINED),
    Code(
        "DP00900001007",
        "our wallet lacks funds",
        _REFUSED,
        ErrorCode.MERCHANT_INSUFFICIENT_FUNDS,
    ),
    Code("DP00900001009", "the payee is invalid", _REFUSED, ErrorCode.USER_NOT_FOUND),
    Code("DP00900001010", "our user may not pay", _REFUSED, _MISCONFIGURED),
    Code("DP00900001011", "a similar transaction exists", _OPEN, ErrorCode.DUPLICATE_REQUEST),
    Code("DP00900001012", "wrong mobile number", _REFUSED, ErrorCode.USER_NOT_FOUND),
    Code("DP00900001013", "refused", _REFUSED, _DECLINED),
    Code(
        "DP00900001014",
        "timed out, may have been processed",
        _OPEN,
        ErrorCode.PROVIDER_TIMEOUT,
    ),
    Code("DP00900001015", "not found", _OPEN, None),
    Code("DP00900001016", "signature or authorisation", _REFUSED, _MISCONFIGURED),
    Code("DP00900001017", "the transaction id was used before", _OPEN, None),
    Code("DP00900001018", "signature or authorisation", _REFUSED, _MISCONFIGURED),
    Code("DP00900001019", "signature or authorisation", _REFUSED, _MISCONFIGURED),
)
"""Pay-outs."""

GATEWAY: tuple[Code, ...] = (
    Code("ROUTER001", "no wallet configured", _REFUSED, _MISCONFIGURED),
    Code("ROUTER003", "a parameter is missing", _REFUSED, _MISCONFIGURED),
    Code("ROUTER005", "no route to the country", _REFUSED, _MISCONFIGURED),
    Code("ROUTER006", "bad country", _REFUSED, _MISCONFIGURED),
    Code("ROUTER007", "not provisioned for the country", _REFUSED, _MISCONFIGURED),
    Code("ROUTER112", "bad currency", _REFUSED, _MISCONFIGURED),
    Code("ROUTER114", "our PIN could not be validated", _REFUSED, _MISCONFIGURED),
    Code("ROUTER115", "our PIN is wrong", _REFUSED, _MISCONFIGURED),
    Code("ROUTER116", "our PIN could not be decrypted", _REFUSED, _MISCONFIGURED),
    Code("ROUTER117", "request timeout", _OPEN, ErrorCode.PROVIDER_TIMEOUT),
    Code("ROUTER119", "no currency", _REFUSED, _MISCONFIGURED),
    Code("ESB000001", "ambiguous", _OPEN, None),
    Code("ESB000004", "ambiguous", _OPEN, None),
    Code("ESB000008", "ambiguous", _OPEN, None),
    Code("ESB000010", "success of the request", _OPEN, _DECLINED),
    Code("ESB000011", "failed", _REFUSED, _DECLINED),
    Code("ESB000014", "ambiguous", _OPEN, None),
    Code("0000900", "ambiguous", _OPEN, None),
    Code("ESB000033", "bad length of the number", _REFUSED, ErrorCode.USER_NOT_FOUND),
    Code("ESB000034", "bad country or currency", _REFUSED, _MISCONFIGURED),
    Code("ESB000035", "bad country or currency", _REFUSED, _MISCONFIGURED),
    Code("ESB000036", "bad length of the number", _REFUSED, ErrorCode.USER_NOT_FOUND),
    Code("ESB000039", "vendor not configured", _REFUSED, _MISCONFIGURED),
    Code("ESB000041", "the transaction id was used before", _OPEN, None),
    Code("ESB000045", "no such transaction", Standing.NEVER_TAKEN, None),
    Code("DP02200000002", "user not found", _REFUSED, ErrorCode.USER_NOT_FOUND),
    Code("DP02100000002", "user not found", _REFUSED, ErrorCode.USER_NOT_FOUND),
)
"""What stands before the products, and codes of old."""

TABLES: Mapping[str, tuple[Code, ...]] = MappingProxyType(
    {"Pay-ins": COLLECTION, "Pay-outs": DISBURSEMENT, "Before both": GATEWAY}
)
"""Every table, for the documentation and for tests."""

STALE_KEY = frozenset({"DP00800001026", "ROUTER116"})
"""What is answered when the operator has another key by now; a fresh one is fetched, once."""

REFUSED_BY_PAYER = "DP00800001008"
"""The payer's refusal in markets that confirm it; elsewhere it is any refusal."""

HTTP_REFUSALS: Mapping[int, ErrorCode] = MappingProxyType(
    {401: _MISCONFIGURED, 403: _MISCONFIGURED}
)
"""Answers without a code of their own after which a submission was certainly not carried out."""


def meaning_of(native: str | None, message: str | None, product: tuple[Code, ...]) -> Code | None:
    """The row for a code and its message, of the product or of what stands before it; None for a code that nobody
    has written down."""
    told = (message or "").lower()
    for code in product + GATEWAY:
        if code.native == native and (code.message is None or code.message in told):
            return code
    return None


def is_open_status(status: int) -> bool:
    """Whether an answer with this HTTP status leaves open what became of the request, whatever its body says."""
    return status == 408 or status >= 500
